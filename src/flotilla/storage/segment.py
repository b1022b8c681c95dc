"""Segments: a group's log on disk, in append-only files.

A file is a sequence of frames (see framing.py), each padded to 8 bytes. Every flush starts on a new sector, so that
no write touches a sector with durable bytes; readers skip the zeros between. The store's checkpoint decides which
frames are valid, not the file: a segment ends where the next one begins, the last one at the group's durable index.
So a truncation only lowers `last_index`; the frames after it are dead, and the next entries go to a new file. A closed
segment never changes.

A frame that fails its checksum is never returned: the walk yields the range of damaged indexes instead
and goes on at the next intact frame, found by the group's id in its head. The search goes through payloads, so that
only the salt in the checksum distinguishes a frame from an imitation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from flotilla.storage.framing import (
    ABSENT,
    ENTRY,
    FRAME_ALIGN_BYTES,
    FRAME_BYTES,
    FRAME_GROUP_AT,
    SECTOR_BYTES,
    Frame,
    is_intact,
    padded,
    parse_frame,
    sectors,
)
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Buffer, Disk, File
from flotilla.storage.segment_index import SparseIndex, decode_index
from flotilla.types.ids import NUMBER_MAX, GroupId, Index
from flotilla.types.limits import ENTRY_BYTES_MAX, MIB

#: Where an intact frame is searched for, at a time. A multiple of the alignment of frames.
_SEARCH_BYTES = 1 * MIB
_ZEROS = bytes(_SEARCH_BYTES + FRAME_BYTES)


def group_folder(group: GroupId) -> str:
    return f"groups/{group}"


def segment_path(group: GroupId, first_index: Index, number: int) -> str:
    return f"{group_folder(group)}/{first_index:020d}-{number:08d}.seg"


def index_path(group: GroupId, first_index: Index, number: int) -> str:
    return f"{group_folder(group)}/{first_index:020d}-{number:08d}.idx"


@dataclass(slots=True)
class StoredFrame:
    """An intact frame as read."""

    frame: Frame
    head: memoryview
    body: memoryview


@dataclass(slots=True)
class Found:
    """A step of a walk: an intact frame at `index`, or None for damage in [index, next_index)."""

    index: Index
    next_index: Index
    stored: StoredFrame | None


class Readable(Protocol):
    """A file as a walk needs it."""

    def read(self, offset: int, length: int) -> Buffer: ...


class LongSearchError(Exception):
    """The next intact frame is far away, so the loop must not search for it."""


class Segment:
    """One file of a group's log. Belongs to the loop; jobs work on copies."""

    __slots__ = ("_hint_index", "_hint_position", "group", "index", "is_closed", "last_index", "number", "salt")

    def __init__(self, group: GroupId, number: int, index: SparseIndex, salt: int) -> None:
        self.group = group
        #: Unique in the node, so that a path is never used twice.
        self.number = number
        #: Of the checksums of its frames; 0: they have none.
        self.salt = salt
        self.index = index
        #: The last valid frame.
        self.last_index: Index = index.last_index
        #: Nothing may be appended: the file is full, was cut, or a write to it failed.
        self.is_closed = False
        # Where the last walk stopped: most readers continue there.
        self._hint_index: Index = index.first_index
        self._hint_position = 0

    @property
    def first_index(self) -> Index:
        return self.index.first_index

    @property
    def path(self) -> str:
        return segment_path(self.group, self.first_index, self.number)

    @property
    def index_path(self) -> str:
        return index_path(self.group, self.first_index, self.number)

    @property
    def size_bytes(self) -> int:
        return self.index.end_position

    def copy(self) -> "Segment":
        twin = Segment(self.group, self.number, self.index.copy(), self.salt)
        twin.last_index = self.last_index
        twin.is_closed = self.is_closed
        return twin

    def cut(self, last_index: Index) -> None:
        """Drops everything after `last_index`."""
        if last_index < self.last_index:
            self.last_index = last_index
            self.is_closed = True

    def walk(self, file: Readable, low: Index, want_bytes: int) -> Iterator[Found]:
        """Frames from `low` to the last, in order, without gaps. Frames before `low` are skipped, not verified.

        Raises LongSearchError.
        """
        end = self.index.end_position
        for stop, found in walk_file(file, self, end, *self.place_before(low), low, want_bytes, searches_far=False):
            if found.stored is not None:
                self.remember(found.next_index, stop)
            yield found

    def place_before(self, low: Index) -> tuple[Index, int]:
        """Index and position of a frame at or before `low`, as near as known."""
        index, position = self.index.before_index(low)
        return (self._hint_index, self._hint_position) if index < self._hint_index <= low else (index, position)

    def remember(self, index: Index, position: int) -> None:
        """A walk has reached the frame `index` at `position`."""
        self._hint_index, self._hint_position = index, position


def walk_file(
    file: Readable,
    segment: Segment,
    end: int,
    index: Index,
    position: int,
    low: Index,
    want_bytes: int,
    *,
    searches_far: bool = True,
) -> Iterator[tuple[int, Found]]:
    """Walks from the frame `index` at `position` to `end`; yields (end position, frame or damage).

    Frames before `low` are skipped by their heads alone. When that misses the next frame, a head was damaged, and
    the walk starts again, verifying from the beginning. If it may not search far, it raises LongSearchError.
    """
    window = _Window(file, end, want_bytes)
    start = index, position
    verify_from = low
    while index <= segment.last_index:
        frame = window.frame(position)
        if frame is not None and frame.tag == 0 and frame.crc == 0 and position % SECTOR_BYTES:
            # Padding up to the sector where the next flush began. More zeros than that are damage.
            position = sectors(position)
            frame = window.frame(position)
        if frame is not None and frame.index == index and frame.group == segment.group:
            stop = position + FRAME_BYTES + padded(frame.length)
            if index < verify_from:
                index, position = index + 1, stop
                continue
            stored = window.verified(position, frame, segment.salt)
            if stored is not None and frame.tag in (ENTRY, ABSENT):
                if index >= low:
                    yield stop, Found(index, index + 1, stored if frame.tag == ENTRY else None)
                index, position = index + 1, stop
                continue
        if start[0] < index <= verify_from:
            # The frame before was skipped unverified.
            index, position = start
            verify_from = index
            continue
        next_index, next_position = _resynchronize(file, segment, end, index, position, searches_far=searches_far)
        if next_index > max(index, low):
            yield next_position, Found(index, next_index, None)
        index, position = next_index, next_position


class _Window:
    """Reads a file forward in large pieces."""

    __slots__ = ("_bytes", "_end", "_file", "_start", "_view", "_want_bytes")

    def __init__(self, file: Readable, end: int, want_bytes: int) -> None:
        self._file = file
        self._end = end
        self._want_bytes = want_bytes
        self._start = 0
        self._bytes: Buffer = b""
        self._view = memoryview(b"")

    def frame(self, position: int) -> Frame | None:
        """The head at `position`; None at the end."""
        if not self._load(position, FRAME_BYTES):
            return None
        return parse_frame(self._bytes, position - self._start)

    def verified(self, position: int, frame: Frame, salt: int) -> StoredFrame | None:
        """Head and body; None when the checksum does not match."""
        is_sound = frame.length <= ENTRY_BYTES_MAX and frame.base_offset <= NUMBER_MAX - frame.count
        if not is_sound or not self._load(position, FRAME_BYTES + frame.length):
            return None
        at = position - self._start
        head = self._view[at : at + FRAME_BYTES]
        body = self._view[at + FRAME_BYTES : at + FRAME_BYTES + frame.length]
        return StoredFrame(frame, head, body) if is_intact(frame.crc, head, body, salt) else None

    def _load(self, position: int, length: int) -> bool:
        if self._start <= position and position + length <= self._start + len(self._bytes):
            return True
        if position + length > self._end:
            return False
        self._bytes = self._file.read(position, min(max(length, self._want_bytes), self._end - position))
        self._view = memoryview(self._bytes)
        self._start = position
        return length <= len(self._bytes)


def _resynchronize(
    file: Readable, segment: Segment, end: int, index: Index, position: int, *, searches_far: bool
) -> tuple[Index, int]:
    """The next intact frame after a bad one at `position`: its index and position, or those of the end.

    Between two points of the index only frames that lie between them are searched for, and none where the points are
    neighbours: a large entry without a body is passed by without a read of what is left of it.
    """
    if position % SECTOR_BYTES and _is_frame_at(file, segment, index, sectors(position), end):
        # The padding before it is damaged.
        return index, sectors(position)
    far = position + _SEARCH_BYTES
    for next_index, next_position in (*segment.index.points_after(index), (segment.last_index + 1, end)):
        if next_index > index + 1:
            # A file that was cut off ends before the points of its index do.
            for window in range(position, min(next_position, end), _SEARCH_BYTES):
                if window >= far and not searches_far:
                    raise LongSearchError
                found = _search(file, segment, index, window, min(window + _SEARCH_BYTES, next_position), end)
                if found is not None:
                    return found
        if next_index > segment.last_index:
            break
        if next_position >= far and not searches_far:
            raise LongSearchError
        index, position = next_index, next_position
        if _is_frame_at(file, segment, index, position, end):
            return index, position
    return segment.last_index + 1, end


def _is_frame_at(file: Readable, segment: Segment, index: Index, position: int, end: int) -> bool:
    if position + FRAME_BYTES > end:
        return False
    head = file.read(position, FRAME_BYTES)
    if len(head) < FRAME_BYTES:
        return False
    frame = parse_frame(head, 0)
    is_expected = frame.index == index and frame.group == segment.group and frame.tag in (ENTRY, ABSENT)
    return is_expected and _is_intact_at(file, position, frame, end, segment.salt)


def _search(file: Readable, segment: Segment, index: Index, low: int, high: int, end: int) -> tuple[Index, int] | None:
    """The first intact frame after that of `index` that begins in [low, high)."""
    # A head that begins there may end after it.
    content = bytes(file.read(low, min(high + FRAME_BYTES, end) - low))
    if content == (_ZEROS if len(content) == len(_ZEROS) else bytes(len(content))):
        # What a disk cannot read, or never wrote. A search takes ten times as long: zeros are like the needle.
        return None
    needle = segment.group.to_bytes(8, "little")
    at = content.find(needle, FRAME_GROUP_AT)
    while at >= 0:
        start = at - FRAME_GROUP_AT
        if start % FRAME_ALIGN_BYTES == 0 and start + FRAME_BYTES <= len(content):
            frame = parse_frame(content, start)
            is_expected = index < frame.index <= segment.last_index and frame.tag in (ENTRY, ABSENT)
            if is_expected and _is_intact_at(file, low + start, frame, end, segment.salt):
                return frame.index, low + start
        at = content.find(needle, at + 1)
    return None


def _is_intact_at(file: Readable, position: int, frame: Frame, end: int, salt: int) -> bool:
    size = FRAME_BYTES + frame.length
    if position + size > end:
        return False
    view = memoryview(file.read(position, size))
    return len(view) == size and is_intact(frame.crc, view[:FRAME_BYTES], view[FRAME_BYTES:], salt)


def attach(disk: Disk, options: StoreOptions, segment: Segment) -> list[tuple[Index, Index]]:
    """Loads the index of a listed segment; returns the damaged ranges found.

    With a valid index file no frame is read: checksums are verified when an entry is read. Frames that the index
    does not cover are scanned.
    """
    last_index = segment.last_index
    index = _load_index(disk, segment) or SparseIndex(segment.first_index)
    if not disk.exists(segment.path):
        index.last_index = last_index
        segment.index = index
        segment.is_closed = True
        return [(segment.first_index, last_index + 1)]
    damaged: list[tuple[Index, Index]] = []
    file = disk.open(segment.path)
    try:
        size = file.size()
        if index.last_index < last_index:
            damaged = _scan(file, segment, index, size, options)
    finally:
        file.close()
    segment.index = index
    if index.last_index != last_index or index.end_position != size:
        # Dead bytes follow the last frame. An append would mix with them, so the next entries get a new file.
        segment.is_closed = True
    return damaged


def _load_index(disk: Disk, segment: Segment) -> SparseIndex | None:
    if not disk.exists(segment.index_path):
        return None
    file = disk.open(segment.index_path)
    try:
        return decode_index(file.read(0, file.size()), segment.group, segment.first_index)
    finally:
        file.close()


def _scan(
    file: File, segment: Segment, index: SparseIndex, size: int, options: StoreOptions
) -> list[tuple[Index, Index]]:
    """Adds the frames after the indexed ones to the index."""
    damaged: list[tuple[Index, Index]] = []
    low, start = index.last_index + 1, index.end_position
    interval_bytes = options.index_interval_bytes
    for stop, found in walk_file(file, segment, size, low, start, low, options.transfer_bytes):
        if found.stored is None:
            damaged.append((found.index, found.next_index))
            index.add_damage(end_position=stop, last_index=found.next_index - 1)
            continue
        frame = found.stored.frame
        at = stop - FRAME_BYTES - padded(frame.length)
        index.add(position=at, end_position=stop, index=frame.index, interval_bytes=interval_bytes)
        if frame.count:
            index.add_records(frame.base_offset, frame.count, frame.timestamp_ms)
    return damaged


class SegmentWriter:
    """Appends frames to one segment. Runs in jobs, on a Segment of its own."""

    __slots__ = ("_buffers", "_disk", "_file", "_options", "_position", "_start", "segment")

    def __init__(self, disk: Disk, options: StoreOptions, segment: Segment, *, create: bool) -> None:
        assert not segment.is_closed
        self._disk = disk
        self._options = options
        self.segment = segment
        self._file = disk.open(segment.path, create=create)
        self._start = self._position = sectors(segment.index.end_position)
        self._buffers: list[Buffer] = []

    @property
    def is_full(self) -> bool:
        return self._position >= self._options.segment_bytes

    def append(self, head: Buffer, body: Buffer) -> None:
        frame = parse_frame(head, 0)
        assert frame.index == self.segment.last_index + 1
        start = self._position
        padding = -frame.length % FRAME_ALIGN_BYTES
        self._buffers.append(head)
        self._buffers.append(body)
        if padding:
            self._buffers.append(bytes(padding))
        self._position = start + FRAME_BYTES + frame.length + padding
        index = self.segment.index
        if frame.tag == ABSENT and not frame.count:
            index.add_damage(end_position=self._position, last_index=frame.index)
        else:
            interval_bytes = self._options.index_interval_bytes
            index.add(position=start, end_position=self._position, index=frame.index, interval_bytes=interval_bytes)
            if frame.count:
                index.add_records(frame.base_offset, frame.count, frame.timestamp_ms)
        self.segment.last_index = frame.index
        if self._position - self._start >= self._options.transfer_bytes:
            self._write()

    def finish(self) -> Segment:
        """Makes the frames durable and writes the index file."""
        if self._buffers:
            self._write()
        self._file.sync()
        self.segment.is_closed = self.is_full
        index = self._disk.open(self.segment.index_path, create=True)
        try:
            index.write(0, (self.segment.index.encode(self.segment.group),))
            if self.segment.is_closed:
                # The index of an open segment is rewritten with every flush, and a torn one only costs a scan.
                index.sync()
        finally:
            index.close()
        return self.segment

    def close(self) -> None:
        self._file.close()

    def _write(self) -> None:
        self._file.write(self._start, self._buffers)
        self._start = self._position
        self._buffers = []
