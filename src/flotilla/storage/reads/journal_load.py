"""Verification of what rests in the journal: block by block, on another thread than the loop.

What the journal holds is in memory as well, so damage in it loses nothing while the node runs. A start would have to
repair it from other replicas, or refuse.
"""

from flotilla.storage.block import MARK, MARK_BYTES, TWIN, find_directory, has_all_copies
from flotilla.storage.journal import journal_path
from flotilla.storage.ports import Disk, File
from flotilla.storage.reads.loads import LoadedPart
from flotilla.storage.store_format import Salt
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import GroupId
from flotilla.types.limits import KIB

#: One piece: more than most blocks.
_PIECE_BYTES = 1024 * KIB


class JournalLoad:
    """Verifies the blocks of one file from `low` on, about a piece of them and at least one."""

    __slots__ = (
        "_disk", "_salt", "end", "file", "is_background", "is_damaged", "low", "next_position", "number", "part",
    )  # fmt: skip

    def __init__(self, disk: Disk, salt: Salt, number: int, low: int, end: int) -> None:
        """The bytes up to `end` were written, and no write touches them again."""
        self._disk = disk
        self._salt = salt
        self.number = number
        self.low = low
        self.end = end
        self.is_background = True
        #: Where the next piece begins; the end of the file if this one is damaged or was not read.
        self.next_position = end
        self.is_damaged = False
        self.part: LoadedPart | None = None
        self.file: File | None = None

    @property
    def group(self) -> GroupId:
        """Of none: a block holds records of many."""
        return 0

    @property
    def path(self) -> str:
        return journal_path(self.number)

    def run(self) -> None:
        file = self._disk.open(self.path)
        try:
            verified_bytes = self._verify(file, _PIECE_BYTES)
            if not verified_bytes:
                # The first block is damaged, or larger than a piece.
                verified_bytes = self._verify(file, self.end - self.low)
        finally:
            file.close()
        self.is_damaged = verified_bytes == 0
        self.next_position = self.end if self.is_damaged else self.low + verified_bytes
        self.part = LoadedPart(self.path, self.low, verified_bytes)

    def _verify(self, file: File, length: int) -> int:
        """The size of the intact blocks from the start of the piece on."""
        length = min(length, self.end - self.low)
        file.drop_cached(self.low, length)
        content = memoryview(file.read(self.low, length))
        done = 0
        while done < len(content):
            size_bytes = _intact_bytes(content[done:], self.number, self.low + done, self._salt)
            if not size_bytes:
                break
            done += size_bytes
        return done


def _intact_bytes(content: memoryview, number: int, position: int, salt: Salt) -> int:
    """The size of the block or mark at the start of `content`; 0 if it is damaged or not all there."""
    try:
        image = find_directory(content, 0, number, salt, position)
        if image is None or image.copy == TWIN:
            return 0
        if image.copy == MARK:
            return MARK_BYTES if len(content) >= MARK_BYTES else 0
        twin = find_directory(content, image.twin_position, number, salt, position)
        return image.end if twin is not None and has_all_copies(image) and image.end <= len(content) else 0
    except CorruptionError:
        return 0
