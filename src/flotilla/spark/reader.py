"""The reader of a topic as a table: the driver plans ranges once, and a task reads each."""

from collections.abc import Iterable, Iterator

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.lake.arrow import record_batches
from flotilla.lake.offset_range import OffsetRange, Position, split
from flotilla.spark.catalog import Catalog, report_loss
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.gc_tuning import spare_collections
from flotilla.spark.options import EARLIEST, Options
from flotilla.spark.values.columns import ValueColumns
from flotilla.types.errors import OffsetOutOfRangeError


class FlotillaReader(DataSourceReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        """Pickled to the executors, so it has no client."""
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with Catalog(options) as catalog:
            ranges = catalog.existing(*self._range(catalog))
        return tasks_of(ranges, options)

    def _range(self, catalog: Catalog) -> tuple[Position, Position]:
        partitions = catalog.partitions()
        return catalog.starting(partitions, EARLIEST), catalog.ending(partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # With nothing to read, Spark runs one task with an empty partition.
        if partition.value is not None:
            yield from read_range(partition.value, self._options, self._schema)


def tasks_of(ranges: Iterable[OffsetRange], options: Options) -> list[InputPartition]:
    """Ranges as the work of tasks, each a partition with an OffsetRange."""
    pieces = split(ranges, count_min=options.min_partitions, records_max=options.max_records_per_partition)
    return [InputPartition(each) for each in pieces]


def read_range(wanted: OffsetRange, options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The records of a range, on an executor. failOnDataLoss decides about records that are gone."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    values = ValueColumns(options, arrow_schema) if options.value_format else None
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
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
                rows = record_batches(stored, wanted, values.stored if values else arrow_schema)
                yield from values.batches(rows, wanted, client) if values else rows
                break
            except OffsetOutOfRangeError:
                wanted = _remaining(client, wanted, stored.position, options)
    spare_collections()


def _remaining(client: Client, wanted: OffsetRange, position: int, options: Options) -> OffsetRange:
    """The rest of a range whose next record is gone. Raises DataLossError, or warns."""
    oldest = client.find_offset(wanted.topic, wanted.partition, EARLIEST)
    # A log that begins earlier and lacks the offset belongs to a topic that was deleted and created again.
    first = wanted.end if oldest <= position else min(oldest, wanted.end)
    gone = OffsetRange(wanted.topic, wanted.partition, position, first)
    report_loss(gone, is_fatal=options.fail_on_data_loss)
    return OffsetRange(wanted.topic, wanted.partition, first, wanted.end)
