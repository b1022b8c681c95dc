"""The sorting of rows into batches: the partition of each row, and the rows that share a batch.

Rows of one task for the same partition with the same priority and delivery time form a lane. A lane is cut into batches
by rows and bytes alone, whatever pieces Spark delivers: a task that runs again over the same rows makes the same
batches. A row goes to the partition that it names, else to that of its key, else to one that all rows of a piece share.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from flotilla.client.producer.partitioner import partition_of
from flotilla.spark.encoding import ROW_COLUMNS, row_bytes
from flotilla.spark.options import OptionError, Options
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import PRIORITY_MAX, TIME_MS_MAX
from flotilla.types.records import CONTENT_TYPE_MAX

#: Half of what brokers accept.
BATCH_ROWS_MAX: Final = 32_768

_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_BYTES: Final = (BinaryType, StringType)
#: Writable columns and their types.
_WRITABLE: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (StringType,),
    "partition": _INTEGERS,
    "headers": (ArrayType,),
    "priority": _INTEGERS,
    "deliver_at": (TimestampType,),
    "timestamp": (TimestampType,),
    "content_type": _INTEGERS,
}
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def check_writable(schema: StructType, options: Options) -> None:
    """Checks that rows of this schema can be written. Raises OptionError."""
    for field in schema.fields:
        kinds = _WRITABLE.get(field.name)
        if kinds is None:
            raise OptionError(f"column {field.name!r} cannot be written, only {', '.join(_WRITABLE)}; select those")
        if not isinstance(field.dataType, kinds):
            allowed = " or ".join(kind.typeName() for kind in kinds)
            raise OptionError(f"column {field.name} is {field.dataType.simpleString()}; it must be {allowed}")
        if field.name == "headers" and field.dataType.simpleString() != "array<struct<key:string,value:binary>>":
            raise OptionError("column headers must be array<struct<key:string,value:binary>>")
    if "value" not in schema.fieldNames():
        raise OptionError("there is no column value, the payload")
    if "topic" not in schema.fieldNames() and not options.target:
        raise OptionError("the option topic or a column topic must name the topic")


class Lane(NamedTuple):
    topic: str
    partition: int
    priority: int
    deliver_at_ms: int


class Pending:
    """Rows of one lane that are not a whole batch yet."""

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._pieces: list[pa.RecordBatch] = []
        self._size_bytes = 0
        self._row_count = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Adds rows, and yields whole batches."""
        self._pieces.append(rows)
        self._size_bytes += int(row_bytes(rows).sum())
        self._row_count += rows.num_rows
        if self._size_bytes >= self._batch_bytes or self._row_count >= BATCH_ROWS_MAX:
            yield from self._cut(is_last=False)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields the remaining rows."""
        yield from self._cut(is_last=True)

    def _cut(self, *, is_last: bool) -> Iterator[pa.RecordBatch]:
        if not self._pieces:
            return
        rows = pa.Table.from_batches(self._pieces).combine_chunks().to_batches()[0]
        ends = numpy.cumsum(row_bytes(rows))
        first = 0
        while first < rows.num_rows:
            before = int(ends[first - 1]) if first else 0
            # The row that reaches the size belongs to the batch.
            end = min(int(numpy.searchsorted(ends, before + self._batch_bytes)) + 1, first + BATCH_ROWS_MAX)
            if end > rows.num_rows and not is_last:
                break
            yield rows.slice(first, min(end, rows.num_rows) - first)
            first = min(end, rows.num_rows)
        left = rows.slice(first)
        self._pieces = [left] if left.num_rows else []
        self._row_count = left.num_rows
        self._size_bytes = int(ends[-1]) - (int(ends[first - 1]) if first else 0)


class Sorter:
    """Sorts rows into lanes."""

    def __init__(self, options: Options, partition_counts: Callable[[str], tuple[int, int]], unkeyed: int) -> None:
        """`partition_counts` of a topic: all partitions, and those over which keys are spread.

        `unkeyed` picks the partition of the first piece of rows without a key; each next piece goes one further.
        """
        self._options = options
        self._partition_counts = partition_counts
        self._unkeyed = unkeyed

    def sort(self, batch: pa.RecordBatch) -> Iterator[tuple[Lane, pa.RecordBatch]]:
        """The rows of each lane, in their order. Raises InvalidArgumentError for rows that cannot be stored."""
        rows = _normal(batch)
        if not rows.num_rows:
            return
        topics = self._topics(batch)
        partitions = numpy.empty(rows.num_rows, numpy.int64)
        for topic in topics.names:
            inside = topics.rows(topic)
            partitions[inside] = self._partitions(topic, batch, rows, inside)
        self._unkeyed += 1
        priorities = _numbers(batch, "priority", PRIORITY_MAX)
        times = _times(batch, "deliver_at")
        lanes = numpy.stack([topics.codes, partitions, priorities, times])
        if (lanes == lanes[:, :1]).all():
            yield _lane(topics.names, lanes[:, 0]), rows
            return
        numbers = _numbered(lanes)
        order = numpy.argsort(numbers, kind="stable")
        borders = numpy.searchsorted(numbers[order], numpy.arange(numbers.max() + 2))
        for first, end in pairwise(borders):
            yield _lane(topics.names, lanes[:, order[first]]), rows.take(pa.array(order[first:end]))

    def _topics(self, batch: pa.RecordBatch) -> "_Topics":
        count = batch.num_rows
        if "topic" not in batch.schema.names:
            return _Topics([self._options.target], numpy.zeros(count, numpy.int64))
        column = batch.column("topic")
        if column.null_count:
            if not self._options.target:
                raise InvalidArgumentError("a row has no topic, and the option topic is not set")
            column = column.fill_null(self._options.target)
        coded = column.dictionary_encode()
        return _Topics(coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(numpy.int64))

    def _partitions(self, topic: str, batch: pa.RecordBatch, rows: pa.RecordBatch, inside: Any) -> Any:
        count, key_count = self._partition_counts(topic)
        found = numpy.full(len(inside), self._unkeyed % count, numpy.int64)
        if "key" in rows.schema.names:
            keys = rows.column("key").take(pa.array(inside)).to_pylist()
            kept = found[:1].tolist() * len(keys)
            chosen = zip(keys, kept, strict=True)
            found[:] = [old if key is None else partition_of(key, key_count) for key, old in chosen]
        if "partition" in batch.schema.names:
            named = batch.column("partition").take(pa.array(inside)).cast(pa.int64())
            numbers = named.fill_null(-1).to_numpy(zero_copy_only=False)
            is_named = numpy.asarray(named.is_valid())
            wrong = numbers[is_named & ((numbers < 0) | (numbers >= count))]
            if len(wrong):
                raise InvalidArgumentError(f"topic {topic} has no partition {wrong[0]}, only {count} of them")
            found = numpy.where(is_named, numbers, found)
        return found


def _numbered(lanes: Any) -> Any:
    """For each row the number of its lane, from 0 and in the order of lanes.

    Compares one property after the other as plain numbers: comparing whole lanes takes ten times as long.
    """
    numbers = numpy.zeros(lanes.shape[1], numpy.int64)
    for parts in lanes:
        if (parts != parts[0]).any():
            distinct, which = numpy.unique(parts, return_inverse=True)
            # Dense numbers keep the product small.
            numbers = numpy.unique(numbers * len(distinct) + which, return_inverse=True)[1]
    return numbers


class _Topics(NamedTuple):
    """The topic of each row, as a number in a list of names."""

    names: list[str]
    codes: Any

    def rows(self, name: str) -> Any:
        return numpy.flatnonzero(self.codes == self.names.index(name))


def _lane(topics: list[str], numbers: Any) -> Lane:
    topic, partition, priority, deliver_at_ms = map(int, numbers)
    return Lane(topics[topic], partition, priority, deliver_at_ms)


def _normal(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that differ from row to row, in the types of the encoding."""
    columns: dict[str, Any] = {}
    for name in ("key", "value"):
        if name in batch.schema.names:
            columns[name] = batch.column(name).cast(pa.binary())
    if columns["value"].null_count:
        raise InvalidArgumentError("a row has no value; write an empty string for an empty payload")
    if "headers" in batch.schema.names:
        columns["headers"] = _headers(batch.column("headers").cast(_HEADERS))
    if "timestamp" in batch.schema.names:
        columns["timestamp_ms"] = pa.array(_times(batch, "timestamp"))
    if "content_type" in batch.schema.names:
        columns["content_type"] = pa.array(_numbers(batch, "content_type", CONTENT_TYPE_MAX))
    return pa.RecordBatch.from_pydict({name: columns[name] for name in ROW_COLUMNS if name in columns})


def _headers(column: pa.Array) -> pa.Array:
    names, values = column.values.flatten()
    if names.null_count:
        raise InvalidArgumentError("a header has no key")
    if not values.null_count:
        return column
    pairs = pa.StructArray.from_arrays([names, values.fill_null(b"")], fields=list(_HEADERS.value_type))
    offsets = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, column.buffers()[1]], offset=column.offset)
    return pa.ListArray.from_arrays(offsets, pairs, type=_HEADERS)


def _numbers(batch: pa.RecordBatch, name: str, maximum: int) -> Any:
    if name not in batch.schema.names:
        return numpy.zeros(batch.num_rows, numpy.int64)
    found = batch.column(name).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if len(found) and not 0 <= found.min() <= found.max() <= maximum:
        raise InvalidArgumentError(f"{name} is from 0 to {maximum}; there are {found.min()} to {found.max()}")
    return found


def _times(batch: pa.RecordBatch, name: str) -> Any:
    """Times in milliseconds, 0 where there is none. Spark's microseconds are cut off."""
    if name not in batch.schema.names:
        return numpy.zeros(batch.num_rows, numpy.int64)
    column = batch.column(name).cast(pa.timestamp("us", "UTC"))
    found = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) // 1_000
    if len(found) and not 0 <= found.min() <= found.max() <= TIME_MS_MAX:
        raise InvalidArgumentError(f"{name} is a time after 1970")
    return found
