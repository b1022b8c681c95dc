"""The write side of the journal: numbered files, one block after the other, one sync for each.

Runs on one thread at a time; the loop only reads numbers and the fill level, and hands over a spare file.
A full file that is not needed any more is reused as a spare with a new number: a sync costs about half in
blocks that the file system has written before. Old blocks in it carry the old number, so they are never valid.
Invariants:
  J1  a block is written only after the one before it was synced, and says so (PROOF_FLAG); so does a mark, when no
      block follows soon. Only the first block after recovery proves nothing
  J2  files are used in the order of their numbers, and never again after a block could not be written or synced;
      a mark may fail, because no acknowledgement depends on it
  J3  a file's name is durable before a block in it is reported durable

On a full disk the *reserve* takes the place of a new file: an allocated file that nothing else uses. Half of it is for
entries that free space, the other half for the checkpoints of further starts.
"""

from itertools import count

from flotilla.storage.block import MARK_BYTES, PROOF_FLAG, PendingBlock, encode_mark
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk, File
from flotilla.storage.store_format import Salt
from flotilla.types.errors import DiskFullError, StorageFailedError

FOLDER = "journal"
SUFFIX = ".wal"
RESERVE_PATH = f"{FOLDER}/reserve"


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
        "_has_synced",
        "_limit_bytes",
        "_next_number",
        "_options",
        "_position",
        "_reserve_from",
        "_salt",
        "_unmarked",
        "ends",
        "full",
        "has_reserve",
        "is_reserve",
        "left_number",
        "number",
        "numbers",
        "spare",
    )

    def __init__(self, disk: Disk, options: StoreOptions, salt: Salt, next_number: int, numbers: list[int]) -> None:
        self._disk = disk
        self._options = options
        self._salt = salt
        self._next_number = count(next_number)
        #: None: the next block opens a new file (at the start, and after a failure).
        self._file: File | None = None
        #: Where the next block begins.
        self._position = 0
        #: Where the first block of the reserve ends; 0: it has none yet.
        self._reserve_from = 0
        #: Where the last block of the file must end.
        self._limit_bytes = options.journal_bytes
        #: This process has synced a block, so the one before the next is durable.
        self._has_synced = False
        #: The sequence of the last block until something proves that it is durable, then 0.
        self._unmarked = 0
        self.has_reserve = _has_size(disk, RESERVE_PATH, options.reserve_bytes)
        #: The disk was full, and the file in use is the reserve. The next block goes to a spare file if there is one.
        self.is_reserve = False
        #: The file in use; 0 before the first block.
        self.number = 0
        #: Files that exist, ascending; appended by the writer, removed from by the loop.
        self.numbers = numbers
        #: The files that were filled to the end without a failure.
        self.full: set[int] = set()
        #: By file: the end of its last block or mark, once no more are written to it.
        self.ends: dict[int, int] = {}
        #: Set by the loop: the next block goes to another file than this one, if there is a spare.
        self.left_number = 0
        #: Set by the loop, taken by the writer.
        self.spare: SpareFile | None = None

    def reserve_number(self) -> int:
        return next(self._next_number)

    def write(self, block: PendingBlock) -> None:
        """Writes and syncs the block. After an error the block may be retried."""
        size_bytes = block.size_bytes
        file = self._file
        is_left = self.is_reserve or self.left_number == self.number
        if file is not None and (not self._has_room(size_bytes) or (is_left and self.spare is not None)):
            if not is_left:
                self.full.add(self.number)
            elif self.spare is None and self.is_reserve:
                raise DiskFullError(f"the disk is full, and so is the reserve {journal_path(self.number)}")
            file = None
        if file is None:
            file = self._open_next()
        if size_bytes + MARK_BYTES > self._limit_bytes:
            # The block has the file for itself. A full disk is noticed before the file is touched.
            file = self._enlarge(file, size_bytes + MARK_BYTES)
        if self._has_synced:
            block.flags |= PROOF_FLAG
        try:
            file.write_synced(self._position, block.encode(self.number, self._position, self._salt))
        except (StorageFailedError, DiskFullError):
            # The kernel may have dropped the pages and marked them clean: a second sync would falsely succeed.
            self._abandon()
            raise
        self._position += size_bytes
        if self.is_reserve and not self._reserve_from:
            self._reserve_from = self._position
        self._unmarked = block.sequence
        self._has_synced = True

    def _has_room(self, size_bytes: int) -> bool:
        """Whether a block fits, and its mark."""
        return self._position + size_bytes + MARK_BYTES <= self._limit_bytes or self._position == 0

    def mark(self) -> None:
        """Writes the mark of the last block, unless it has one.

        Not synced: the system writes it soon. Without it a rotten last block looks torn, so it should not be missing
        for long; but no acknowledgement depends on this write.
        """
        if self._file is None or not self._unmarked:
            return
        try:
            mark = encode_mark(self.number, self._position, self._unmarked, self._salt)
            self._file.write(self._position, (mark,))
        except (StorageFailedError, DiskFullError):
            # What the failed write left there is no place for a block, nor is there room for another mark.
            pass
        self._unmarked = 0
        self._position += MARK_BYTES

    def written(self) -> list[tuple[int, int]]:
        """The files with blocks, and where these end; no write touches the bytes before again."""
        number = self.number
        ends = {**self.ends, number: self._position}
        return [(known, ends[known]) for known in sorted(self.numbers) if ends.get(known)]

    @property
    def is_low(self) -> bool:
        """Only the rest of one file is left to write to: of the reserve, or of another one while there is none."""
        is_last = self.is_reserve or not self.has_reserve
        return is_last and (self.spare is None or self.spare.number < self.number)

    def is_reserve_used(self, share: int, more_bytes: int = 0) -> bool:
        """Whether one in `share` bytes of what is for entries is used, or would be with more of them.

        The block for which the reserve was taken does not count: it may be large.
        """
        used = self._position - self._reserve_from + more_bytes
        return self.is_low and share * used >= self._limit_bytes - self._reserve_from

    @property
    def is_half_full(self) -> bool:
        return 2 * self._position >= self._options.journal_bytes

    # Files.

    def start(self, *, unused: int, obsolete: int, last: tuple[int, int]) -> None:
        """Opens the first file. A full disk does not prevent that: files that exist are taken before new ones.

        `unused`: a file after all blocks; `obsolete`: one that no durable block needs; `last`: the file with the last
        block, and where that ends. 0: there is none.
        """
        try:
            if unused:
                self.spare = SpareFile(unused, self._create(unused))
            elif obsolete:
                number = self.reserve_number()
                self.spare = self.create_spare(number, obsolete)
                self.numbers.remove(obsolete)
                self.numbers.append(number)
        except DiskFullError:
            # A crash left the file without all its space: the reserve comes next.
            pass
        try:
            self._open_next()
        except DiskFullError:
            number, position = last
            if not number:
                raise
            self._file = self._disk.open(journal_path(number))
            self.number = number
            self._position = position
            self._limit_bytes = self._file.size()
            self.is_reserve = True

    def limit_reserve(self) -> None:
        """After the first block: half of the reserve is for entries that free space."""
        if self.is_reserve:
            self._limit_bytes = self._options.reserve_bytes // 2

    def restore_reserve(self) -> None:
        """Before the first new block: if there is room for the reserve, nothing is accepted without it."""
        if not self.has_reserve:
            try:
                self.create_reserve()
                self.has_reserve = True
            except (DiskFullError, StorageFailedError):
                # Maintenance tries again.
                pass

    def create_reserve(self) -> None:
        """For maintenance: touches nothing but the new file. Raises DiskFullError."""
        _allocated(self._disk, RESERVE_PATH, self._options.reserve_bytes).close()

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
        self.is_reserve = False
        self._reserve_from = 0
        self._limit_bytes = self._options.journal_bytes
        if spare is None:
            number = next(self._next_number)
            spare = SpareFile(number, self._create_or_take_reserve(number))
            self.numbers.append(number)
        self._position = 0
        self.number = spare.number
        self._file = spare.file
        return spare.file

    def _create_or_take_reserve(self, number: int) -> File:
        try:
            return self._create(number)
        except DiskFullError:
            if not self.has_reserve:
                raise
        return self._take_reserve(number)

    def _enlarge(self, file: File, size_bytes: int) -> File:
        """The file with this size, or on a full disk the reserve if that is large enough."""
        try:
            file.allocate(size_bytes)
            return file
        except DiskFullError:
            if not self.has_reserve or size_bytes > self._options.reserve_bytes:
                raise
        self._abandon()
        self.number = next(self._next_number)
        self.numbers.append(self.number)
        self._file = self._take_reserve(self.number)
        return self._file

    def _take_reserve(self, number: int) -> File:
        self._disk.rename(RESERVE_PATH, journal_path(number))
        self.has_reserve = False
        file = _allocated(self._disk, journal_path(number), self._options.reserve_bytes)
        self.is_reserve = True
        self._limit_bytes = self._options.reserve_bytes
        if self._has_synced:
            self.limit_reserve()
        return file

    def _create(self, number: int) -> File:
        """While there is no reserve, further starts on a full disk have this file alone, so it is no smaller."""
        least_bytes = 0 if self.has_reserve else self._options.reserve_bytes
        return _allocated(self._disk, journal_path(number), max(self._options.journal_bytes, least_bytes))

    def _abandon(self) -> None:
        self._unmarked = 0
        if self._file is not None:
            self.ends[self.number] = self._position
            self._file.close()
            self._file = None


def _has_size(disk: Disk, path: str, size_bytes: int) -> bool:
    """Whether the file exists with all its space: a crash may have left it without."""
    if not disk.exists(path):
        return False
    file = disk.open(path)
    try:
        return file.size() >= size_bytes
    finally:
        file.close()


def _allocated(disk: Disk, path: str, size_bytes: int) -> File:
    """The file at `path` with exactly this size, allocated, and durable with its name. Without space it is removed."""
    file = disk.open(path, create=True)
    try:
        if file.size() > size_bytes:
            file.truncate(size_bytes)
        file.allocate(size_bytes)
        file.sync()
        disk.sync_directory(FOLDER)
    except (StorageFailedError, DiskFullError):
        file.close()
        disk.remove(path)
        raise
    return file
