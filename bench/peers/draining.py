"""A backlog that several consumer processes take and acknowledge.

The clock starts when all are connected and stops when the last message is acknowledged by the client that has it.
"""

import multiprocessing
from collections.abc import Callable
from time import perf_counter
from typing import Any

_CONTEXT = multiprocessing.get_context("spawn")
_CONNECT_S_MAX = 60.0
_DRAIN_S_MAX = 120.0
_TURN_S = 0.1


class Tally:
    """The remaining backlog and the common start. Shared by the consumers."""

    def __init__(self, count: int, consumers: int) -> None:
        self._left = _CONTEXT.Value("q", count)
        self._ordinal = _CONTEXT.Value("q", 0)
        self._beginning = _CONTEXT.Barrier(consumers + 1)
        self._end = _CONTEXT.Event()
        # One clock for all processes of a machine.
        self._began_at = _CONTEXT.Value("d", 0.0)
        self._ended_at = _CONTEXT.Value("d", 0.0)

    def take_ordinal(self) -> int:
        """Another number for each consumer, from 0 on."""
        with self._ordinal.get_lock():
            ordinal: int = self._ordinal.value
            self._ordinal.value += 1
        return ordinal

    def begin(self) -> None:
        """Waits for the others. The first one to continue sets the start, because this process may be woken last."""
        self._beginning.wait(_CONNECT_S_MAX)
        with self._began_at.get_lock():
            self._began_at.value = self._began_at.value or perf_counter()

    def add(self, count: int) -> None:
        """Counts acknowledged messages."""
        with self._left.get_lock():
            self._left.value -= count
            if self._left.value <= 0 and not self._end.is_set():
                self._ended_at.value = perf_counter()
                self._end.set()

    @property
    def is_done(self) -> bool:
        return self._end.is_set()

    def wait_done(self, check: Callable[[], None]) -> float:
        """Seconds from the beginning to the last acknowledgement. `check` raises when there is nothing to wait for."""
        deadline = perf_counter() + _DRAIN_S_MAX
        while not self._end.wait(_TURN_S):
            check()
            if perf_counter() > deadline:
                raise TimeoutError(f"{self._left.value} messages were not acknowledged")
        elapsed_s: float = self._ended_at.value - self._began_at.value
        return elapsed_s


def drained(consume: Callable[[Any, str, Tally], None], address: Any, queue: str, count: int, consumers: int) -> float:
    """Messages per second. `consume` connects, begins, and counts what it acknowledges until all is done."""
    tally = Tally(count, consumers)
    workers = [_CONTEXT.Process(target=consume, args=(address, queue, tally)) for _ in range(consumers)]

    def check() -> None:
        if any(worker.exitcode for worker in workers):
            raise RuntimeError("a consumer has failed")

    for worker in workers:
        worker.start()
    try:
        tally.begin()
        return count / tally.wait_done(check)
    finally:
        for worker in workers:
            worker.join(10)
            worker.kill()
            worker.join()
