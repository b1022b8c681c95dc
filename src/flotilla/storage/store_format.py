"""The file `format`: marks a directory as a store, tells its version, and keeps the salt of its checksums.

The salt is a random number with which the checksums of frames and of journal blocks begin. A search for the next intact
frame or block goes through payloads, and a client that does not know the salt cannot make bytes there look like one.
It never leaves the directory: entries travel between nodes, and into backups, without frames.

The file has two copies (`codec/two_copies.py`), so that one bad sector does not lose the salt. Layout of each sector:

    "flotilla store 3" and a line feed, zeros up to 32; 1 once the store was created completely, else 0: 4; salt 8;
    first salted segment 8; first salted journal file 8; crc32c 4 of all that; zeros

It is written before the first block, and again when the store is complete. A store of version 2 has the line alone and
no salt. It gets one when it is opened; its files stay as they are, and are recognised by their numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from flotilla.codec.checksum import crc32c
from flotilla.codec.two_copies import SECTOR_BYTES, Copies, find_copies, whole_sectors
from flotilla.storage.disk_folder import DiskFolder
from flotilla.storage.ports import Disk
from flotilla.types.errors import CorruptionError, InvalidArgumentError

#: Of everything in a data directory but the identity (`docs/reference/formats.md`).
STORE_VERSION: Final = 3
#: The last one without a salt.
_UNSALTED: Final = 2

#: In the data directory.
FORMAT_FILE: Final = "format"

_NAME: Final = b"flotilla store "
_COPY = Struct("<32sIQQQ")
_CRC = Struct("<I")
_SALT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Salt:
    """Where the checksums of a store begin, and which of its files have salted ones."""

    #: 0: there is none.
    value: int = field(default=0, repr=False)
    first_segment: int = 0
    first_journal: int = 0

    @classmethod
    def draw(cls, secret: Callable[[int], bytes], first_segment: int, first_journal: int) -> "Salt":
        # An odd number: as a factor it loses no bit, and it is not 0.
        return cls(int.from_bytes(secret(_SALT_BYTES), "little") | 1, first_segment, first_journal)

    def of_segment(self, number: int) -> int:
        """What the checksums of a segment begin with."""
        return self.value if number >= self.first_segment else 0

    def may_be_missing_in(self, journal: int) -> bool:
        """Whether a journal file may hold blocks without a salt."""
        return not self.value or journal < self.first_journal


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """The content of the file."""

    salt: Salt
    #: False: the store was never opened completely, so it holds nothing that was acknowledged.
    is_complete: bool

    @classmethod
    def read(cls, disk: Disk) -> "StoreFormat | None":
        """None: there is no such file.

        Raises InvalidArgumentError for a store of another version, CorruptionError if no copy of the salt is intact.
        """
        content = DiskFolder(disk).read(FORMAT_FILE)
        if content is None:
            return None
        copies = find_format(content)
        line = (copies.content or content).partition(b"\n")[0]
        version = line.removeprefix(_NAME).decode("ascii", "replace") if line.startswith(_NAME) else ""
        if version and version not in (str(_UNSALTED), str(STORE_VERSION)):
            raise InvalidArgumentError(
                f"the data directory is of store version {version}, and this version of flotilla reads "
                f"{_UNSALTED} and {STORE_VERSION}: start it with the version that wrote it"
            )
        if copies.content is not None:
            _, is_complete, *salt = _COPY.unpack(copies.content)
            return cls(Salt(*salt), bool(is_complete))
        if version == str(STORE_VERSION) or len(content) > SECTOR_BYTES:
            raise CorruptionError("both copies of the file `format` are damaged, and nothing can be read without it")
        # Of version 2. If the line is rotten, the file is still there.
        return cls(Salt(), is_complete=True)

    def write(self, disk: Disk) -> None:
        """Replaces the file. Raises DiskFullError."""
        copy = _COPY.pack(
            _NAME + b"%d\n" % STORE_VERSION,
            self.is_complete,
            self.salt.value,
            self.salt.first_segment,
            self.salt.first_journal,
        )
        DiskFolder(disk).write(FORMAT_FILE, *_encode(copy))


def find_format(content: bytes) -> Copies:
    return find_copies(content, _decode, _encode)


def read_salt(disk: Disk) -> Salt:
    """The salt of the store on this disk, for those that read its files without opening it."""
    found = StoreFormat.read(disk)
    return Salt() if found is None else found.salt


def _encode(copy: bytes) -> tuple[bytes, bytes]:
    sector = whole_sectors(copy + _CRC.pack(crc32c(copy)))
    return sector, sector


def _decode(content: bytes) -> bytes | None:
    copy, checksum = content[: _COPY.size], content[_COPY.size : _COPY.size + _CRC.size]
    return copy if len(copy) == _COPY.size and checksum == _CRC.pack(crc32c(copy)) else None
