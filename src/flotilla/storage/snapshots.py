"""Snapshot files: a state machine's state with its index, in one file.

The file is written under another name, synced and renamed, and its folder is synced: a crash at any byte leaves
the old or the new one. Its name ends in a number that is unique in the node for ever. Layout:

    magic 8, crc32c 4 (over everything after it up to the data), header length 4, group 8, pieces 4, zero 4,
    meta (framing.py), crc32c 4 of each piece; then the data

Every read checks the data piece by piece, so that a rotten piece is never sent to a follower.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from struct import Struct

from flotilla.codec.checksum import crc32c
from flotilla.raft.messages import SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.storage.framing import decode_meta, encode_meta
from flotilla.storage.ports import Buffer, Disk, File
from flotilla.storage.segment import group_folder
from flotilla.types.errors import CorruptionError, InvalidArgumentError, StorageFailedError
from flotilla.types.ids import GroupId, Index
from flotilla.types.limits import KIB

PIECE_BYTES = 256 * KIB

_MAGIC = b"FLTSNAPS"
_PREFIX = Struct("<8sI")
_HEADER = Struct("<IQI4x")
_HEADER_MAX_BYTES = 64 * KIB


def snapshot_path(group: GroupId, index: Index, number: int) -> str:
    return f"{group_folder(group)}/{index:020d}-{number:08d}.snap"


class SnapshotFile:
    """A snapshot on disk. Every read verifies checksums."""

    __slots__ = ("_crcs", "_data_at", "group", "meta", "number")

    def __init__(self, group: GroupId, number: int, meta: SnapshotMeta) -> None:
        self.group = group
        self.number = number
        self.meta = meta
        # The position of the data and the checksums of its pieces, once the header was read.
        self._data_at = 0
        self._crcs: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        return snapshot_path(self.group, self.meta.index, self.number)

    def read(self, disk: Disk, offset: int, length: int) -> bytes:
        """Bytes of the data; fewer only at its end. Raises CorruptionError."""
        size = self.meta.size_bytes
        end = min(size, offset + length)
        if offset >= end:
            return b""
        if not disk.exists(self.path):
            raise self._corruption("is missing")
        file = disk.open(self.path)
        try:
            if not self._data_at:
                self._read_header(file)
            first = offset // PIECE_BYTES
            last = (end - 1) // PIECE_BYTES
            start = first * PIECE_BYTES
            content = file.read(self._data_at + start, min(size, (last + 1) * PIECE_BYTES) - start)
        finally:
            file.close()
        view = memoryview(content)
        for piece in range(first, last + 1):
            at = piece * PIECE_BYTES - start
            if crc32c(view[at : at + PIECE_BYTES]) != self._crcs[piece]:
                raise self._corruption(f"fails its checksum at {piece * PIECE_BYTES}")
        return content if start == offset and end - start == len(content) else content[offset - start : end - start]

    def verify(self, disk: Disk) -> None:
        """Raises CorruptionError unless header and data are as written."""
        if not disk.exists(self.path):
            raise self._corruption("is missing")
        file = disk.open(self.path)
        try:
            self._read_header(file)
        finally:
            file.close()
        for offset in range(0, self.meta.size_bytes, PIECE_BYTES):
            self.read(disk, offset, PIECE_BYTES)

    def _read_header(self, file: File) -> None:
        content = file.read(0, _HEADER_MAX_BYTES)
        if len(content) < _PREFIX.size + _HEADER.size:
            raise self._corruption("is too short")
        magic, checksum = _PREFIX.unpack_from(content)
        length, group, pieces = _HEADER.unpack_from(content, _PREFIX.size)
        if length <= _HEADER_MAX_BYTES and magic == _MAGIC and crc32c(content[_PREFIX.size : length]) == checksum:
            try:
                meta, at = decode_meta(content, _PREFIX.size + _HEADER.size)
            except (InvalidArgumentError, struct.error) as error:
                raise self._corruption("has an unreadable header") from error
            is_complete = at + 4 * pieces == length and pieces == -(-meta.size_bytes // PIECE_BYTES)
            if group == self.group and meta == self.meta and is_complete:
                self._crcs = Struct(f"<{pieces}I").unpack_from(content, at)
                self._data_at = length
                return
        raise self._corruption("has a damaged header")

    def _corruption(self, what: str) -> CorruptionError:
        return CorruptionError(f"{self.path} {what}", self.group, self.meta.log_index + 1, self.meta.index + 1)


class SnapshotJob:
    """Encodes one snapshot, writes its file and renames it to its final name."""

    __slots__ = ("_disk", "encode", "file")

    def __init__(self, disk: Disk, group: GroupId, number: int, snapshot: PendingSnapshot) -> None:
        self._disk = disk
        self.encode: Callable[[], Iterable[Buffer]] = snapshot.encode
        #: The size of its data is known once it was written.
        self.file = SnapshotFile(group, number, snapshot.meta)

    def run(self) -> None:
        pieces = list(_pieces(self.encode()))
        self.file.meta = replace(self.file.meta, size_bytes=sum(map(len, pieces)))
        folder = group_folder(self.file.group)
        path = self.file.path
        beside = f"{path}.new"
        disk = self._disk
        if not disk.exists(folder):
            disk.make_directory(folder)
        # Another job may have made the folder without syncing its name.
        disk.sync_directory("groups")
        # A second run after a failed sync must not trust the first run's pages: it begins with a new file.
        disk.remove(beside)
        file = disk.open(beside, create=True)
        try:
            file.write(0, (_encode_header(self.file.group, self.file.meta, pieces), *pieces))
            file.sync()
        finally:
            file.close()
        disk.rename(beside, path)
        disk.sync_directory(folder)
        # The view of the state is freed here and not on the loop.
        self.encode = _no_more


def _no_more() -> Iterable[Buffer]:
    raise AssertionError("the snapshot was written")


def _pieces(encoded: Iterable[Buffer]) -> Iterator[Buffer]:
    """The same bytes in pieces of PIECE_BYTES. No step of it takes long."""
    piece = bytearray()
    for part in encoded:
        view = memoryview(part)
        while view:
            if not piece and len(view) >= PIECE_BYTES:
                yield view[:PIECE_BYTES]
                view = view[PIECE_BYTES:]
                continue
            taken = PIECE_BYTES - len(piece)
            piece += view[:taken]
            view = view[taken:]
            if len(piece) == PIECE_BYTES:
                yield piece
                piece = bytearray()
    if piece:
        yield piece


def _encode_header(group: GroupId, meta: SnapshotMeta, pieces: Sequence[Buffer]) -> bytes:
    crcs = [crc32c(piece) for piece in pieces]
    body = encode_meta(meta) + Struct(f"<{len(crcs)}I").pack(*crcs)
    length = _PREFIX.size + _HEADER.size + len(body)
    if length > _HEADER_MAX_BYTES:
        raise StorageFailedError(f"a snapshot of {meta.size_bytes} bytes is too large")
    rest = _HEADER.pack(length, group, len(crcs)) + body
    return _PREFIX.pack(_MAGIC, crc32c(rest)) + rest
