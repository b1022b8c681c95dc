"""Generated code is what proto/ says: `make proto` would change nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import GENERATED, ROOT, SOURCE

#: The contract with services, for which stubs are made.
SERVICES = "flotilla.proto"

pytest.importorskip("grpc_tools", reason="grpcio-tools, part of the dev extra, makes the code to compare with")


def test_generated_code_is_fresh(tmp_path: Path) -> None:
    folder = GENERATED.relative_to(SOURCE).as_posix()
    names = sorted(path.name for path in (ROOT / "proto").glob("*.proto"))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{folder}=proto",
            f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}",
            *(f"{folder}/{name}" for name in names),
        ],
        cwd=ROOT,
        check=True,
    )
    stubs = ["-m", "grpc_tools.protoc", f"-I{folder}=proto", f"--grpc_python_out={tmp_path}", f"{folder}/{SERVICES}"]
    subprocess.run([sys.executable, *stubs], cwd=ROOT, check=True)
    made = {path.name: path.read_text("utf-8") for path in (tmp_path / folder).iterdir()}
    kept = {path.name: path.read_text("utf-8") for path in GENERATED.glob("*_pb2*.py*")}
    assert sorted(kept) == sorted(made)
    stale = [name for name in sorted(made) if kept[name] != made[name]]
    assert stale == [], "run `make proto`"
