"""A product that may be installed here, and the processes of one that is."""

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Protocol

from bench.subject import Subject

HOST = "127.0.0.1"
NODES = (1, 2, 3)
#: What a product may take to start, and to stop before it is killed.
_START_S_MAX = 60.0
_STOP_S_MAX = 20.0
_POLL_S = 0.1


class Peer(Protocol):
    product: str
    #: Whether it is made to sync before it acknowledges, for each way in which it is to be measured.
    settings: tuple[bool, ...]

    def missing(self) -> str:
        """Which programs and packages are not here; empty when it can run."""

    def started(self, folder: Path, *, is_synced: bool) -> AbstractContextManager[Subject]:
        """Its nodes with their data in the folder, and a client."""


def not_found(programs: Sequence[str], packages: Sequence[str]) -> str:
    absent = [program for program in programs if which(program) is None]
    absent += [f"Python package {package}" for package in packages if find_spec(package) is None]
    return ", ".join(absent)


def free_ports(count: int) -> list[int]:
    """All held until the last one is found, so that none is found twice."""
    held = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


class Processes:
    """The servers of a peer; they end with the block, in order if they can."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self._folder
            )
        self._running.append(process)

    def wait_listening(self, ports: Sequence[int]) -> None:
        deadline = time.monotonic() + _START_S_MAX
        for port in ports:
            while not _is_listening(port):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"nothing listens on port {port}; see {self._folder}")
                time.sleep(_POLL_S)

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def retried_until(deadline_s: float, error: type[Exception] | tuple[type[Exception], ...]) -> "Attempts":
    """For what a cluster refuses until it is complete: `for attempt in retried_until(...): with attempt: ...`."""
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
