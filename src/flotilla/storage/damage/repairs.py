"""Repaired entries on their way to the segments that lost them."""

from collections.abc import Iterable
from dataclasses import dataclass

from flotilla.raft.messages import Entry
from flotilla.storage.damage.ranges import IndexRanges
from flotilla.types.ids import Index
from flotilla.types.records import Span


@dataclass(slots=True, eq=False)
class RepairedEntry:
    """The body of a damaged entry, fetched again, but not in its segment yet."""

    entry: Entry
    head: bytes
    span: Span | None
    #: Otherwise a crash loses it, and the entry is damaged again.
    is_journaled: bool = True


class Overlay:
    """Repaired entries by index: they override segments and tail until a flush has rewritten those."""

    __slots__ = ("_entries", "ranges")

    def __init__(self) -> None:
        self._entries: dict[Index, RepairedEntry] = {}
        #: The indexes of all of them.
        self.ranges = IndexRanges()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __contains__(self, index: Index) -> bool:
        return index in self._entries

    def get(self, index: Index) -> RepairedEntry | None:
        return self._entries.get(index)

    def within(self, low: Index, high: Index) -> list[RepairedEntry]:
        """Those in [low, high), ascending."""
        parts = self.ranges.within(low, high)
        return [self._entries[index] for first, end in parts for index in range(first, end)]

    def add(self, repairs: list[RepairedEntry]) -> None:
        self._entries.update((repaired.entry.index, repaired) for repaired in repairs)
        self.ranges.add_each(repaired.entry.index for repaired in repairs)

    def remove(self, repairs: Iterable[RepairedEntry]) -> None:
        """Removes these, but not what has taken their place."""
        gone = IndexRanges()
        gone.add_each(
            repaired.entry.index for repaired in repairs if self._entries.get(repaired.entry.index) is repaired
        )
        for low, high in gone.as_list():
            self.forget(low, high)

    def forget(self, low: Index, high: Index) -> None:
        for repaired in self.within(low, high):
            del self._entries[repaired.entry.index]
        self.ranges.remove(low, high)


class UnsavedRepairs:
    """Repaired entries that are neither journaled nor in a segment that a durable checkpoint names."""

    __slots__ = ("_entries", "size_bytes")

    def __init__(self) -> None:
        self._entries: dict[Index, RepairedEntry] = {}
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, repaired: RepairedEntry) -> None:
        self.remove(repaired.entry.index)
        self._entries[repaired.entry.index] = repaired
        self.size_bytes += repaired.entry.size_bytes

    def remove(self, index: Index) -> None:
        repaired = self._entries.pop(index, None)
        if repaired is not None:
            self.size_bytes -= repaired.entry.size_bytes

    def forget(self, low: Index, high: Index) -> None:
        """The log lost these entries: they were truncated or compacted."""
        for index in [index for index in self._entries if low <= index < high]:
            self.remove(index)

    def saved(self, repairs: Iterable[RepairedEntry]) -> None:
        """A durable checkpoint names the segments with these. An entry may have been lost and repaired again since."""
        for repaired in repairs:
            if self._entries.get(repaired.entry.index) is repaired:
                self.remove(repaired.entry.index)
