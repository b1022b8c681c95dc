"""The header of a record batch: 64 bytes, the same on the wire, on disk and between replicas.

Little endian. The leader patches the first two fields, so they stand outside the checksum.

    offset size field            meaning
         0   8  base_offset      offset of the first record; 0 until the leader assigns it
         8   4  term             the leader's term when it did
        12   4  length           bytes of the whole batch, this header included
        16   4  crc32c           over bytes 20..length
        20   1  version          of this layout: 1
        21   1  format           of what follows: 1 columns, 2 a foreign batch stored as it came
        22   1  compression      of what follows: 0 none
        23   1  flags            bit 0: committed by a transaction; set by the leader alone
        24   4  count            records, at least 1
        28   2  producer_epoch   fences an older producer of the same id
        30   2  magic            0x4C46 ("FL"): tells a batch from any other entry of the log
        32   8  first_time_ms    time of the first record
        40   8  max_time_ms      the newest of all
        48   8  producer_id      0: not idempotent
        56   4  producer_sequence of the first record
        60   4  zero

The columns after it are read in `columns`; brokers rarely do.
"""

import struct
from dataclasses import dataclass
from struct import Struct
from typing import Final

from flotilla.codec.checksum import crc32c
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import ENTRY_BYTES_MAX

VERSION: Final = 1
FORMAT_COLUMNS: Final = 1
FORMAT_FOREIGN: Final = 2
MAGIC: Final = 0x4C46
#: The batch was staged and became visible by the commit of a transaction. `check` refuses it from clients.
TRANSACTIONAL: Final = 1

_HEADER = Struct("<QIIIBBBBIHHqqQII")
_PATCH = Struct("<QI")
_CRC = Struct("<I")
_PRODUCER_ID = Struct("<Q")
_PRODUCER_ID_AT: Final = 48
#: The highest byte of the producer's id, and the bit in it that marks a dead letter.
_PRODUCER_TOP: Final = 55
_TOP_BIT: Final = 0x80
_CRC_AT = 16
COMPRESSION_AT: Final = 22
_CHECKED_FROM = 20
HEADER_BYTES: Final = _HEADER.size
assert HEADER_BYTES == 64


@dataclass(slots=True)
class BatchHeader:
    """The fields in the order of the table above. Not frozen: creation would take three times as long."""

    base_offset: int
    term: int
    length: int
    crc32c: int
    version: int
    format: int
    compression: int
    flags: int
    count: int
    producer_epoch: int
    magic: int
    first_time_ms: int
    max_time_ms: int
    producer_id: int
    producer_sequence: int
    zero: int


def pack_header(
    body: bytes | bytearray | memoryview,
    *,
    count: int,
    first_time_ms: int,
    max_time_ms: int,
    format: int = FORMAT_COLUMNS,  # noqa: A002 - the field's name in the table above
    compression: int = 0,
    producer_id: int = 0,
    producer_epoch: int = 0,
    producer_sequence: int = 0,
    flags: int = 0,
) -> bytes:
    """The header that goes in front of `body`, with its checksum; base offset and term are still zero."""
    length = HEADER_BYTES + len(body)
    if count < 1:
        raise InvalidArgumentError("a batch holds at least one record")
    if length > ENTRY_BYTES_MAX:
        raise InvalidArgumentError(f"a batch of {length} bytes is above {ENTRY_BYTES_MAX}")
    try:
        header = _HEADER.pack(
            0, 0, length, 0, VERSION, format, compression, flags, count, producer_epoch, MAGIC,
            first_time_ms, max_time_ms, producer_id, producer_sequence, 0,
        )  # fmt: skip
    except struct.error as error:
        raise InvalidArgumentError(f"a field does not fit into the batch header: {error}") from error
    checksum = crc32c(body, crc32c(header[_CHECKED_FROM:]))
    return header[:_CRC_AT] + _CRC.pack(checksum) + header[_CHECKED_FROM:]


def is_of_letter(buffer: bytes | bytearray | memoryview) -> bool:
    """Whether the producer is that of a dead letter, whose id has the highest bit (`types/dead_letters`)."""
    return len(buffer) > _PRODUCER_TOP and buffer[_PRODUCER_TOP] >= _TOP_BIT


def parse_header(buffer: bytes | bytearray | memoryview) -> BatchHeader:
    """The fields of a well-formed header; `check` verifies the checksum. Raises InvalidArgumentError."""
    size_bytes = len(buffer)
    if size_bytes < HEADER_BYTES:
        raise InvalidArgumentError(f"{size_bytes} bytes are too few for a batch header")
    header = BatchHeader(*_HEADER.unpack_from(buffer))
    if header.magic != MAGIC or header.version != VERSION:
        raise InvalidArgumentError(f"no batch of version {VERSION}")
    if header.length != size_bytes:
        raise InvalidArgumentError(f"the batch says {header.length} bytes and has {size_bytes}")
    if header.count < 1:
        raise InvalidArgumentError("a batch holds at least one record")
    if header.format not in (FORMAT_COLUMNS, FORMAT_FOREIGN):
        raise InvalidArgumentError(f"unknown batch format {header.format}")
    if header.flags & ~TRANSACTIONAL or header.zero:
        raise InvalidArgumentError("reserved bits of the batch header are set")
    if header.max_time_ms < header.first_time_ms:
        raise InvalidArgumentError("the newest record is older than the first one")
    return header


def check(buffer: bytes | bytearray | memoryview) -> BatchHeader:
    """Checks shape and checksum of a batch from a client. Raises InvalidArgumentError."""
    header = parse_header(buffer)
    if crc32c(memoryview(buffer)[_CHECKED_FROM:]) != header.crc32c:
        raise InvalidArgumentError("the batch fails its checksum")
    return header


def patch_base_offset(buffer: bytearray | memoryview, base_offset: int, term: int) -> None:
    """Writes the offset and term that the leader assigns; the checksum does not cover them."""
    _PATCH.pack_into(buffer, 0, base_offset, term)


def patch_producer(buffer: memoryview, producer_id: int) -> None:
    """Writes another producer id, and the checksum."""
    _PRODUCER_ID.pack_into(buffer, _PRODUCER_ID_AT, producer_id)
    _CRC.pack_into(buffer, _CRC_AT, crc32c(buffer[_CHECKED_FROM:]))


def published(buffer: bytes | bytearray | memoryview, producer_id: int, producer_sequence: int) -> bytearray:
    """A staged batch as its leader stores it at the commit: marked, and with other numbers."""
    header = parse_header(buffer)
    body = memoryview(buffer)[HEADER_BYTES:]
    head = pack_header(
        body,
        count=header.count,
        first_time_ms=header.first_time_ms,
        max_time_ms=header.max_time_ms,
        format=header.format,
        compression=header.compression,
        producer_id=producer_id,
        producer_sequence=producer_sequence,
        flags=TRANSACTIONAL,
    )
    return bytearray(b"".join((head, body)))


def unpack_header(data: bytes | bytearray | memoryview) -> tuple[int, ...] | None:
    """The header of a stored batch; None for the other commands of a partition, which have no such magic."""
    size_bytes = len(data)
    if size_bytes < HEADER_BYTES:
        return None
    header = _HEADER.unpack_from(data)
    if header[10] != MAGIC or header[4] != VERSION or header[2] != size_bytes or header[8] < 1:
        return None
    return header
