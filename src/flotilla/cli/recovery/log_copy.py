"""The copy of one log into a place: it continues the copy of the backup before, and never copies an entry twice."""

import asyncio
from hashlib import sha256
from typing import Final

from flotilla.cli.recovery.manifest import KeptFile, KeptLog, KeptSnapshot, LogPiece
from flotilla.cli.recovery.places import Place
from flotilla.client.log_copies import LogCopies
from flotilla.codec.log_copy import decode_entries
from flotilla.types.errors import OffsetOutOfRangeError
from flotilla.types.ids import Index
from flotilla.types.limits import MIB
from flotilla.types.operations.backup import LogRead

#: A file is gathered in memory, because a store takes it as a whole.
PIECE_BYTES: Final = 8 * MIB


class LogMovedError(Exception):
    """The log was shortened, or its snapshot replaced, while it was copied: the copy begins anew where it stands."""


class LogCopy:
    def __init__(self, kept: KeptLog, reads: LogCopies, place: Place) -> None:
        """`kept` is the copy so far, which is changed."""
        self.kept = kept
        self._reads = reads
        self._place = place
        self.copied_bytes = 0

    @classmethod
    def begin(cls, topic: str, partition: int, seen: LogRead, reads: LogCopies, place: Place) -> "LogCopy":
        kept = KeptLog(topic, partition, seen.group, seen.base_index, seen.base_term, seen.base_index, 0, None)
        return cls(kept, reads, place)

    async def follow(self, seen: LogRead) -> None:
        """Copies the newest snapshot and all entries that were seen. Raises LogMovedError."""
        kept = self.kept
        if seen.base_index > kept.base_index:
            kept.base_index, kept.base_term = seen.base_index, seen.base_term
            kept.pieces = [piece for piece in kept.pieces if piece.last > kept.base_index]
            kept.last_index = max(kept.last_index, kept.base_index)
        known = 0 if kept.snapshot is None else kept.snapshot.index
        if max(known, kept.base_index - 1) < seen.snapshot_index <= seen.last_index:
            kept.snapshot = await self._copy_snapshot(seen)
        if kept.base_index and (kept.snapshot is None or kept.snapshot.index < kept.base_index):
            raise LogMovedError
        await self.reach(seen)

    async def reach(self, point: LogRead) -> None:
        """Copies entries up to the point. Raises LogMovedError."""
        kept = self.kept
        while kept.last_index < point.last_index:
            piece = await self._gather(kept.last_index + 1, point.last_index)
            data = b"".join(piece)
            last = max(entry.index for entry in decode_entries(piece[-1]))
            name = f"{self._folder}/{kept.last_index + 1:020d}-{last:020d}.log"
            kept.pieces.append(LogPiece(kept.last_index + 1, last, await self._put(name, data)))
            kept.last_index = last
        kept.last_term = point.last_term

    async def _gather(self, first: Index, last: Index) -> list[bytes]:
        """Entries from `first` on, up to PIECE_BYTES or `last`."""
        gathered: list[bytes] = []
        size_bytes = 0
        while first <= last and size_bytes < PIECE_BYTES:
            try:
                read = await self._reads.entries(self.kept.topic, self.kept.partition, first, last)
            except OffsetOutOfRangeError as error:
                raise LogMovedError from error
            if read.group != self.kept.group or not read.entries:
                # A topic of the same name, or a new leader that has not applied all of its log.
                raise LogMovedError
            gathered.append(read.entries)
            size_bytes += len(read.entries)
            first = max(entry.index for entry in decode_entries(read.entries)) + 1
        return gathered

    async def _copy_snapshot(self, seen: LogRead) -> KeptSnapshot:
        kept, index = self.kept, seen.snapshot_index
        parts: list[KeptFile] = []
        at, part = 0, bytearray()
        while at < seen.snapshot_bytes:
            data = await self._reads.snapshot(kept.topic, kept.partition, index, at)
            if not data:
                raise LogMovedError
            at += len(data)
            part += data
            if len(part) >= PIECE_BYTES or at >= seen.snapshot_bytes:
                # Replicas may encode one state differently: the name has the content.
                digest = sha256(part).hexdigest()[:12]
                parts.append(
                    await self._put(f"{self._folder}/{index:020d}-{len(parts):04d}-{digest}.snap", bytes(part))
                )
                part.clear()
        return KeptSnapshot(index, seen.snapshot_term, tuple(parts))

    @property
    def _folder(self) -> str:
        return f"groups/{self.kept.group:020d}"

    async def _put(self, path: str, data: bytes) -> KeptFile:
        await asyncio.to_thread(self._place.put, path, data)
        self.copied_bytes += len(data)
        return KeptFile.of(path, data)
