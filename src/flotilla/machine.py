"""The machine that this code runs on: clocks, chance, threads, listening sockets, and its name.

Nothing else in a broker or an asyncio client reads a clock, starts a thread or draws a random number. So the
simulator runs both unchanged: it puts a machine of its own here while one of its processes has its turn, as asyncio
does with the running loop. Everything else has the real machine.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from random import Random, SystemRandom
from typing import Protocol

#: Connections that wait in the system to be accepted.
_BACKLOG = 1_024
#: Where the system has no limit.
_UNLIMITED = 1 << 20


class Lane(Protocol):
    """A thread that carries out actions one at a time, in order. The actions do not raise."""

    def put(self, action: Callable[[], None]) -> None: ...

    def close(self, wait_s: float | None = None) -> None:
        """Ends the thread after the actions that it has, and waits for that."""


def _uptime_ns() -> Callable[[], int]:
    """Linux counts suspended time in a clock of its own, and macOS in this one, unlike `time.monotonic`."""
    if not hasattr(time, "clock_gettime_ns"):
        return time.monotonic_ns
    return partial(time.clock_gettime_ns, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Machine:
    """The real one; the simulator overrides every method."""

    def now_ms(self) -> int:
        """The wall clock."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """The monotonic clock: it is never set."""
        return time.monotonic_ns() // 1_000_000

    #: Monotonic time, with the time in which the machine was suspended where the system counts it.
    uptime_ns: Callable[[], int] = staticmethod(_uptime_ns())
    #: For durations.
    elapsed_ns: Callable[[], int] = staticmethod(time.perf_counter_ns)

    def chance(self) -> Random:
        """A generator of its own. Two processes that began as one do not draw the same."""
        return Random(SystemRandom().getrandbits(128))

    def secret(self, count: int) -> bytes:
        """Random bytes that nobody can guess."""
        return os.urandom(count)

    def lane(self, name: str) -> Lane:
        """Starts a thread."""
        return _Thread(name)

    def listen(self, family: int, address: tuple[object, ...]) -> socket.socket:
        """A listening socket that does not block. Raises OSError."""
        return _listening(family, address)

    def descriptors_max(self) -> int:
        """How many files and sockets this process may open."""
        import resource  # absent on Windows, where only clients run

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)

    def host_name(self) -> str:
        return socket.gethostname()

    def process_id(self) -> int:
        return os.getpid()


_here: Machine = Machine()


def here() -> Machine:
    """The machine of the code that runs now."""
    return _here


def enter(machine: Machine) -> Machine:
    """Code that runs from now on runs on this machine. Returns the one before. For the simulator."""
    global _here
    before, _here = _here, machine
    return before


def now_ms() -> int:
    """The wall clock."""
    return _here.now_ms()


def steady_ms() -> int:
    """The monotonic clock."""
    return _here.steady_ms()


class _Thread:
    """A round trip through it took 13 us, through an executor 91."""

    def __init__(self, name: str) -> None:
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        self.put = self._inbox.put

    def close(self, wait_s: float | None = None) -> None:
        self._inbox.put(None)
        self._thread.join(wait_s)

    def _work(self) -> None:
        while (action := self._inbox.get()) is not None:
            action()


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
