"""A block: the content of one journal write. Whole sectors, written, synced and valid as one.

    [directory][bodies][padding][copies of configurations][padding][directory again][padding]

The directory lists the content of the block: frame heads of entries, hard states, truncations and so on.
Its second copy lies in other sectors, so that one bad sector loses neither a vote nor the list of entries.
Of the bodies only configurations are stored twice: a replica without its configuration does not know whom to ask for
what it lost. Their copies follow all bodies, in the same order, in sectors of their own. The size of bodies includes
them and the padding before, so that a program that does not know COPIES_FLAG reads the block as well. Directory layout
(64 bytes, then the records):

    magic 8, crc32c 4 (over the records, then bytes 12..64; salted), version 2, copy 1, flags 1, file number 8,
    position of the block 8, sequence 8, size of the block 8, size of the directory 4, records 4, size of bodies 8

A block with PROOF_FLAG proves that the block before it was durable: that one was synced before this one was written.
A *mark* proves the same of the last block when none follows soon. It is a directory of copy MARK without records, in a
sector of its own. A missing proof proves nothing. The checksum covers file number and position, so that bytes from
another place are never valid. Blocks of version 1 have no salt.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from flotilla.codec.checksum import crc32c
from flotilla.raft.messages import CONFIG
from flotilla.storage.framing import (
    ENTRY,
    RECORD_BYTES,
    REPAIRED,
    SECTOR_BYTES,
    Frame,
    is_intact,
    parse_frame,
    parse_record,
    salted,
    sealed_again,
    sectors,
)
from flotilla.storage.ports import Buffer
from flotilla.storage.store_format import Salt
from flotilla.types.errors import CorruptionError

MAGIC: Final = b"FLTBLOCK"
VERSION: Final = 2
_UNSALTED: Final = 1
FIRST: Final = 0
TWIN: Final = 1
MARK: Final = 2
#: The block ends with a checkpoint: the state of all groups after it.
CHECKPOINT_FLAG: Final = 1
#: This process synced the block before. Unset in the first block after recovery, which may replace that one.
PROOF_FLAG: Final = 2
#: The bodies of configurations are stored twice.
COPIES_FLAG: Final = 4

_ZEROS = bytes(SECTOR_BYTES)
_PREFIX = Struct("<8sI")
_REST = Struct("<HBBQQQQIIQ")
HEADER_BYTES: Final = _PREFIX.size + _REST.size
assert HEADER_BYTES == 64
#: The size of a mark.
MARK_BYTES: Final = SECTOR_BYTES


class PendingBlock:
    """The records saved since the last block, in order. Immutable once closed."""

    __slots__ = (
        "bodies",
        "body_bytes",
        "copies",
        "directory_bytes",
        "flags",
        "keep_from",
        "records",
        "saved",
        "sequence",
        "size_bytes",
        "trash",
    )

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        #: Heads of entries and all other records; and the bodies of the entries, in the same order.
        self.records: list[bytes] = []
        self.bodies: list[Buffer] = []
        #: The bodies of configurations among them.
        self.copies: list[Buffer] = []
        #: Sizes are known once the block is closed. That of the bodies includes the copies and what is before them.
        self.directory_bytes = 0
        self.body_bytes = 0
        self.size_bytes = 0
        self.flags = 0
        #: For a checkpoint: the oldest journal file that is still needed once this block is durable.
        self.keep_from = 0
        #: Files that are not needed any more once this block is durable.
        self.trash: list[str] = []
        #: Called once this block is durable.
        self.saved: list[Callable[[], None]] = []

    def add(self, head: bytes, kind: int, body: Buffer) -> None:
        """An entry, new or repaired."""
        self.records.append(head)
        self.bodies.append(body)
        if kind == CONFIG:
            self.copies.append(body)

    def close(self) -> None:
        """The block is complete."""
        self.directory_bytes = HEADER_BYTES + sum(map(len, self.records))
        self.body_bytes = sum(map(len, self.bodies))
        if self.copies:
            self.flags |= COPIES_FLAG
            self.body_bytes += self._gap_bytes() + sum(map(len, self.copies))
        self.size_bytes = _size_bytes(self.directory_bytes, self.body_bytes)

    def _gap_bytes(self) -> int:
        """Between the bodies and their copies, which begin in another sector."""
        return -(self.directory_bytes + sum(map(len, self.bodies))) % SECTOR_BYTES if self.copies else 0

    def encode(self, file_number: int, position: int, salt: Salt) -> list[Buffer]:
        """The block's bytes for this position of the journal; bodies are not copied."""
        directory_bytes, body_bytes = self.directory_bytes, self.body_bytes
        records = b"".join(self.records)
        checksum = _records_checksum(records, salt.value)
        fields = (
            self.flags,
            file_number,
            position,
            self.sequence,
            self.size_bytes,
            directory_bytes,
            len(self.records),
            body_bytes,
        )
        return [
            _header(FIRST, fields, checksum, salt),
            records,
            *self.bodies,
            _ZEROS[: self._gap_bytes()],
            *self.copies,
            _ZEROS[: -(directory_bytes + body_bytes) % SECTOR_BYTES],
            _header(TWIN, fields, checksum, salt),
            records,
            _ZEROS[: -directory_bytes % SECTOR_BYTES],
        ]


def _size_bytes(directory_bytes: int, body_bytes: int) -> int:
    return sectors(directory_bytes + body_bytes) + sectors(directory_bytes)


def encode_mark(file_number: int, position: int, sequence: int, salt: Salt) -> bytes:
    """The mark at `position`, which proves that block `sequence` is durable."""
    fields = (0, file_number, position, sequence, MARK_BYTES, HEADER_BYTES, 0, 0)
    return _header(MARK, fields, _records_checksum(b"", salt.value), salt) + _ZEROS[HEADER_BYTES:]


def _header(copy: int, fields: tuple[int, ...], records_checksum: int, salt: Salt) -> bytes:
    rest = _REST.pack(VERSION if salt.value else _UNSALTED, copy, *fields)
    return _PREFIX.pack(MAGIC, crc32c(rest, records_checksum)) + rest


def _records_checksum(records: Buffer, salt: int) -> int:
    return crc32c(records, salted(salt, len(records)))


class BlockImage:
    """A directory found in a journal file, and the position of its bodies."""

    __slots__ = ("bodies_at", "copy", "data", "end", "file_number", "flags", "position", "records", "salt", "sequence")

    def __init__(
        self, *, data: memoryview, copy: int, flags: int, file_number: int, position: int, sequence: int, end: int,
        records: memoryview, salt: int,
    ) -> None:  # fmt: skip
        self.data = data
        self.copy = copy
        self.flags = flags
        self.file_number = file_number
        self.position = position
        self.sequence = sequence
        #: Where the block ends in the file.
        self.end = end
        self.records = records
        #: Of the checksums of its frames; 0: they have none.
        self.salt = salt
        #: Where the first body begins.
        self.bodies_at = position + HEADER_BYTES + len(records)

    @property
    def is_checkpoint(self) -> bool:
        return bool(self.flags & CHECKPOINT_FLAG)

    @property
    def is_proof(self) -> bool:
        return bool(self.flags & PROOF_FLAG)

    @property
    def has_copies(self) -> bool:
        """Whether configurations are stored twice."""
        return bool(self.flags & COPIES_FLAG)

    @property
    def directory_bytes(self) -> int:
        return HEADER_BYTES + len(self.records)

    @property
    def twin_position(self) -> int:
        """Where the second copy of the directory begins."""
        return self.end - sectors(self.directory_bytes)

    def senseless(self, what: object) -> CorruptionError:
        """The error for content that no version of this program has written, although its checksum is right."""
        return CorruptionError(f"journal block {self.sequence} in file {self.file_number} makes no sense: {what}")

    def body(self, offset: int, length: int) -> memoryview:
        """The body that starts `offset` bytes after the first one; cut at the end of the file."""
        start = self.bodies_at + offset
        return self.data[start : start + length]


def find_directory(data: memoryview, at: int, file_number: int, salt: Salt, start: int = 0) -> BlockImage | None:
    """The directory or mark at `at`; None when there is no valid one. `data` begins at `start` in the file.

    Raises CorruptionError if it is valid and makes no sense.
    """
    if at + HEADER_BYTES > len(data) or bytes(data[at : at + len(MAGIC)]) != MAGIC:
        return None
    _, checksum = _PREFIX.unpack_from(data, at)
    rest_at = at + _PREFIX.size
    fields = _REST.unpack_from(data, rest_at)
    version, copy, flags, number, position, sequence, size_bytes, directory_bytes, _, body_bytes = fields
    position -= start
    if number != file_number or copy not in (FIRST, TWIN, MARK):
        return None
    if version != VERSION and not (version == _UNSALTED and salt.may_be_missing_in(number)):
        return None
    if not HEADER_BYTES <= directory_bytes <= len(data) - at:
        return None
    home = position + size_bytes - sectors(directory_bytes) if copy == TWIN else position
    if home != at:
        return None
    records = data[at + HEADER_BYTES : at + directory_bytes]
    value = salt.value if version == VERSION else 0
    if crc32c(data[rest_at : at + HEADER_BYTES], _records_checksum(records, value)) != checksum:
        return None
    if size_bytes != (MARK_BYTES if copy == MARK else _size_bytes(directory_bytes, body_bytes)):
        raise CorruptionError(f"a block of {size_bytes} bytes in journal file {number} makes no sense")
    return BlockImage(
        data=data, copy=copy, flags=flags, file_number=number, position=position, sequence=sequence,
        end=position + size_bytes, records=records, salt=value,
    )  # fmt: skip


def is_salted(header: bytes, file_number: int) -> bool:
    """Whether these bytes look like the header of a salted block of this file. They are not verified."""
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        return False
    version, _, _, number, *_ = _REST.unpack_from(header, _PREFIX.size)
    return bool(version == VERSION and number == file_number)


def records_of(image: BlockImage) -> Iterator[tuple[int, memoryview, Frame | None, memoryview | None]]:
    """Each record as (tag, payload, head, body); for entries the payload is the head's bytes, the body None if bad.

    Raises CorruptionError where the list of records makes no sense.
    """
    records = image.records
    position = 0
    body_offset = 0
    copy_offset = _copies_offset(image) if image.has_copies else 0
    while position < len(records):
        left_bytes = len(records) - position
        tag, size = parse_record(records, position) if left_bytes >= RECORD_BYTES else (0, RECORD_BYTES)
        if size > left_bytes:
            raise image.senseless("a record is cut off")
        payload = records[position : position + size]
        position += size
        if tag in (ENTRY, REPAIRED):
            frame = parse_frame(payload, 0)
            body = image.body(body_offset, frame.length)
            body_offset += frame.length
            is_good = is_intact(frame.crc, payload, body, image.salt)
            if image.has_copies and frame.kind == CONFIG:
                if not is_good:
                    body = image.body(copy_offset, frame.length)
                    is_good = is_intact(frame.crc, payload, body, image.salt)
                copy_offset += frame.length
            yield tag, payload, frame, body if is_good else None
        else:
            yield tag, payload[RECORD_BYTES:], None, None


def head_of(image: BlockImage, payload: memoryview, frame: Frame, body: memoryview, salt: int) -> bytes:
    """The head of an entry in a block as a store with this salt has it, which wrote the block or got the salt later."""
    return bytes(payload) if image.salt == salt else sealed_again(frame, body, salt)


def has_all_bodies(image: BlockImage) -> bool:
    return all(frame is None or body is not None for _, _, frame, body in records_of(image))


def has_all_copies(image: BlockImage) -> bool:
    """Whether all bodies are intact, and those of configurations twice."""
    offset = 0
    copy_offset = _copies_offset(image) if image.has_copies else 0
    for _, _, frame, body in records_of(image):
        if frame is None:
            continue
        if body is None:
            return False
        if image.has_copies and frame.kind == CONFIG:
            if not image.body(offset, frame.length) == image.body(copy_offset, frame.length) == body:
                return False
            copy_offset += frame.length
        offset += frame.length
    return True


def _copies_offset(image: BlockImage) -> int:
    """The place of the first copy of a configuration, after the first body."""
    records, position, total_bytes = image.records, 0, 0
    while position + RECORD_BYTES <= len(records):
        tag, size = parse_record(records, position)
        if tag in (ENTRY, REPAIRED) and position + size <= len(records):
            total_bytes += parse_frame(records, position).length
        position += size
    return sectors(image.directory_bytes + total_bytes) - image.directory_bytes
