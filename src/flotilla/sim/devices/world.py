"""Simulated time: one queue of events, one clock in integer microseconds, randomness from one seed.

Events of the same microsecond run in the order in which they were scheduled, so a run is a function of its seed alone.
Every concern draws from its own random stream: a new check or a new kind of fault never shifts what the others draw.
The digest folds in what happens (not how it is traced) as cheap integers; two runs with the same digest took the same
path.

The world knows nothing of nodes, messages or disks.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import TypeAlias

MS = 1_000
SECOND = 1_000_000

_MASK = (1 << 64) - 1
_FACTOR = 0x9E37_79B9_7F4A_7C15

Event: TypeAlias = tuple[int, int, Callable[..., None], tuple[object, ...]]


class World:
    """The event queue. `now_us` moves only between events."""

    __slots__ = ("_heap", "_sequence", "digest", "event_count", "now_us", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.digest = 0
        self.event_count = 0
        self._heap: list[Event] = []
        self._sequence = 0

    def stream(self, name: str) -> Random:
        """A random stream of its own, independent of the hash seed and of all other streams."""
        return Random(f"{self.seed}/{name}")

    def after(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        assert delay_us >= 0, "time does not go back"
        self._sequence += 1
        heappush(self._heap, (self.now_us + delay_us, self._sequence, action, arguments))

    def at(self, time_us: int, action: Callable[..., None], *arguments: object) -> None:
        self._sequence += 1
        heappush(self._heap, (max(time_us, self.now_us), self._sequence, action, arguments))

    def run_until(self, end_us: int) -> None:
        """Runs every event up to and including end_us, and stops the clock there."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, action, arguments = heappop(heap)
            self.event_count += 1
            action(*arguments)
        self.now_us = max(self.now_us, end_us)

    def mix(self, value: int) -> None:
        """Folds something that happened now into the digest."""
        self.digest = ((self.digest ^ value ^ self.now_us) * _FACTOR + 1) & _MASK
