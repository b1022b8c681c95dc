"""The server processes of a peer: started in a private folder, measured, killed, and gone with the block.

Some servers are a script with the real process below it, so each has its own process group, and signals go
to the group.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bench.peers.peer import HOST

#: Time limits for a start, and for a stop before the kill.
_START_S_MAX = 90.0
_STOP_S_MAX = 20.0
_POLL_S = 0.05
Number = TypeVar("Number", int, float)


class Processes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
                start_new_session=True,
            )

    def wait_listening(self, ports: Sequence[int]) -> None:
        deadline = time.monotonic() + _START_S_MAX
        for port in ports:
            while not _is_listening(port):
                ended = [name for name, process in self._running.items() if process.poll() is not None]
                if ended or time.monotonic() > deadline:
                    raise TimeoutError(f"nothing listens on port {port}\n{self._last_words()}")
                time.sleep(_POLL_S)

    def kill(self, name: str) -> None:
        """As `kill -9` does, to the server and to all it started."""
        process = self._running.pop(name)
        _signal(process, signal.SIGKILL)
        process.wait()

    def resident_bytes(self) -> list[int]:
        """The memory of each server with all of its processes, in the order of their start."""
        return [sum(_of(resident_bytes, pids)) for pids in self._members().values()]

    def busy_s(self) -> float:
        """Processor time that all servers have used."""
        return sum(sum(_of(busy_s, pids)) for pids in self._members().values())

    def _members(self) -> dict[int, list[int]]:
        """The processes of each group, by the group's id."""
        groups: dict[int, list[int]] = {process.pid: [] for process in self._running.values()}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                group = int(_fields(int(folder.name))[2])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if group in groups:
                groups[group].append(int(folder.name))
        return groups

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S_MAX
        for process in self._running.values():
            while _is_alive(process) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            _signal(process, signal.SIGKILL)
            process.wait()

    def _last_words(self) -> str:
        """The end of every log, because the folder is removed."""
        logs = {name: (self._folder / f"{name}.log").read_text("utf-8", "replace") for name in self._running}
        return "\n".join(f"{name}: {text[-500:]}" for name, text in logs.items())


def _of(read: Callable[[int], Number], pids: Iterable[int]) -> Iterator[Number]:
    """One value per live process; servers start short-lived ones of their own."""
    for pid in pids:
        try:
            yield read(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue


def resident_bytes(pid: int) -> int:
    """The memory of one process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def busy_s(pid: int) -> float:
    """Processor time that one process has used."""
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """Of /proc, from the state on; the name before it may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def _is_alive(process: "subprocess.Popen[bytes]") -> bool:
    """Whether anything of its group is left. One that has ended is let go of first, or it would count."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
