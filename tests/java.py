"""The Java client for tests: Maven works offline, with what `make sdks` has had it fetch once."""

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
#: The tests that build the client run in one process.
IN_ONE_PROCESS = pytest.mark.xdist_group("java")
#: What Maven says when it has not fetched something yet.
_OFFLINE: Final = re.compile(r"offline mode|has not been downloaded")


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


def check_fetched(output: str) -> None:
    """Skips the test when a failed run of Maven lacked what it may not fetch offline."""
    if _OFFLINE.search(output):
        pytest.skip("Maven has not fetched the dependencies of the Java client yet: make sdks")
