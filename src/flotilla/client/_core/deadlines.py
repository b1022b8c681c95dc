"""Which of many waiting things is overdue first, at a cost that does not grow with how many wait.

A heap that forgets lazily: what left, or got another deadline, stays in it until it comes up, or until most of
the heap is like that.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

#: Below that, forgetting is not worth the trouble.
_STALE_COUNT_MIN: Final = 16


class Deadlines(Generic[Item]):
    __slots__ = ("_count", "_deadlines_ms", "_heap")

    def __init__(self) -> None:
        #: What is true; an entry of the heap that says otherwise is stale.
        self._deadlines_ms: dict[Item, int] = {}
        #: The count lets equal deadlines end in their order, and nobody has to compare the items.
        self._heap: list[tuple[int, int, Item]] = []
        self._count = 0

    def put(self, item: Item, deadline_ms: int) -> None:
        """Replaces the deadline that it had."""
        if item in self._deadlines_ms:
            # What it had stays in the heap.
            self._forget_stale()
        self._deadlines_ms[item] = deadline_ms
        self._count += 1
        heappush(self._heap, (deadline_ms, self._count, item))

    def discard(self, item: Item) -> None:
        self._deadlines_ms.pop(item, None)
        if self._deadlines_ms:
            self._forget_stale()
        else:
            self._heap.clear()

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline; None: nothing waits."""
        while self._heap and self._is_stale(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_overdue(self, now_ms: int) -> Item | None:
        """Takes out what should have ended first, if its time is over."""
        if not self._heap or self._heap[0][0] > now_ms:
            # Stale or not: what is behind it is later still.
            return None
        next_ms = self.next_ms
        if next_ms is None or next_ms > now_ms:
            return None
        item = heappop(self._heap)[2]
        del self._deadlines_ms[item]
        return item

    def _is_stale(self, entry: tuple[int, int, Item]) -> bool:
        return self._deadlines_ms.get(entry[2]) != entry[0]

    def _forget_stale(self) -> None:
        if len(self._heap) > 2 * len(self._deadlines_ms) + _STALE_COUNT_MIN:
            self._heap = [entry for entry in self._heap if not self._is_stale(entry)]
            heapify(self._heap)
