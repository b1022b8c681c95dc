"""Cutting a range of records out of a batch, as a batch of its own, without decoding records.

For leases smaller than a stored batch: fixed columns are sliced, offsets are rebased to 0, bytes are copied once. The
result gets a new checksum, so the source's is verified first: damaged bytes must not get a valid one. A compressed
batch is opened, and the piece is not compressed again.
"""

from flotilla.codec.batch.columns import (
    CONTENT_TYPES,
    HEADERS,
    IDEMPOTENCY_KEYS,
    KEY_VALIDITY,
    KEYS,
    MAX_DELIVERIES,
    TIMESTAMPS,
    TTLS,
    Buffer,
    Columns,
    cut_offsets,
    open_columns,
)
from flotilla.codec.batch.header import BatchHeader, check, patch_base_offset
from flotilla.codec.batch.writer import BatchWriter
from flotilla.types.errors import InvalidArgumentError

_SEQUENCE_MASK = 2**32 - 1


def cut(batch: Buffer, first: int, count: int) -> bytes:
    """The records [first, first + count) of a validated batch, with their own offset and sequence.

    Raises InvalidArgumentError when the range is not inside the batch or the batch is damaged.
    """
    header = check(batch)
    if first == 0 and count == header.count:
        return bytes(batch)
    return cut_columns(open_columns(batch, header), header, first, count)


def cut_columns(columns: Columns, header: BatchHeader, first: int, count: int) -> bytes:
    """The same for a verified, opened batch: only the bytes of the piece are touched.

    Raises InvalidArgumentError.
    """
    if first < 0 or count < 1 or first + count > header.count:
        raise InvalidArgumentError(f"no records [{first}, {first + count}) in a batch of {header.count}")
    try:
        head, rest = _cut(columns, header, first, first + count)
    except OverflowError as error:
        raise InvalidArgumentError("the offsets of a column are out of order") from error
    placed = bytearray(head)
    patch_base_offset(placed, header.base_offset + first, header.term)
    return b"".join((placed, rest))


def _cut(columns: Columns, header: BatchHeader, first: int, end: int) -> tuple[bytes, bytes]:
    offsets, payloads = columns.payloads.cut(first, end)
    writer = BatchWriter(offsets)
    directory = columns.directory
    writer.priority = directory.priority
    writer.content_type = directory.content_type
    writer.deliver_at_ms = directory.deliver_at_ms
    writer.ttl_ms = directory.ttl_ms
    writer.max_deliveries = directory.max_deliveries
    first_time_ms = max_time_ms = header.first_time_ms
    if columns.timestamps is not None:
        times = columns.timestamps[first:end]
        first_time_ms = times[0]
        max_time_ms = max(times)
        writer.add(TIMESTAMPS, times.cast("B"))
    if directory.columns & ~TIMESTAMPS:
        _cut_optional(writer, columns, first, end)
    return writer.seal(
        (payloads,),
        payload_bytes=len(payloads),
        count=end - first,
        first_time_ms=first_time_ms,
        max_time_ms=max_time_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequence=(header.producer_sequence + first) & _SEQUENCE_MASK,
    )


def _cut_optional(writer: BatchWriter, columns: Columns, first: int, end: int) -> None:
    if columns.ttls is not None:
        writer.add(TTLS, columns.ttls[first:end].cast("B"))
    if columns.keys is not None:
        writer.add(KEYS, *columns.keys.cut(first, end))
    if columns.key_validity is not None:
        bits = int.from_bytes(columns.key_validity, "little") >> first & ((1 << (end - first)) - 1)
        writer.add(KEY_VALIDITY, bits.to_bytes((end - first + 7) >> 3, "little"))
    if columns.idempotency_keys is not None:
        writer.add(IDEMPOTENCY_KEYS, *columns.idempotency_keys.cut(first, end))
    if columns.header_offsets is not None:
        _cut_headers(writer, columns, columns.header_offsets, first, end)
    if columns.max_deliveries is not None:
        writer.add(MAX_DELIVERIES, columns.max_deliveries[first:end].cast("B"))
    if columns.content_types is not None:
        writer.add(CONTENT_TYPES, columns.content_types[first:end])


def _cut_headers(writer: BatchWriter, columns: Columns, pairs: memoryview, first: int, end: int) -> None:
    names = columns.header_names
    values = columns.header_values
    assert names is not None
    assert values is not None
    low: int = pairs[first]
    high: int = pairs[end]
    if not 0 <= low <= high < len(names.offsets):
        raise InvalidArgumentError("the offsets of a column are out of order")
    writer.add(HEADERS, cut_offsets(pairs, first, end))
    writer.add(HEADERS, *names.cut(low, high))
    writer.add(HEADERS, *values.cut(low, high))
