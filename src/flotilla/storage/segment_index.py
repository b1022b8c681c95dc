"""The sparse index of a segment: positions of some frames, with offsets and times.

A point is (index, position, end offset and newest time of the frames before it *in this segment*, -1 and
NO_TIME when there are none). All four columns ascend, so each of the three searches is a bisection, followed
by a walk from the point found. The index file is never authoritative: it has its own CRC32C, and is rebuilt
from the segment when it is absent or bad.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from operator import lt
from struct import Struct

from flotilla.codec.checksum import crc32c
from flotilla.types.ids import NUMBER_MAX, GroupId, Index

NO_OFFSET = -1
NO_TIME = -(1 << 63)

_MAGIC = b"FLTINDEX"
_HEADER = Struct("<8sIIQQQQqqqq")


class SparseIndex:
    """The points of one segment, and its totals."""

    __slots__ = (
        "_is_end_known",
        "end_offset",
        "end_position",
        "first_index",
        "first_offset",
        "indexes",
        "last_index",
        "newest_time_ms",
        "offsets",
        "positions",
        "times",
    )

    def __init__(self, first_index: Index) -> None:
        self.first_index = first_index
        #: The last frame that was indexed; first_index - 1 when there is none.
        self.last_index = first_index - 1
        #: The end of the last frame.
        self.end_position = 0
        #: The offset of the first record, or NO_OFFSET.
        self.first_offset = NO_OFFSET
        #: The end offset of the last record, or NO_OFFSET.
        self.end_offset = NO_OFFSET
        #: No damage has come since the last record. Until then a point would lead past the records in the damage.
        self._is_end_known = True
        self.newest_time_ms = NO_TIME
        self.indexes = array("q")
        self.positions = array("q")
        self.offsets = array("q")
        self.times = array("q")

    def add(self, *, position: int, end_position: int, index: Index, interval_bytes: int) -> None:
        """Adds the next frame; `add_records` follows when it holds records."""
        if self._is_end_known and (not self.positions or position - self.positions[-1] >= interval_bytes):
            self.indexes.append(index)
            self.positions.append(position)
            self.offsets.append(self.end_offset)
            self.times.append(self.newest_time_ms)
        self.last_index = index
        self.end_position = end_position

    def add_damage(self, *, end_position: int, last_index: Index) -> None:
        """Adds frames of whose records nothing is known."""
        self.last_index = last_index
        self.end_position = end_position
        self._is_end_known = False

    def add_records(self, base_offset: int, count: int, timestamp_ms: int) -> None:
        if self.first_offset == NO_OFFSET:
            self.first_offset = base_offset
        self.end_offset = base_offset + count
        self._is_end_known = True
        if timestamp_ms > self.newest_time_ms:
            self.newest_time_ms = timestamp_ms

    def before_index(self, index: Index) -> tuple[Index, int]:
        """Index and position of the last point at or before `index`."""
        return self._point(bisect_right(self.indexes, index) - 1)

    def points_after(self, index: Index) -> Iterator[tuple[Index, int]]:
        """Index and position of every point after `index`."""
        start = bisect_right(self.indexes, index)
        return zip(self.indexes[start:], self.positions[start:], strict=True)

    def before_offset(self, offset: int) -> Index:
        """A frame at or before the first one that ends after `offset`."""
        return self._point(bisect_right(self.offsets, offset) - 1)[0]

    def before_time(self, timestamp_ms: int) -> Index:
        """A frame at or before the first one of that time or later."""
        return self._point(bisect_right(self.times, timestamp_ms - 1) - 1)[0]

    def end_offset_at(self, position: int) -> int:
        """The end offset of the records before the last point at or before `position`; NO_OFFSET without records."""
        at = bisect_right(self.positions, position) - 1
        return self.offsets[at] if at >= 0 else NO_OFFSET

    def copy(self) -> "SparseIndex":
        twin = SparseIndex(self.first_index)
        twin.last_index = self.last_index
        twin.end_position = self.end_position
        twin.first_offset = self.first_offset
        twin.end_offset = self.end_offset
        twin._is_end_known = self._is_end_known
        twin.newest_time_ms = self.newest_time_ms
        twin.indexes = self.indexes[:]
        twin.positions = self.positions[:]
        twin.offsets = self.offsets[:]
        twin.times = self.times[:]
        return twin

    def encode(self, group: GroupId) -> bytes:
        columns = b"".join(column.tobytes() for column in (self.indexes, self.positions, self.offsets, self.times))
        rest = _HEADER.pack(
            _MAGIC,
            0,
            len(self.indexes),
            group,
            self.first_index,
            self.last_index,
            self.end_position,
            self.first_offset,
            self.end_offset,
            self.newest_time_ms,
            len(columns),
        )
        checksum = crc32c(columns, crc32c(rest))
        return rest[:8] + checksum.to_bytes(4, "little") + rest[12:] + columns

    def _point(self, at: int) -> tuple[Index, int]:
        if at < 0:
            return self.first_index, 0
        return self.indexes[at], self.positions[at]


def decode_index(content: bytes, group: GroupId, first_index: Index) -> SparseIndex | None:
    """The index in a file; None when the bytes are not a valid index of that segment."""
    if len(content) < _HEADER.size:
        return None
    magic, checksum, points, owner, first, last, end, first_offset, end_offset, newest, size = _HEADER.unpack_from(
        content
    )
    columns = content[_HEADER.size : _HEADER.size + size]
    if magic != _MAGIC or owner != group or first != first_index or size != points * 32 or len(columns) != size:
        return None
    if crc32c(columns, crc32c(content[:8] + bytes(4) + content[12 : _HEADER.size])) != checksum:
        return None
    index = SparseIndex(first)
    index.last_index = last
    index.end_position = end
    index.first_offset = first_offset
    index.end_offset = end_offset
    index.newest_time_ms = newest
    width = points * 8
    for number, column in enumerate((index.indexes, index.positions, index.offsets, index.times)):
        column.frombytes(columns[number * width : (number + 1) * width])
    return index if _makes_sense(index) else None


def _makes_sense(index: SparseIndex) -> bool:
    """Whether a search in it leads to a place in the segment."""
    indexes, positions = index.indexes, index.positions
    if not indexes:
        return index.first_index <= index.last_index + 1 <= NUMBER_MAX and 0 <= index.end_position <= NUMBER_MAX
    is_within = index.first_index <= indexes[0] and indexes[-1] <= index.last_index <= NUMBER_MAX
    is_within &= positions[0] >= 0 and positions[-1] <= index.end_position <= NUMBER_MAX
    return is_within and all(map(lt, indexes, indexes[1:])) and all(map(lt, positions, positions[1:]))
