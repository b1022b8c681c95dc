"""A product that may be installed here: its requirements, and helpers for all products."""

import re
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Protocol

from bench.subject import Contestant

HOST = "127.0.0.1"
_POLL_S = 0.1


class Peer(Protocol):
    product: str
    #: Whether it is made to sync before it acknowledges, for each way in which it is to be measured.
    settings: tuple[bool, ...]

    def missing(self) -> str:
        """The missing programs and packages; empty if it can run."""

    def version(self) -> str:
        """Of the server that would be started."""

    def started(self, folder: Path, *, nodes: int, is_synced: bool) -> AbstractContextManager[Contestant]:
        """Its nodes with their data in the folder, and a client. One that knows no majority starts one node."""


def title(product: str, nodes: int, *, is_synced: bool) -> str:
    return f"{product}:{'fsync' if is_synced else 'default'}@{nodes}"


def not_found(programs: Sequence[str], packages: Sequence[str]) -> str:
    absent = [program for program in programs if which(program) is None]
    absent += [f"the Python package {package}" for package in packages if find_spec(package) is None]
    return ", ".join(absent)


def version_of(*command: str) -> str:
    """What looks like a version in what a program says."""
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    return found[0] if found else "unknown"


def free_ports(count: int) -> list[int]:
    """All held until the last one is found, so that none is found twice."""
    held = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


def retried_until(deadline_s: float, error: type[Exception] | tuple[type[Exception], ...]) -> "Attempts":
    """Retries what a cluster refuses until it is complete: `for attempt in retried_until(...): with attempt: ...`."""
    return Attempts(time.monotonic() + deadline_s, error)


class Attempts:
    def __init__(self, deadline: float, error: type[Exception] | tuple[type[Exception], ...]) -> None:
        self._deadline = deadline
        self._error = error
        self._is_done = False

    def __iter__(self) -> "Attempts":
        return self

    def __next__(self) -> "Attempts":
        if self._is_done:
            raise StopIteration
        return self

    def __enter__(self) -> None:
        self._is_done = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, self._error) and time.monotonic() < self._deadline:
            self._is_done = False
            time.sleep(_POLL_S)
            return True
        return False
