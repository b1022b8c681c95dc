"""Programs in processes of their own: what they print must not depend on how Python hashes texts there."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Two are enough: texts are hashed differently under any two of them.
HASH_SEEDS = ("1", "2")


def printed(program: str, hash_seed: str) -> list[str]:
    """The lines that a program prints under a hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
