"""The reader of a topic as a table: the driver plans ranges once, and a task reads each."""

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.lake.arrow import record_batches
from flotilla.lake.columns import STORED
from flotilla.lake.decoded_columns import CORRUPT, DECODED
from flotilla.lake.offset_range import OffsetRange, Position, split
from flotilla.lake.range_reader import ArchivedRange
from flotilla.spark.catalog import Catalog, report_loss
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.gc_tuning import spare_collections
from flotilla.spark.lake_side import LakeSide
from flotilla.spark.options import EARLIEST, Options
from flotilla.spark.value_columns import ValueColumns
from flotilla.types.errors import InvalidArgumentError, OffsetOutOfRangeError


class FlotillaReader(DataSourceReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        """Pickled to the executors, so it has no client."""
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with Catalog(options) as catalog:
            return tasks_of(catalog, *self._range(catalog), options)

    def _range(self, catalog: Catalog) -> tuple[Position, Position]:
        partitions = catalog.partitions()
        return catalog.starting(partitions, EARLIEST), catalog.ending(partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # With nothing to read, Spark runs one task with an empty partition.
        if partition.value is not None:
            yield from read_range(partition.value, self._options, self._schema)


def tasks_of(catalog: Catalog, start: Position, end: Position, options: Options) -> list[InputPartition]:
    """What exists between two positions as the work of tasks."""
    ranges = catalog.existing(start, end)
    pieces = split(ranges, count_min=options.min_partitions, records_max=options.max_records_per_partition)
    return [InputPartition(catalog.task_of(each)) for each in pieces]


def read_range(work: OffsetRange | ArchivedRange, options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The records of a range, on an executor. failOnDataLoss decides about records that are gone."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    # The lake has decoded columns stored.
    is_decoded = options.has_decoded_values or (options.include_decoded and isinstance(work, OffsetRange))
    values = ValueColumns(options, arrow_schema) if is_decoded else None
    stored = values.stored if values else arrow_schema
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        wanted, rows = (
            (work.wanted, lake_batches(work, stored))
            if isinstance(work, ArchivedRange)
            else (work, _log_batches(client, work, options, stored))
        )
        yield from values.batches(rows, wanted, client) if values else rows
    spare_collections()


def lake_batches(work: ArchivedRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows as in the log, with these columns. Raises InvalidArgumentError for text that is no UTF-8."""
    decoded = [field for field in schema if field.name in (DECODED, CORRUPT)]
    for batch in work.batches(pa.schema([*STORED, *decoded])):
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["topic"] = pa.repeat(pa.scalar(work.wanted.topic), batch.num_rows)
        try:
            arrays = [columns[field.name].cast(field.type) for field in schema]
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(
                f"a key or value of {work} is no UTF-8 text: read the column as binary ({error})"
            ) from None
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _log_batches(client: Client, wanted: OffsetRange, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while len(wanted):
        stored = StoredBatches(
            client,
            wanted.topic,
            wanted.partition,
            wanted.first,
            wanted.end,
            fetch_bytes=options.fetch_bytes,
            timeout_ms=options.timeout_ms,
        )
        try:
            yield from record_batches(stored, wanted, schema)
            return
        except OffsetOutOfRangeError:
            rest = OffsetRange(wanted.topic, wanted.partition, stored.position, wanted.end)
            archived = _archived(rest, options.lake) if options.lake else None
            if archived is None:
                wanted = _remaining(client, rest, options)
                continue
        # Retention was faster than the task, and the archive faster than retention.
        yield from lake_batches(archived, schema)
        wanted = OffsetRange(wanted.topic, wanted.partition, archived.wanted.end, wanted.end)


def _archived(wanted: OffsetRange, lake: str) -> ArchivedRange | None:
    """The part of a range, from its beginning, that the lake has."""
    side = LakeSide(lake)
    part = side.part(wanted)
    return side.archived(part) if len(part) else None


def _remaining(client: Client, wanted: OffsetRange, options: Options) -> OffsetRange:
    """The rest of a range whose first record is gone. Raises DataLossError, or warns."""
    oldest = client.find_offset(wanted.topic, wanted.partition, EARLIEST)
    # A log that begins earlier and lacks the offset belongs to a topic that was deleted and created again.
    first = wanted.end if oldest <= wanted.first else min(oldest, wanted.end)
    report_loss(OffsetRange(wanted.topic, wanted.partition, wanted.first, first), is_fatal=options.fail_on_data_loss)
    return OffsetRange(wanted.topic, wanted.partition, first, wanted.end)
