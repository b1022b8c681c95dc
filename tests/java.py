"""The Java client for tests: Maven fetches what it needs once, and works offline from then on."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest

SDK: Final = Path(__file__).parents[1] / "sdks" / "java"
JAVA_MAJOR_MIN: Final = 17
MAVEN: Final = ("mvn", "--batch-mode", "--offline", "--quiet")
#: Of JVMs that live for seconds: the quick compiler alone takes a third of the time, and needs no threads of its own.
_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx768m"
#: Which of the client's tests run while Maven fetches: the smallest, so that it has fetched what tests need.
_FETCH: Final = ("mvn", "--batch-mode", "--quiet", "install", "-Dmaven.install.skip=true", "-Dtest=ErrorsTest")
_FETCH_SECONDS_MAX: Final = 240
#: The tests that build the client run in one process.
IN_ONE_PROCESS = pytest.mark.xdist_group("java")
#: Where Maven keeps what it has fetched.
REPOSITORY: Final = Path.home() / ".m2" / "repository"
#: What Maven says when it cannot fetch something.
_UNFETCHED: Final = re.compile(r"Could not (?:transfer|resolve|find)|Unknown host|Connection (?:refused|timed out)")


def need_maven() -> None:
    """Skips the test where Maven or its Java is missing or too old."""
    failure = _lacking()
    if failure:
        pytest.skip(failure)


@cache
def _lacking() -> str:
    if shutil.which("mvn") is None:
        return "mvn is not installed"
    version = subprocess.run(["mvn", "-v"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Java version: (\d+)", version)
    if found is None or int(found[1]) < JAVA_MAJOR_MIN:
        return f"mvn has no Java {JAVA_MAJOR_MIN}"
    with building():
        return _fetch()


def _fetch() -> str:
    """Why Maven lacks what the client is made of; empty: it has everything."""
    stamp = SDK / "target" / ".fetched"
    if (REPOSITORY / "io").is_dir() and stamp.exists() and stamp.stat().st_mtime > (SDK / "pom.xml").stat().st_mtime:
        return ""
    try:
        fetched = subprocess.run(
            _FETCH, cwd=SDK, env=environment(), capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return f"Maven did not fetch the dependencies of the Java client within {_FETCH_SECONDS_MAX} s"
    if fetched.returncode and _UNFETCHED.search(fetched.stdout):
        return "Maven cannot fetch the dependencies of the Java client, perhaps for lack of a registry"
    assert fetched.returncode == 0, fetched.stdout[-4000:]
    stamp.touch()
    return ""


def environment() -> dict[str, str]:
    """For Maven."""
    return os.environ | {"MAVEN_OPTS": _JVM}


@contextmanager
def building() -> Iterator[None]:
    """Held while Maven works in the folder of the client: two runs of it write the same classes."""
    with (SDK / "pom.xml").open("rb") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
