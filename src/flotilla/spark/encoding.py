"""The encoding of Arrow columns as a batch, without a step for each row.

The reverse of `arrow`: a batch has Arrow's layout, except that its offsets begin with 0 and that it omits empty
columns.
"""

from typing import Any, Final, NamedTuple

import numpy
import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.codec.batch.columns import CONTENT_TYPES, HEADERS, KEY_VALIDITY, KEYS, TIMESTAMPS
from flotilla.codec.batch.writer import BatchWriter

#: Columns that differ from row to row within a batch.
ROW_COLUMNS: Final = ("key", "value", "headers", "timestamp_ms", "content_type")
#: Approximate overhead of a record.
_ROW_BYTES: Final = 16


class Numbered(NamedTuple):
    """The producer of a batch, and the sequence of its first record."""

    producer_id: int
    sequence: int


def encode(
    rows: pa.RecordBatch, *, priority: int, deliver_at_ms: int, now_ms: int, compression: int, numbered: Numbered
) -> bytes:
    """Encodes rows with any of `ROW_COLUMNS`."""
    names = rows.schema.names
    value_offsets, values = _binary(rows.column("value"))
    writer = BatchWriter(value_offsets)
    writer.priority = priority
    writer.deliver_at_ms = deliver_at_ms
    first_ms = last_ms = now_ms
    if "timestamp_ms" in names:
        times = rows.column("timestamp_ms").to_numpy(zero_copy_only=False)
        first_ms, last_ms = int(times[0]), int(times.max())
        writer.add(TIMESTAMPS, times.astype("<i8").tobytes())
    if "key" in names:
        _add_keys(writer, rows.column("key"))
    if "headers" in names:
        _add_headers(writer, rows.column("headers"))
    if "content_type" in names:
        writer.add(CONTENT_TYPES, rows.column("content_type").to_numpy(zero_copy_only=False).astype("u1").tobytes())
    head, rest = writer.seal(
        [values],
        payload_bytes=len(values),
        count=rows.num_rows,
        first_time_ms=first_ms,
        max_time_ms=last_ms,
        compression=compression,
        producer_id=numbered.producer_id,
        sequence=numbered.sequence,
    )
    return head + rest


def _binary(column: pa.Array) -> tuple[bytes, memoryview]:
    """Offsets from 0, and the bytes between the first and the last."""
    offsets = _offsets(column)
    data = column.buffers()[-1]
    low, high = int(offsets[0]), int(offsets[-1])
    found = memoryview(data)[low:high] if data is not None else memoryview(b"")
    return (offsets - offsets[0]).astype("<i4").tobytes(), found


def _offsets(column: pa.Array) -> Any:
    """The offsets of a column of lists, strings or bytes: one more than it has rows."""
    buffer = column.buffers()[1]
    if buffer is None:
        return numpy.zeros(1, numpy.int32)
    return numpy.frombuffer(buffer, numpy.int32, len(column) + 1, column.offset * 4)


def _add_keys(writer: BatchWriter, keys: pa.Array) -> None:
    if keys.null_count == len(keys):
        return
    offsets, data = _binary(keys.fill_null(b""))
    # The validity follows the offsets and bytes.
    writer.add(KEYS, offsets, data)
    if keys.null_count:
        valid = numpy.asarray(keys.is_valid())
        writer.add(KEY_VALIDITY, numpy.packbits(valid, bitorder="little").tobytes())


def _add_headers(writer: BatchWriter, headers: pa.Array) -> None:
    offsets = _offsets(headers)
    first, end = int(offsets[0]), int(offsets[-1])
    if first == end:
        return
    # Not `field`, which ignores the offset of a slice.
    names, values = headers.values.slice(first, end - first).flatten()
    writer.add(HEADERS, (offsets - offsets[0]).astype("<i4").tobytes())
    writer.add(HEADERS, *_binary(names))
    writer.add(HEADERS, *_binary(values))


def row_bytes(rows: pa.RecordBatch) -> Any:
    """The approximate size of each row."""
    sizes = numpy.full(rows.num_rows, _ROW_BYTES, numpy.int64)
    for name in ("key", "value"):
        if name in rows.schema.names:
            sizes += numpy.diff(_offsets(rows.column(name)))
    if "headers" in rows.schema.names:
        headers = rows.column("headers")
        ends = numpy.zeros(len(headers.values) + 1, numpy.int64)
        for column in headers.values.flatten():
            ends[1:] += numpy.cumsum(numpy.diff(_offsets(column)))
        borders = ends[_offsets(headers)]
        sizes += numpy.diff(borders)
    return sizes
