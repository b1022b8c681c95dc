"""Loads: reads of a log that may wait for the disk, so they run on another thread than the loop.

The loop reads with the disk's `cached` calls alone. Where these return nothing, the reader gets NotLoadedError and a
load is requested. Like any job, a load is planned on the loop, runs on any thread touching only itself and the disk,
and is taken over on the loop: the part of the log that it read is kept until newer parts need the room, and the reader
finds it when it tries again. What a load has read is verified, or known to be damaged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from flotilla.storage.ports import Buffer, Disk, File
from flotilla.storage.reads.open_files import OpenFiles
from flotilla.storage.segment import Found, LongSearchError, Segment, walk_file
from flotilla.storage.snapshots import SnapshotFile
from flotilla.types.errors import CorruptionError, NotLoadedError
from flotilla.types.ids import GroupId, Index
from flotilla.types.limits import LOADED_BYTES_MAX, LOADS_PER_GROUP_MAX


@dataclass(slots=True, eq=False)
class LoadedPart:
    """A part of a file: frames of a segment from `low` on, or bytes of a snapshot."""

    path: str
    #: The first index of the frames, or the place of the bytes.
    low: int
    size_bytes: int
    #: Without gaps, from a segment; the last one may be damage.
    found: list[Found] = field(default_factory=list)
    #: The end of the last frame.
    end_position: int = 0
    #: From a snapshot.
    content: bytes | CorruptionError = b""

    @property
    def next_index(self) -> Index:
        return self.found[-1].next_index if self.found else self.low


class Load(Protocol):
    """Implements replica.ports.Load."""

    @property
    def group(self) -> GroupId: ...

    @property
    def path(self) -> str: ...

    @property
    def low(self) -> int: ...

    #: The result, once `run` has returned.
    part: LoadedPart | None

    #: Open for further reads; None: it was closed.
    file: File | None

    #: No reader waits for it.
    is_background: bool

    def run(self) -> None: ...


class SegmentRead:
    """Reads a segment from `low` on, with a copy of what the loop knows of it."""

    __slots__ = ("_disk", "_end", "_place", "_segment", "file", "is_background", "low", "part")

    def __init__(self, disk: Disk, segment: Segment, low: Index, *, is_background: bool) -> None:
        self._disk = disk
        # The loop may cut or extend its own; the index is never changed, only replaced.
        self._segment = Segment(segment.group, segment.number, segment.index, segment.salt)
        self._segment.last_index = segment.last_index
        self._end = segment.index.end_position
        self._place = segment.place_before(low)
        self.is_background = is_background
        self.low = low
        self.part: LoadedPart | None = None
        self.file: File | None = None

    @property
    def group(self) -> GroupId:
        return self._segment.group

    @property
    def path(self) -> str:
        return self._segment.path

    @property
    def last_index(self) -> Index:
        return self._segment.last_index


class SegmentLoad(SegmentRead):
    """Reads about `want_bytes` of frames, and at least one."""

    __slots__ = ("_want_bytes",)

    def __init__(self, disk: Disk, segment: Segment, low: Index, want_bytes: int) -> None:
        super().__init__(disk, segment, low, is_background=False)
        self._want_bytes = want_bytes

    def run(self) -> None:
        file = self._disk.open(self.path)
        try:
            if self.is_background:
                file.drop_cached(self._place[1], self._want_bytes)
            self.part = self._read(file)
        except BaseException:
            file.close()
            raise
        if self.is_background:
            file.close()
        else:
            self.file = file

    def _read(self, file: File) -> LoadedPart:
        part = LoadedPart(self.path, self.low, 0)
        walk = walk_file(file, self._segment, self._end, *self._place, self.low, self._want_bytes)
        for stop, found in walk:
            part.found.append(found)
            part.end_position = stop
            if found.stored is None:
                break
            part.size_bytes += len(found.stored.head) + len(found.stored.body)
            if part.size_bytes >= self._want_bytes:
                break
        return part


class SnapshotLoad:
    """Reads a piece of a snapshot."""

    __slots__ = ("_disk", "_length", "_snapshot", "file", "is_background", "low", "part")

    def __init__(self, disk: Disk, snapshot: SnapshotFile, offset: int, length: int) -> None:
        self._disk = disk
        # The loop's own remembers the header; this one reads it again.
        self._snapshot = SnapshotFile(snapshot.group, snapshot.number, snapshot.meta)
        self._length = length
        self.is_background = False
        self.low = offset
        self.part: LoadedPart | None = None
        self.file: File | None = None

    @property
    def group(self) -> GroupId:
        return self._snapshot.group

    @property
    def path(self) -> str:
        return self._snapshot.path

    def run(self) -> None:
        content: bytes | CorruptionError
        try:
            content = self._snapshot.read(self._disk, self.low, self._length)
        except CorruptionError as damage:
            content = damage.with_traceback(None)
        size_bytes = len(content) if isinstance(content, bytes) else 0
        self.part = LoadedPart(self.path, self.low, size_bytes, content=content)


class NotCachedError(Exception):
    """A read would have to wait for the disk."""


class CachedFile:
    """A file whose reads never wait for the disk."""

    __slots__ = ("_file",)

    def __init__(self, file: File) -> None:
        self._file = file

    def read(self, offset: int, length: int) -> Buffer:
        content = self._file.read_cached(offset, length)
        if content is None:
            raise NotCachedError
        return content


class Loads:
    """The open files, the requested loads and the loaded parts of a store. Belongs to the loop."""

    __slots__ = ("_by_path", "_disk", "_files", "_parts", "_pending", "_size_bytes", "wanted")

    def __init__(self, disk: Disk, files_max: int) -> None:
        self._disk = disk
        self._files = OpenFiles(disk, files_max)
        #: Requested and not started; then those that run as well.
        self.wanted: list[Load] = []
        self._pending: dict[tuple[str, int], Load] = {}
        #: The least recently used first.
        self._parts: dict[LoadedPart, None] = {}
        self._by_path: dict[str, list[LoadedPart]] = {}
        self._size_bytes = 0

    # Readers.

    def walk(self, segment: Segment, low: Index, want_bytes: int) -> Iterator[Found]:
        """Frames from `low` to the last, in order, without gaps. Raises NotLoadedError where one must be loaded."""
        while low <= segment.last_index:
            part = self._find(segment.path, low)
            if part is not None:
                for found in part.found:
                    if found.index > segment.last_index:
                        return
                    if found.next_index > low:
                        yield found
                low = part.next_index
                if part.found[-1].stored is not None:
                    segment.remember(low, part.end_position)
                continue
            try:
                for found in segment.walk(self._open(segment.path), low, want_bytes):
                    yield found
                    low = found.next_index
            except (NotCachedError, LongSearchError):
                # A reader that began before a part goes on with it: a bad sector never comes into the cache.
                if self._find(segment.path, low) is None:
                    self._want(SegmentLoad(self._disk, segment, low, want_bytes))
                    raise NotLoadedError(segment.group) from None

    def snapshot_chunk(self, snapshot: SnapshotFile, offset: int, length: int) -> bytes:
        """Raises CorruptionError, and NotLoadedError where the piece must be loaded."""
        for part in self._by_path.get(snapshot.path, ()):
            if part.low == offset:
                # A follower asks for each piece once.
                self._drop(part)
                if isinstance(part.content, CorruptionError):
                    raise part.content
                return part.content
        self._want(SnapshotLoad(self._disk, snapshot, offset, length))
        raise NotLoadedError(snapshot.group)

    def _open(self, path: str) -> CachedFile:
        file = self._files.get(path)
        if file is None:
            raise NotCachedError
        return CachedFile(file)

    def _find(self, path: str, low: Index) -> LoadedPart | None:
        for part in self._by_path.get(path, ()):
            if part.low <= low < part.next_index:
                del self._parts[part]
                self._parts[part] = None
                return part
        return None

    # Loads.

    def _want(self, load: Load) -> None:
        key = (load.path, load.low)
        if key in self._pending:
            return
        if sum(1 for pending in self._pending.values() if pending.group == load.group) >= LOADS_PER_GROUP_MAX:
            # The reader tries again when one of them has ended.
            return
        self._pending[key] = load
        self.wanted.append(load)

    def take(self) -> list[Load]:
        """The loads requested since the last call."""
        wanted, self.wanted = self.wanted, []
        return wanted

    def finish(self, load: Load, *, is_current: bool) -> None:
        """The load has ended. `is_current`: its file still belongs to the log."""
        self._pending.pop((load.path, load.low), None)
        file, load.file = load.file, None
        if file is not None:
            if is_current:
                self._files.put(load.path, file)
            else:
                file.close()
        if load.part is not None and is_current:
            self._keep(load.part)

    def _keep(self, part: LoadedPart) -> None:
        self._parts[part] = None
        self._by_path.setdefault(part.path, []).append(part)
        self._size_bytes += part.size_bytes
        while self._size_bytes > LOADED_BYTES_MAX and len(self._parts) > 1:
            self._drop(next(iter(self._parts)))

    def _drop(self, part: LoadedPart) -> None:
        del self._parts[part]
        self._size_bytes -= part.size_bytes
        parts = self._by_path[part.path]
        parts.remove(part)
        if not parts:
            del self._by_path[part.path]

    def forget(self, path: str) -> None:
        """The file is about to be removed."""
        self._files.forget(path)
        for part in self._by_path.get(path, [])[:]:
            self._drop(part)

    def close(self) -> None:
        self._files.close()
