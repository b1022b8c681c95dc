"""Repaired entries on their way to the segments that lost them."""

from collections.abc import Iterable
from dataclasses import dataclass

from flotilla.raft.messages import Entry
from flotilla.types.ids import Index
from flotilla.types.span import Span


@dataclass(slots=True, eq=False)
class RepairedEntry:
    """The body of a damaged entry, fetched again, but not in its segment yet."""

    entry: Entry
    head: bytes
    span: Span | None
    #: Otherwise a crash loses it, and the entry is damaged again.
    is_journaled: bool = True


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
