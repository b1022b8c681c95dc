"""The conversion of stored batches into Arrow record batches, without a step for each record.

A stored batch has Arrow's layout, so most columns become arrays without a copy; constant columns are built once. Small
batches are joined, because Spark's cost of a record batch does not depend on its size.

The types are exactly those that Spark expects: it refuses a first batch that differs and does not check the others.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy
import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.codec.batch.columns import BinaryColumn
from flotilla.codec.batch.view import BatchView
from flotilla.lake.offset_range import OffsetRange
from flotilla.types.errors import CorruptionError, InvalidArgumentError, OffsetOutOfRangeError
from flotilla.types.limits import MIB

#: Batches are joined up to this size. Measured: beyond 8 Ki rows more does not help.
ROWS_MIN: Final = 16_384
#: A column's offsets have 32 bits, and tasks share the memory.
JOINED_BYTES_MAX: Final = 64 * MIB

_MS_US: Final = 1_000


def record_batches(
    stored: Iterable[bytes | memoryview], wanted: OffsetRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order. Raises CorruptionError for a batch that fails its checksum."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    try:
        for each in stored:
            if waiting and (rows >= ROWS_MIN or size_bytes + len(each) > JOINED_BYTES_MAX):
                yield _joined(waiting, schema)
                waiting, rows, size_bytes = [], 0, 0
            found = record_batch(each, wanted, schema)
            if found.num_rows:
                waiting.append(found)
                rows += found.num_rows
                size_bytes += len(each)
    except OffsetOutOfRangeError:
        # A caller that continues after the gap gets everything before it.
        if waiting:
            yield _joined(waiting, schema)
        raise
    if waiting:
        yield _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(at) for batch in batches]) for at in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def record_batch(stored: bytes | memoryview, wanted: OffsetRange, schema: pa.Schema) -> pa.RecordBatch:
    """The records of a range in one stored batch."""
    try:
        view = BatchView(stored)
    except InvalidArgumentError as error:
        raise CorruptionError(f"a stored batch of {wanted} cannot be read: {error}") from error
    columns = [_COLUMNS[field.name](view, wanted, field.type) for field in schema]
    base_offset = view.header.base_offset
    first = min(max(wanted.first - base_offset, 0), view.count)
    end = min(wanted.end - base_offset, view.count)
    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
    return whole if (first, end) == (0, view.count) else whole.slice(first, max(end - first, 0))


def _binary(column: BinaryColumn, kind: pa.DataType, count: int, validity: memoryview | None = None) -> pa.Array:
    buffers = [None if validity is None else pa.py_buffer(validity), *map(pa.py_buffer, (column.offsets, column.data))]
    return pa.Array.from_buffers(kind, count, buffers)


def _keys(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    columns = view.columns
    if columns.keys is None:
        return pa.nulls(view.count, kind)
    return _checked(_binary(columns.keys, kind, view.count, columns.key_validity), "key", view, wanted)


def _values(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    return _checked(_binary(view.columns.payloads, kind, view.count), "value", view, wanted)


def _checked(column: pa.Array, name: str, view: BatchView, wanted: OffsetRange) -> pa.Array:
    """Text that is UTF-8; bytes are anything. Raises InvalidArgumentError."""
    if pa.types.is_string(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            first = view.header.base_offset
            raise InvalidArgumentError(
                f"a {name} between offsets {first} and {first + view.count - 1} of partition {wanted.partition} of "
                f"topic {wanted.topic} is no UTF-8 text: read the column {name} as binary"
            ) from None
    return column


def _topics(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(wanted.topic, kind), view.count)


def _partitions(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(wanted.partition, kind), view.count)


def _offsets(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    first = view.header.base_offset
    return pa.array(numpy.arange(first, first + view.count, dtype=numpy.int64), kind)


def _timestamps(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    times = view.columns.timestamps
    if times is None:
        return pa.repeat(pa.scalar(view.header.first_time_ms * _MS_US, pa.int64()), view.count).cast(kind)
    return pa.array(numpy.frombuffer(times, numpy.int64) * _MS_US, pa.int64()).cast(kind)


def _headers(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    columns = view.columns
    if columns.header_offsets is None or columns.header_names is None or columns.header_values is None:
        none = pa.py_buffer(bytes(4 * (view.count + 1)))
        return pa.Array.from_buffers(kind, view.count, [None, none], children=[pa.nulls(0, kind.value_type)])
    count = columns.header_offsets[view.count]
    pair = kind.value_type
    names = _binary(columns.header_names, pair.field("key").type, count)
    values = _binary(columns.header_values, pair.field("value").type, count)
    pairs = pa.Array.from_buffers(pair, count, [None], children=[names, values])
    return pa.Array.from_buffers(kind, view.count, [None, pa.py_buffer(columns.header_offsets)], children=[pairs])


def _priorities(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(view.priority, kind), view.count)


def _content_types(view: BatchView, wanted: OffsetRange, kind: pa.DataType) -> pa.Array:
    codes = view.columns.content_types
    if codes is None:
        return pa.repeat(pa.scalar(view.columns.directory.content_type, kind), view.count)
    return pa.array(numpy.frombuffer(codes, numpy.uint8).astype(numpy.int32), kind)


_COLUMNS: Final[dict[str, Callable[[BatchView, OffsetRange, Any], Any]]] = {
    "key": _keys,
    "value": _values,
    "topic": _topics,
    "partition": _partitions,
    "offset": _offsets,
    "timestamp": _timestamps,
    "headers": _headers,
    "priority": _priorities,
    "content_type": _content_types,
}
