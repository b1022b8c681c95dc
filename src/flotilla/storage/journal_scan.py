"""The read side of the journal: finds the blocks, and decides what a bad one means.

A block is written after the one before it was synced, so block n + 1, or the mark of n, proves that n
was durable. Hence for a block of which something is bad:
  with a proof                         damage: its directory (either copy) lists its content
  without a proof, and one bad sector  doubtful: torn by a power cut, or durable and rotten since. It counts as damage,
  may explain it                       and other replicas decide (raft/repair)
  without a proof, more is bad         torn: it was never reported durable; dropped whole
  no directory left, but a proof       refused: a vote may be lost, and with it a promise of this node
Of a sequence found twice (a failed sync, then another file) the later one counts.

Files are read from the newest back, and no further than the newest checkpoint needs. The unwritten end
of a file is not kept in memory.
"""

from collections.abc import Iterator

from flotilla.raft.messages import CONFIG
from flotilla.storage.block import (
    HEADER_BYTES,
    MAGIC,
    MARK,
    BlockImage,
    find_directory,
    has_all_bodies,
    is_salted,
    records_of,
)
from flotilla.storage.checkpoint import checkpoint_keep_from
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.journal import FOLDER, SUFFIX, journal_path
from flotilla.storage.ports import Disk, File
from flotilla.storage.store_format import Salt
from flotilla.types.errors import CorruptionError
from flotilla.types.limits import MIB

#: The step of the search for the end of the written part.
PIECE_BYTES = 1 * MIB
_ZEROS = bytes(PIECE_BYTES)


def list_journal(disk: Disk) -> list[int]:
    """Numbers of the journal files, ascending."""
    names = [name.removesuffix(SUFFIX) for name in disk.list(FOLDER) if name.endswith(SUFFIX)]
    return sorted(int(name) for name in names if name.isdigit())


def has_salted_blocks(disk: Disk, numbers: list[int]) -> bool:
    """Whether a file begins with a block that cannot be verified without a salt."""
    for number in numbers:
        file = disk.open(journal_path(number))
        try:
            if is_salted(file.read(0, HEADER_BYTES), number):
                return True
        finally:
            file.close()
    return False


class JournalScan:
    """All readable blocks by sequence, and the highest sequence that is known to have been durable."""

    __slots__ = ("_salt", "ends", "file_bytes", "images", "proven", "torn")

    def __init__(self, salt: Salt) -> None:
        self._salt = salt
        self.images: dict[int, BlockImage] = {}
        self.proven = 0
        #: The last block was torn and is dropped.
        self.torn: BlockImage | None = None
        #: The size of the files that were read.
        self.file_bytes = 0
        #: By file: where its last readable block or mark ends.
        self.ends: dict[int, int] = {}

    @classmethod
    def of(cls, disk: Disk, numbers: list[int], salt: Salt) -> "JournalScan":
        scan = cls(salt)
        keep_from = 0
        for number in reversed(numbers):
            if number < keep_from:
                break
            file = disk.open(journal_path(number))
            try:
                scan.file_bytes += file.size()
                scan.add_file(number, file.read(0, _written_bytes(file)))
            finally:
                file.close()
            keep_from = keep_from or scan.keep_from(is_proven=False)
        return scan

    def keep_from(self, *, is_proven: bool) -> int:
        """The oldest file that the newest sound (or proven) checkpoint needs; 0 when there is none."""
        for sequence in sorted(self.images, reverse=True):
            image = self.images[sequence]
            if image.is_checkpoint and (sequence <= self.proven or (not is_proven and has_all_bodies(image))):
                return checkpoint_keep_from(image)
        return 0

    def add_file(self, number: int, content: bytes) -> None:
        for image in _directories(number, content, self._salt):
            self.ends[number] = max(image.end, self.ends.get(number, 0))
            if image.copy == MARK:
                self.proven = max(self.proven, image.sequence)
                continue
            if image.is_proof:
                self.proven = max(self.proven, image.sequence - 1)
            known = self.images.get(image.sequence)
            if known is None or _worth(image) > _worth(known):
                self.images[image.sequence] = image

    def chain(self) -> list[BlockImage]:
        """The blocks to replay, ascending: some from before the last checkpoint (they hold bodies), all after it.

        Empty: no checkpoint was ever written. Raises CorruptionError when a durable block is unreadable.
        """
        images = self.images
        last = max(images, default=0)
        newest = images.get(last)
        if newest is not None and last > self.proven and not self._may_be_durable(newest):
            self.torn = images.pop(last)
            last = max(images, default=0)
        if self.proven > last:
            raise CorruptionError(f"journal block {self.proven} was durable and is unreadable")
        checkpoint = max((sequence for sequence, image in images.items() if image.is_checkpoint), default=0)
        if not checkpoint:
            if images:
                raise CorruptionError(f"no checkpoint is readable in the journal before block {min(images)}")
            return []
        for sequence in range(checkpoint, last + 1):
            if sequence not in images:
                following = images[min(known for known in images if known > sequence)]
                place = f"{journal_path(following.file_number)} before position {following.position}"
                raise CorruptionError(f"journal block {sequence} was durable and is unreadable in {place}")
        return [images[sequence] for sequence in sorted(images)]

    def _may_be_durable(self, image: BlockImage) -> bool:
        """Whether a block without a proof is whole, or one bad sector explains what is bad in it."""
        return has_all_bodies(image) or _may_be_one_sector(image, self._salt)


def _worth(image: BlockImage) -> tuple[bool, int, int]:
    return has_all_bodies(image), image.file_number, image.position


def _may_be_one_sector(image: BlockImage, salt: Salt) -> bool:
    """Whether one bad sector explains all that is bad in the block; each bad part has at least one bad sector."""
    parts = [(image.position, image.directory_bytes), (image.twin_position, image.directory_bytes)]
    bad = [part for part in parts if find_directory(image.data, part[0], image.file_number, salt) is None]
    start = image.bodies_at
    for _, _, frame, body in records_of(image):
        if frame is not None:
            if body is None and image.has_copies and frame.kind == CONFIG:
                # Both copies are bad, and no sector has bytes of both.
                return False
            if body is None:
                bad.append((start, frame.length))
            start += frame.length
    first = max(start // SECTOR_BYTES for start, _ in bad)
    last = min((start + size - 1) // SECTOR_BYTES for start, size in bad)
    return first <= last


def _written_bytes(file: File) -> int:
    """The end of the last piece of a file that is not all zeros."""
    end = file.size()
    while end > 0:
        start = (end - 1) // PIECE_BYTES * PIECE_BYTES
        if file.read(start, end - start) != _ZEROS[: end - start]:
            break
        end = start
    return end


def _directories(number: int, content: bytes, salt: Salt) -> Iterator[BlockImage]:
    """Walks a file from block to block; after a bad place it goes on at the next valid directory."""
    data = memoryview(content)
    at = 0
    while at < len(content):
        image = find_directory(data, at, number, salt)
        if image is None:
            # A bad place, or the sector of a mark that was not written.
            at = _next_candidate(content, at + 1)
        else:
            yield image
            at = image.end


def _next_candidate(content: bytes, at: int) -> int:
    """The next sector that begins like a directory; the end when there is none."""
    while True:
        at = content.find(MAGIC, at)
        if at < 0:
            return len(content)
        if at % SECTOR_BYTES == 0:
            return at
        at += 1
