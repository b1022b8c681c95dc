"""The part of a batch after its header: a directory of 32 bytes, then columns in Arrow's buffer layout.

Little endian. The directory is never compressed, so a broker reads it without opening the batch. Its
constants hold for every record unless the column of the same name exists.

    offset size field           meaning
        64   2  columns         the bits below: which columns exist
        66   1  priority        of all records
        67   1  content_type    of all records, unless there is a column
        68   4  body_bytes      of all columns together, before compression
        72   8  deliver_at_ms   of all records; 0: at once
        80   8  ttl_ms          of all records, unless there is a column; 0: never expires
        88   2  max_deliveries  of all records, unless there is a column; 0: the topic's setting
        90   6  zero
        96      the columns, in this order, each at the next multiple of 8 bytes

    bit  column                 type        when it is absent
         payload offsets        i32[n+1]    never
    0    timestamps             i64[n]      every record has the header's first_time_ms
    1    ttls                   i64[n]      the directory's
    2    key offsets            i32[n+1]    no record has a key
    3    key validity           bit[n]      every record has one (least bit first, 1: has a key)
    4    idempotency offsets    i32[n+1]    no record has an idempotency key (nor has one with an empty key)
    5    header offsets         i32[n+1]    no record has headers; counts pairs, m of them in all
    5    header name offsets    i32[m+1]
    5    header value offsets   i32[m+1]
    6    max deliveries         u16[n]      the directory's
    7    content types          u8[n]       the directory's
    2    keys, 4 idempotency keys, 5 header names (UTF-8), 5 header values, and last the payloads: bytes

Offsets of a column begin with 0, never decrease and end with the size of its bytes. So each position follows from `n`,
the bits and the last offsets, and nothing is stored twice. The payloads end the batch.
"""

import sys
from collections.abc import Sequence
from itertools import pairwise
from operator import sub
from struct import Struct
from typing import Final, NamedTuple, TypeAlias, TypeVar

from flotilla.codec.batch.compression import NONE, decompress
from flotilla.codec.batch.header import COMPRESSION_AT, FORMAT_COLUMNS, HEADER_BYTES, BatchHeader
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import (
    BATCH_HEADER_COUNT_MAX,
    BATCH_RECORD_COUNT_MAX,
    COMPRESSION_RATIO_MAX,
    ENTRY_BYTES_MAX,
)

# Columns are read and written in the machine's byte order, which must be the format's.
assert sys.byteorder == "little"

Buffer: TypeAlias = bytes | bytearray | memoryview
B = TypeVar("B", bytes, memoryview, bytes | memoryview)

TIMESTAMPS: Final = 1 << 0
TTLS: Final = 1 << 1
KEYS: Final = 1 << 2
KEY_VALIDITY: Final = 1 << 3
IDEMPOTENCY_KEYS: Final = 1 << 4
HEADERS: Final = 1 << 5
MAX_DELIVERIES: Final = 1 << 6
CONTENT_TYPES: Final = 1 << 7
_KNOWN: Final = (1 << 8) - 1

DIRECTORY: Final = Struct("<HBBIqqHHI")
COLUMNS_AT: Final = HEADER_BYTES + DIRECTORY.size
assert DIRECTORY.size == 32

OFFSET_BYTES: Final = 4


class Directory(NamedTuple):
    """The fields in the order of the table above."""

    columns: int
    priority: int
    content_type: int
    body_bytes: int
    deliver_at_ms: int
    ttl_ms: int
    max_deliveries: int
    zero_low: int = 0
    zero_high: int = 0


def read_directory(buffer: Buffer) -> Directory:
    """The fields that a broker acts on, in constant time. Raises InvalidArgumentError."""
    if len(buffer) < COLUMNS_AT:
        raise InvalidArgumentError(f"{len(buffer)} bytes are too few for a batch of columns")
    directory = Directory._make(DIRECTORY.unpack_from(buffer, HEADER_BYTES))
    columns = directory.columns
    if columns & ~_KNOWN:
        raise InvalidArgumentError(f"unknown columns {columns & ~_KNOWN:#x}")
    if directory.zero_low or directory.zero_high:
        raise InvalidArgumentError("reserved bytes of the directory are set")
    if columns & KEY_VALIDITY and not columns & KEYS:
        raise InvalidArgumentError("the batch has a validity of keys, but no keys")
    return directory


def opened_bytes(buffer: Buffer, body_bytes_max: int) -> int:
    """What opening the batch takes; 0: it is not compressed, or is refused before it is opened."""
    if len(buffer) < COLUMNS_AT or not buffer[COMPRESSION_AT]:
        return 0
    body_bytes = Directory._make(DIRECTORY.unpack_from(buffer, HEADER_BYTES)).body_bytes
    return body_bytes if body_bytes <= min(body_bytes_max, len(buffer) * COMPRESSION_RATIO_MAX) else 0


def size_when_open(batch: Buffer) -> int:
    return opened_bytes(batch, ENTRY_BYTES_MAX) or len(batch)


def leading(batches: Sequence[B], bytes_max: int) -> Sequence[B]:
    """The first batches, as many as together are not larger when they are opened; at least one."""
    left = bytes_max
    for place, batch in enumerate(batches):
        left -= size_when_open(batch)
        if left < 0 and place:
            return batches[:place]
    return batches


class BinaryColumn:
    """A column of byte strings: offsets and the bytes they point into, as Arrow's `binary` has them."""

    __slots__ = ("data", "offsets")

    def __init__(self, offsets: memoryview, data: memoryview) -> None:
        #: Of type i32, one more than items.
        self.offsets = offsets
        #: As many bytes as the last offset.
        self.data = data

    def item(self, position: int) -> bytes:
        """One item. On an unchecked column raises InvalidArgumentError if its offsets are wrong."""
        start: int = self.offsets[position]
        end: int = self.offsets[position + 1]
        if not 0 <= start <= end <= len(self.data):
            raise InvalidArgumentError("an offset points outside of its column")
        return bytes(self.data[start:end])

    def items(self) -> list[bytes]:
        """All items; checks all offsets."""
        offsets = checked_offsets(self.offsets)
        # A slice of bytes is bytes: one copy here saves an object per item.
        data = bytes(self.data)
        return [data[start:end] for start, end in pairwise(offsets)]

    def check(self, what: str, item_bytes_max: int, setting: str = "") -> None:
        """Checks the offsets and the limit of an item; `setting` names the setting that raises it.

        Raises InvalidArgumentError.
        """
        offsets = checked_offsets(self.offsets)
        # The size of all items bounds each, and is mostly below the limit.
        if offsets[-1] > item_bytes_max:
            size_bytes = max(map(sub, offsets[1:], offsets))
            if size_bytes > item_bytes_max:
                raise InvalidArgumentError(f"{what} of {size_bytes} bytes is above {item_bytes_max}{setting}")

    def cut(self, first: int, end: int) -> tuple[bytes, memoryview]:
        """Offsets, rebased to 0, and bytes of the items [first, end)."""
        low: int = self.offsets[first]
        high: int = self.offsets[end]
        return cut_offsets(self.offsets, first, end), self.data[low:high]


def checked_offsets(column: memoryview) -> list[int]:
    """The offsets, if they begin with 0 and never decrease. Raises InvalidArgumentError."""
    offsets: list[int] = column.tolist()
    # Sorting a sorted list is one comparison per item in C, far faster than a loop.
    if offsets[0] != 0 or offsets != sorted(offsets):
        raise InvalidArgumentError("the offsets of a column are out of order")
    return offsets


def cut_offsets(column: memoryview, first: int, end: int) -> bytes:
    """The offsets [first, end] of a checked column, rebased to 0.

    One subtraction of long numbers lowers all of them: no lane borrows from the next, because offsets never decrease.
    For 1,000 offsets that takes 9 µs, and a loop 41.
    """
    low: int = column[first]
    lanes = column[first : end + 1].tobytes()
    if low == 0:
        return lanes
    ones = int.from_bytes(b"\x01\x00\x00\x00" * (end + 1 - first), "little")
    return (int.from_bytes(lanes, "little") - low * ones).to_bytes(len(lanes), "little")


class _Cursor:
    """Reads the columns in order, never beyond the end."""

    __slots__ = ("at", "body")

    def __init__(self, body: memoryview, at: int) -> None:
        self.body = body
        self.at = at

    def take(self, size_bytes: int) -> memoryview:
        end = self.at + size_bytes
        if not self.at <= end <= len(self.body):
            raise InvalidArgumentError("the columns reach beyond the batch")
        column = self.body[self.at : end]
        self.at = (end + 7) & -8
        return column

    def take_offsets(self, count: int) -> memoryview:
        if count < 0:
            raise InvalidArgumentError("a column has a negative size")
        return self.take(OFFSET_BYTES * (count + 1)).cast("i")


class Columns:
    """The columns of one batch as views without a copy; None where a column is absent.

    Only the shape is checked: every column lies inside the batch, and together they fill it.
    """

    __slots__ = (
        "content_types",
        "count",
        "directory",
        "header_names",
        "header_offsets",
        "header_values",
        "idempotency_keys",
        "key_validity",
        "keys",
        "max_deliveries",
        "payloads",
        "timestamps",
        "ttls",
    )

    def __init__(self, body: memoryview, count: int, directory: Directory) -> None:
        self.count = count
        self.directory = directory
        self.timestamps: memoryview | None = None
        self.ttls: memoryview | None = None
        self.keys: BinaryColumn | None = None
        self.key_validity: memoryview | None = None
        self.idempotency_keys: BinaryColumn | None = None
        self.header_offsets: memoryview | None = None
        self.header_names: BinaryColumn | None = None
        self.header_values: BinaryColumn | None = None
        self.max_deliveries: memoryview | None = None
        self.content_types: memoryview | None = None
        # The offsets of the payloads come first, the payloads last, and mostly nothing is between them.
        body_bytes = len(body)
        offsets_end = OFFSET_BYTES * (count + 1)
        if offsets_end > body_bytes:
            raise InvalidArgumentError("the columns reach beyond the batch")
        payload_offsets = body[:offsets_end].cast("i")
        payloads_at = (offsets_end + 7) & -8
        if directory.columns:
            payloads_at = self._find_optional(_Cursor(body, payloads_at), directory.columns)
        payload_bytes: int = payload_offsets[count]
        if payload_bytes < 0 or payloads_at + payload_bytes != body_bytes:
            raise InvalidArgumentError("the columns do not fill the batch")
        self.payloads = BinaryColumn(payload_offsets, body[payloads_at:])

    def _find_optional(self, cursor: _Cursor, present: int) -> int:
        """Finds the optional columns; returns their end."""
        count = self.count
        if present & TIMESTAMPS:
            self.timestamps = cursor.take(8 * count).cast("q")
        if present & TTLS:
            self.ttls = cursor.take(8 * count).cast("q")
        key_offsets = cursor.take_offsets(count) if present & KEYS else None
        if present & KEY_VALIDITY:
            self.key_validity = cursor.take((count + 7) >> 3)
        idempotency_offsets = cursor.take_offsets(count) if present & IDEMPOTENCY_KEYS else None
        name_offsets: memoryview | None = None
        header_value_offsets: memoryview | None = None
        if present & HEADERS:
            self.header_offsets = cursor.take_offsets(count)
            pairs: int = self.header_offsets[count]
            if pairs > BATCH_HEADER_COUNT_MAX:
                raise InvalidArgumentError(f"{pairs} headers in a batch are above {BATCH_HEADER_COUNT_MAX}")
            name_offsets = cursor.take_offsets(pairs)
            header_value_offsets = cursor.take_offsets(pairs)
        if present & MAX_DELIVERIES:
            self.max_deliveries = cursor.take(2 * count).cast("H")
        if present & CONTENT_TYPES:
            self.content_types = cursor.take(count)
        self.keys = _binary(cursor, key_offsets)
        self.idempotency_keys = _binary(cursor, idempotency_offsets)
        self.header_names = _binary(cursor, name_offsets)
        self.header_values = _binary(cursor, header_value_offsets)
        return cursor.at


def _binary(cursor: _Cursor, offsets: memoryview | None) -> BinaryColumn | None:
    return None if offsets is None else BinaryColumn(offsets, cursor.take(offsets[-1]))


def open_columns(buffer: Buffer, header: BatchHeader, body_bytes_max: int = ENTRY_BYTES_MAX) -> Columns:
    """The columns of a batch with a valid header. A compressed batch is opened within the limit and the ratio.

    Raises InvalidArgumentError.
    """
    if header.format != FORMAT_COLUMNS:
        raise InvalidArgumentError(f"a batch of format {header.format} has no columns to read")
    if header.count > BATCH_RECORD_COUNT_MAX:
        raise InvalidArgumentError(f"{header.count} records in a batch are above {BATCH_RECORD_COUNT_MAX}")
    directory = read_directory(buffer)
    body = memoryview(buffer)[COLUMNS_AT:]
    if header.compression != NONE:
        body = memoryview(decompress(header.compression, body, directory.body_bytes, body_bytes_max))
    elif directory.body_bytes != len(body):
        raise InvalidArgumentError(f"the batch says {directory.body_bytes} bytes of columns and has {len(body)}")
    return Columns(body, header.count, directory)
