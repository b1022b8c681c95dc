"""The newest part of a group's log: entries that are in the journal but not in a segment yet.

Each entry is kept with its frame head, so that a flush copies buffers and computes no checksum again.
The columns for searches by offset and time are arrays: a hundred thousand small entries are common, and each
further object per entry is one more to traverse for the garbage collector. Memory only.
"""

from array import array
from bisect import bisect_left, bisect_right

from flotilla.raft.messages import Entry
from flotilla.storage.segment_index import NO_OFFSET, NO_TIME
from flotilla.types.ids import Index
from flotilla.types.records import Span


class Tail:
    __slots__ = (
        "_base_offsets",
        "_end_offsets",
        "_newest_times",
        "_times",
        "entries",
        "first_index",
        "heads",
        "last_index",
        "size_bytes",
    )

    def __init__(self, first_index: Index) -> None:
        #: The index of entries[0], or of the next one when there is none.
        self.first_index = first_index
        #: The index of entries[-1], or the one before the first.
        self.last_index = first_index - 1
        self.entries: list[Entry] = []
        self.heads: list[bytes] = []
        self.size_bytes = 0
        # The first offset and the newest time of each entry's records; NO_OFFSET and NO_TIME where it has none.
        self._base_offsets = array("q")
        self._times = array("q")
        # The end offset of all records up to each entry, NO_OFFSET before the first record; ascending.
        self._end_offsets = array("q")
        # The newest time up to each entry; ascending.
        self._newest_times = array("q")

    def append(self, entry: Entry, head: bytes, span: Span | None) -> None:
        assert entry.index == self.last_index + 1, f"{entry.index} does not follow {self.last_index}"
        self.last_index = entry.index
        self.entries.append(entry)
        self.heads.append(head)
        self.size_bytes += len(entry.data)
        ends = self._end_offsets
        times = self._newest_times
        if span is not None:
            self._base_offsets.append(span.base_offset)
            self._times.append(span.timestamp_ms)
            ends.append(span.base_offset + span.count)
            times.append(times[-1] if times and times[-1] > span.timestamp_ms else span.timestamp_ms)
            return
        self._base_offsets.append(NO_OFFSET)
        self._times.append(NO_TIME)
        ends.append(ends[-1] if ends else NO_OFFSET)
        times.append(times[-1] if times else NO_TIME)

    def span(self, at: int) -> Span | None:
        """The span of the entry at position `at`."""
        base_offset = self._base_offsets[at]
        if base_offset == NO_OFFSET:
            return None
        return Span(base_offset, self._end_offsets[at] - base_offset, self._times[at])

    def truncate(self, first_dropped: Index) -> None:
        """Drops everything from `first_dropped` on. If that is before the tail, the tail begins there."""
        count = max(0, first_dropped - self.first_index)
        self.size_bytes -= sum(len(entry.data) for entry in self.entries[count:])
        for column in self._columns():
            del column[count:]
        self.first_index = min(self.first_index, first_dropped)
        self.last_index = min(self.last_index, first_dropped - 1)

    def drop_through(self, index: Index) -> None:
        """Drops everything up to and including `index`."""
        count = index + 1 - self.first_index
        if count <= 0:
            return
        self.size_bytes -= sum(len(entry.data) for entry in self.entries[:count])
        for column in self._columns():
            del column[:count]
        self.first_index = index + 1
        self.last_index = max(self.last_index, index)

    def _columns(self) -> "tuple[list[Entry] | list[bytes] | array[int], ...]":
        return (self.entries, self.heads, self._base_offsets, self._times, self._end_offsets, self._newest_times)

    def first_offset(self) -> int:
        """The offset of the first record, or NO_OFFSET."""
        at = bisect_right(self._end_offsets, NO_OFFSET)
        while at < len(self._base_offsets):
            if self._base_offsets[at] != NO_OFFSET:
                return self._base_offsets[at]
            at += 1
        return NO_OFFSET

    def from_offset(self, offset: int) -> Index:
        """The first entry that ends after `offset`, or the index after the last entry."""
        return self.first_index + bisect_right(self._end_offsets, offset)

    def has_records(self, low: Index, high: Index) -> bool:
        """Whether an entry in [low, high) has records, as far as is known."""
        ends, at = self._end_offsets, low - self.first_index
        return low < high and ends[high - 1 - self.first_index] > (ends[at - 1] if at else NO_OFFSET)

    def from_time(self, timestamp_ms: int) -> Index:
        """An entry at or before the first one of that time or later, or the index after the last entry."""
        return self.first_index + bisect_left(self._newest_times, timestamp_ms)

    def offset_within(self, size_bytes: int) -> int:
        """The end offset of the entries that can go while the rest keeps at least `size_bytes`, or NO_OFFSET."""
        excess_bytes = self.size_bytes - size_bytes
        offset = NO_OFFSET
        for entry, end_offset in zip(self.entries, self._end_offsets, strict=True):
            excess_bytes -= len(entry.data)
            if excess_bytes < 0:
                break
            offset = end_offset
        return offset
