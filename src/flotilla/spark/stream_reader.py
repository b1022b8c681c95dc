"""The reader of a topic as a stream: the driver plans offsets for each micro-batch, and tasks read ranges.

A position has the next offset of every partition, as JSON in Spark's checkpoint. So the content of a micro-batch is
known before it runs and is the same when it runs again. A partition that was created after the query began is read from
offset 0. Spark keeps one reader while the query runs and calls it from one thread, without a timeout; the client has
one.

Spark calls `commit` when it plans the *next* micro-batch. The group's position is committed then;
`flotilla.spark.progress` commits it after each micro-batch.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from flotilla.lake.offset_range import OffsetRange, Position, from_json, limit_bytes, limit_records, to_json
from flotilla.spark.catalog import Catalog
from flotilla.spark.options import LATEST, Options
from flotilla.spark.progress import commit_position, with_servers
from flotilla.spark.reader import read_range, tasks_of
from flotilla.types.errors import NotFoundError


class FlotillaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        #: In the driver's process only.
        self._catalog: Catalog | None = None
        #: The end of a query with trigger availableNow.
        self._target: Position | None = None
        #: Ends that `latestOffset` looked up and `reportLatestOffset` has not returned yet.
        self._seen: Position | None = None

    # Planning.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        catalog = self._opened()
        return to_json(catalog.starting(catalog.partitions(), LATEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begun = from_json(start)
        ends = self._target
        if ends is None:
            ends = self._seen = self._ends()
        end = dict(ends)
        for place, offset in begun.items():
            # A position never moves back and keeps every partition: a missing one may come back with other records.
            if end.setdefault(place, offset) < offset:
                self._opened().lost(OffsetRange(*place, end[place], offset))
                end[place] = offset
        return to_json(self._limited(begun, end, limit))

    def _limited(self, start: Position, end: Position, limit: ReadLimit) -> Position:
        if isinstance(limit, ReadAllAvailable):
            return end
        options = self._options
        if isinstance(limit, ReadMaxRows):
            end = limit_records(start, end, limit.max_rows)
        # Spark passes one limit only, so the limit of bytes applies beside that of rows.
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.max_bytes_per_trigger
        if bytes_max is not None:
            end = limit_bytes(start, end, bytes_max, self._opened().record_bytes(start, end))
        return end

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        # Spark calls this right after `latestOffset`, whose answer is still fresh.
        seen, self._seen = self._seen, None
        return with_servers(to_json(self._ends() if seen is None else seen), self._options)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return tasks_of(self._opened(), from_json(start), from_json(end), self._options)

    def commit(self, end: dict[str, Any]) -> None:
        if self._options.group:
            commit_position(self._opened().client, self._options.group, from_json(end))

    def stop(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    # Reading.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(partition.value, self._options, self._schema)

    def _opened(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog(self._options)
        return self._catalog

    def _ends(self) -> Position:
        """The ends of all partitions; without deleted topics if failOnDataLoss is false."""
        catalog = self._opened()
        try:
            return catalog.latest(catalog.partitions())
        except NotFoundError:
            if self._options.fail_on_data_loss:
                raise
            return catalog.latest(catalog.partitions(is_complete=False))
