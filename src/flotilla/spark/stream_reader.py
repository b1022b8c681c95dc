"""Reads of a topic as a stream: offsets planned by the driver for each micro-batch, ranges read by tasks.

A position names the next offset of every partition, as JSON in Spark's checkpoint, so what a micro-batch holds is
known before it runs and the same whenever it is run again. A partition that came to be after the query began is read
from offset 0 on. Spark keeps one of these for as long as the query runs and calls it from one thread; it has no time
limit of its own for that, the client has.

Spark's `commit` comes when the *next* micro-batch is planned. A group's position follows it all the same, because that
needs nobody's help; `flotilla.spark.progress` brings it up to date after each micro-batch.
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

from flotilla.spark.catalog import Catalog
from flotilla.spark.offset_range import OffsetRange, Position, from_json, limit_bytes, limit_records, split, to_json
from flotilla.spark.options import LATEST, Options
from flotilla.spark.progress import commit_position, with_group
from flotilla.spark.reader import read_range
from flotilla.types.errors import NotFoundError


class FlotillaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        #: In the driver's process only.
        self._catalog: Catalog | None = None
        #: Where a query ends that takes what is available now.
        self._target: Position | None = None
        #: Ends that were looked up for a plan and not reported yet.
        self._seen: Position | None = None

    # Planning.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        catalog = self._opened()
        return self._written(catalog.starting(catalog.partitions(), LATEST))

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
            # A position never goes back, nor does it forget: a partition that is away may be another one later.
            if end.setdefault(place, offset) < offset:
                self._opened().lost(OffsetRange(*place, end[place], offset))
                end[place] = offset
        return self._written(self._limited(begun, end, limit))

    def _limited(self, start: Position, end: Position, wish: ReadLimit) -> Position:
        if isinstance(wish, ReadAllAvailable):
            return end
        options = self._options
        if isinstance(wish, ReadMaxRows):
            end = limit_records(start, end, wish.max_rows)
        # Spark knows no limit of two kinds, so the second one is obeyed beside the one that it hands over.
        bytes_max = wish.max_bytes if isinstance(wish, ReadMaxBytes) else options.max_bytes_per_trigger
        if bytes_max is not None:
            end = limit_bytes(start, end, bytes_max, self._opened().record_bytes(start, end))
        return end

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        # Spark asks right behind `latestOffset`: what that has seen is a moment old.
        seen, self._seen = self._seen, None
        return self._written(self._ends() if seen is None else seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        options = self._options
        ranges = self._opened().existing(from_json(start), from_json(end))
        return list(split(ranges, count_min=options.min_partitions, records_max=options.max_records_per_partition))

    def commit(self, end: dict[str, Any]) -> None:
        if self._options.group:
            commit_position(self._opened().client, self._options.group, from_json(end))

    def stop(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    # Reading.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return read_range(partition, self._options, self._schema)

    # Inside.

    def _opened(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog(self._options)
        return self._catalog

    def _ends(self) -> Position:
        """The ends of all partitions that there are; without those of a topic that is gone, if that is allowed."""
        catalog = self._opened()
        try:
            return catalog.latest(catalog.partitions())
        except NotFoundError:
            if self._options.fail_on_data_loss:
                raise
            return catalog.latest(catalog.partitions(is_complete=False))

    def _written(self, position: Position) -> dict[str, Any]:
        return with_group(to_json(position), self._options)
