"""Messages of one group that wait for their next attempt at one leader, by time.

`taken` has the place of each: an entry here counts for the messages that have its very time there.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import groupby, islice
from operator import itemgetter

from flotilla.partition.leader.delays import in_order
from flotilla.partition.leader.places import RETRYING
from flotilla.partition.offset_runs import Run, RunMap
from flotilla.types.ids import Offset


class Retries:
    __slots__ = ("_heap", "_taken")

    def __init__(self, taken: RunMap[int]) -> None:
        self._taken = taken
        #: (time, first, end).
        self._heap: list[tuple[int, Offset, Offset]] = []

    def add(self, first: Offset, end: Offset, until_ms: int) -> None:
        self._taken.set(first, end, RETRYING + until_ms)
        heappush(self._heap, (until_ms, first, end))

    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, count_max: int) -> Iterator[Run]:
        """Frees messages whose time has come, of up to `count_max` entries."""
        for _ in range(count_max):
            if not self._heap or self._heap[0][0] > now_ms:
                break
            due_ms, first, end = heappop(self._heap)
            for low, high, place in list(self._taken.within(first, end)):
                if place == RETRYING + due_ms:
                    self._taken.remove(low, high)
                    yield low, high

    def end(self, offset: Offset) -> bool:
        """Frees one message before its time. False: it does not wait."""
        place = self._taken.get(offset)
        if place is None or place < RETRYING:
            return False
        self._taken.remove(offset, offset + 1)
        return True

    def soonest(self, looks_max: int) -> Iterator[tuple[int, Offset, Offset]]:
        """(time, first, end) of what comes next, in that order. Nothing may change while they are iterated."""
        for due_ms, entries in groupby(islice(in_order(self._heap), looks_max), itemgetter(0)):
            pieces = [piece for _, first, end in entries for piece in self._taken.within(first, end)]
            for low, high in sorted({(low, high) for low, high, place in pieces if place == RETRYING + due_ms}):
                yield due_ms, low, high

    def __len__(self) -> int:
        """Entries that `soonest` goes through."""
        return len(self._heap)
