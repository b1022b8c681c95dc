"""The write side of the journal: numbered files, one block after the other, one sync for each.

Runs on one thread at a time; the loop only reads numbers and the fill level, and hands over a spare file.
A full file that is not needed any more is reused as a spare with a new number: a sync costs about half in
blocks that the file system has written before. Old blocks in it carry the old number, so they are never valid.
Invariants:
  J1  a block is written only after the one before it was synced. So is the mark of that one: with the next
      block, or alone when none comes soon
  J2  files are used in the order of their numbers, and never again after a block could not be written or synced;
      a mark may fail, because no acknowledgement depends on it
  J3  a file's name is durable before a block in it is reported durable
"""

from itertools import count

from flotilla.storage.block import MARK_BYTES, PendingBlock, encode_mark
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk, File
from flotilla.types.errors import DiskFullError, StorageFailedError

FOLDER = "journal"
SUFFIX = ".wal"


def journal_path(number: int) -> str:
    return f"{FOLDER}/{number:016d}{SUFFIX}"


class SpareFile:
    """An allocated, empty journal file, created ahead of time so that a write does not wait for it."""

    __slots__ = ("file", "number")

    def __init__(self, number: int, file: File) -> None:
        self.number = number
        self.file = file


class Journal:
    __slots__ = (
        "_disk",
        "_file",
        "_next_number",
        "_options",
        "_position",
        "_unmarked",
        "full",
        "number",
        "numbers",
        "spare",
    )

    def __init__(self, disk: Disk, options: StoreOptions, next_number: int, numbers: list[int]) -> None:
        self._disk = disk
        self._options = options
        self._next_number = count(next_number)
        #: None: the next block opens a new file (at the start, and after a failure).
        self._file: File | None = None
        #: Where the next block begins: after the last one and the sector of its mark.
        self._position = 0
        #: The sequence of the last block until its mark is written, then 0.
        self._unmarked = 0
        #: The file in use; 0 before the first block.
        self.number = 0
        #: Files that exist, ascending; appended by the writer, removed from by the loop.
        self.numbers = numbers
        #: The files that were filled to the end without a failure.
        self.full: set[int] = set()
        #: Set by the loop, taken by the writer.
        self.spare: SpareFile | None = None

    def reserve_number(self) -> int:
        return next(self._next_number)

    def write(self, block: PendingBlock) -> None:
        """Writes and syncs the block, with the mark of the one before. After an error the block may be retried."""
        size_bytes = block.size_bytes
        file = self._file
        if file is not None and self._position + size_bytes > self._options.journal_bytes and self._position > 0:
            self.mark()
            self.full.add(self.number)
            file = None
        if file is None:
            file = self._open_next()
        if size_bytes > self._options.journal_bytes:
            # The block has the file for itself. A full disk is noticed before the file is touched.
            file.allocate(size_bytes)
        position = self._position
        buffers = block.encode(self.number, position)
        if self._unmarked:
            position -= MARK_BYTES
            buffers = [encode_mark(self.number, position, self._unmarked), *buffers]
        try:
            file.write_synced(position, buffers)
        except (StorageFailedError, DiskFullError):
            # The kernel may have dropped the pages and marked them clean: a second sync would falsely succeed.
            self._abandon()
            raise
        self._position += size_bytes + MARK_BYTES
        self._unmarked = block.sequence

    def mark(self) -> None:
        """Writes the mark of the last block, unless it has one.

        Not synced: the system writes it soon. Without it a rotten last block looks torn, so it should not be missing
        for long; but no acknowledgement depends on this write.
        """
        if self._file is None or not self._unmarked:
            return
        position = self._position - MARK_BYTES
        try:
            self._file.write(position, (encode_mark(self.number, position, self._unmarked),))
        except (StorageFailedError, DiskFullError):
            # The next block carries it.
            return
        self._unmarked = 0

    @property
    def is_half_full(self) -> bool:
        return 2 * self._position >= self._options.journal_bytes

    def create_spare(self, number: int, retired: int) -> SpareFile:
        """For maintenance, on its own thread: touches nothing but the new file. Reuses file `retired`, unless 0."""
        if retired and self._disk.exists(journal_path(retired)):
            self._disk.rename(journal_path(retired), journal_path(number))
        return SpareFile(number, self._create(number))

    def close(self) -> None:
        self._abandon()
        if self.spare is not None:
            self.spare.file.close()
            self.spare = None

    def _open_next(self) -> File:
        self._abandon()
        spare, self.spare = self.spare, None
        if spare is not None and spare.number < self.number:
            # The writer created a later file meanwhile: the spare stays empty.
            spare.file.close()
            spare = None
        if spare is None:
            number = next(self._next_number)
            spare = SpareFile(number, self._create(number))
            self.numbers.append(number)
        self.number = spare.number
        self._file = spare.file
        self._position = 0
        return spare.file

    def _create(self, number: int) -> File:
        path = journal_path(number)
        file = self._disk.open(path, create=True)
        try:
            if file.size() > self._options.journal_bytes:
                file.truncate(self._options.journal_bytes)
            file.allocate(self._options.journal_bytes)
            file.sync()
            self._disk.sync_directory(FOLDER)
        except (StorageFailedError, DiskFullError):
            file.close()
            self._disk.remove(path)
            raise
        return file

    def _abandon(self) -> None:
        self._unmarked = 0
        if self._file is not None:
            self._file.close()
            self._file = None
