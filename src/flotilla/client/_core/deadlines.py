"""Deadlines of many items: finds the first overdue one at a cost that does not grow with their count.

A heap with lazy deletion: an entry whose item left, or got another deadline, stays until it comes up, or until most
entries are stale.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

#: A smaller heap is not worth cleaning.
_STALE_COUNT_MIN: Final = 16


class Deadlines(Generic[Item]):
    __slots__ = ("_count", "_deadlines_ms", "_heap")

    def __init__(self) -> None:
        #: The valid deadlines; a heap entry that differs is stale.
        self._deadlines_ms: dict[Item, int] = {}
        #: The count orders equal deadlines, so items are never compared.
        self._heap: list[tuple[int, int, Item]] = []
        self._count = 0

    def put(self, item: Item, deadline_ms: int) -> None:
        """Sets or replaces the deadline of an item."""
        if item in self._deadlines_ms:
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
        """The earliest deadline; None: there is none."""
        while self._heap and self._is_stale(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_overdue(self, now_ms: int) -> Item | None:
        """Removes the item with the earliest deadline, if that has passed."""
        if not self._heap or self._heap[0][0] > now_ms:
            # Stale or not, all other entries are later.
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
