"""The TypeScript client for tests: installed, built, and run by the `node` of this machine.

One process builds at a time, and only what has changed since: a build begins by removing the last one, and a test that
packs or runs the client at that moment finds half of it.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

SDK = Path(__file__).parents[1] / "sdks" / "typescript"
NODE_MAJOR_MIN = 20
#: The tests that share the built client run in one process.
IN_ONE_PROCESS = pytest.mark.xdist_group("typescript")
_INSTALL_SECONDS_MAX = 120


def built() -> Path:
    """The folder of the client, built with its tests. Skips the test where that cannot be."""
    failure = _build()
    if failure:
        pytest.skip(failure)
    return SDK


@cache
def _build() -> str:
    """Why the client is not tested here; empty: it is built."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are not installed"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < NODE_MAJOR_MIN:
        return f"node is {version}, and the client needs {NODE_MAJOR_MIN}"
    with (SDK / "package.json").open("rb") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        return _build_alone(npm)


def _build_alone(npm: str) -> str:
    installed = SDK / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (SDK / "package-lock.json").stat().st_mtime:
        try:
            subprocess.run(
                [npm, "ci", "--prefer-offline"],
                cwd=SDK,
                capture_output=True,
                text=True,
                check=True,
                timeout=_INSTALL_SECONDS_MAX,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return f"npm ci failed, perhaps for lack of a registry: {error.stderr or error}"
        installed.touch()
    stamp = SDK / "build" / ".stamp"
    if not stamp.exists() or stamp.stat().st_mtime < _changed(installed):
        built = subprocess.run([npm, "run", "build-all"], cwd=SDK, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
        stamp.touch()
    return ""


def _changed(installed: Path) -> float:
    """When the newest of the sources was written."""
    sources = [path for folder in ("src", "test", "examples") for path in (SDK / folder).rglob("*")]
    return max(path.stat().st_mtime for path in [*sources, SDK / "package.json", SDK / "tsconfig.json", installed])


def environment() -> dict[str, str]:
    """For programs that start brokers of this project."""
    return {**os.environ, "FLOTILLA": f"{sys.executable} -m flotilla.cli"}


def run(*arguments: str, seconds_max: int = 240) -> str:
    """Runs `node` in the folder of the client, and returns what it printed. Its folders are removed in any case."""
    with TemporaryDirectory(prefix="flotilla-ts-", ignore_cleanup_errors=True) as folder:
        done = subprocess.run(
            ["node", *arguments],
            cwd=SDK,
            env={**environment(), "TMPDIR": folder},
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-8_000:]
    return done.stdout
