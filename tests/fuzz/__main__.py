"""`python -m tests.fuzz [--minutes N] [--only TEXT]`: all targets in turns, each in a process of its own, with atheris.

atheris follows which branches the input reaches. A finding ends its process: the input is kept in `.fuzz/`, and the
exit code is 1. Inputs that reached something new are kept there, too, and the next run begins with them.

The second half of the time is for the same targets under `python -O`: no decoder relies on an assert to refuse bytes.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(".fuzz")
_MODE = ", without asserts" if sys.flags.optimize else ""
#: How much of a finding is printed.
_SHOWN_CHARS = 4_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=10, help="for all targets together")
    parser.add_argument("--only", default="", help="targets whose name has this text")
    chosen = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris")
        return 2
    with atheris.instrument_imports(include=["flotilla"]):
        from tests.fuzz.targets import TARGETS
    targets = [target for target in TARGETS if chosen.only in target.name]
    seconds = max(1, round(chosen.minutes / 2 * 60 / max(len(targets), 1)))
    failed = []
    for target in targets:
        folder = FOLDER / target.name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        for number, example in enumerate(target.examples()):
            (folder / f"example-{number}").write_bytes(example)
        log = folder.with_suffix(".log")
        # The library never returns, and instrumenting takes longer than a short run: so each target is a fork.
        child = os.fork()
        if not child:
            _fuzz(atheris, target, folder, log, seconds)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = log.read_text(errors="replace")
        runs = re.findall(r"Done (\d+) runs", text)
        verdict = "FOUND" if code else "ok"
        print(f"{target.name:30} {verdict:6} {runs[-1] if runs else '?':>10} runs{_MODE}", flush=True)
        if code:
            failed.append(target.name)
            print(text[-_SHOWN_CHARS:])
    print(f"{len(targets)} targets, {len(failed)} with findings{_MODE}", *failed, flush=True)
    if sys.flags.optimize:
        return 1 if failed else 0
    again = subprocess.run([sys.executable, "-O", "-m", "tests.fuzz", *sys.argv[1:]], check=False)
    return 1 if failed else again.returncode


def _fuzz(atheris: Any, target: Any, folder: Path, log: Path, seconds: int) -> None:
    """Never returns."""
    from tests.fuzz.targets import attempt

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(output, stream)
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={folder}/finding-", "-max_len=65536", str(folder)]

    def once(data: bytes) -> None:
        attempt(target, data)

    atheris.Setup([sys.argv[0], *options], once)
    atheris.Fuzz()
    os._exit(0)


if __name__ == "__main__":
    raise SystemExit(main())
