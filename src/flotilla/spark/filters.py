"""Filters of a query on partition, offset and timestamp, as bounds of a read.

They are hints: Spark applies every filter again, so unknown filters are ignored. Partitions, offsets and the lower
bound of time limit what is fetched. The upper bound of time does not, because clocks of producers differ and a younger
record may precede an older one; it limits the rows that leave the task.

Off by default. Spark 4.3 creates a new reader for every filter, but keeps its partitions in the one object of the
loaded table (`PythonDataSourceV2.setReadInfo`), and a scan without a filter uses what is kept there. So two scans of
one table, in two queries or in one, get the rows of the last filter. Neither planner nor tasks know their scan, so the
source cannot distinguish them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from flotilla.lake.offset_range import Partition, Position
from flotilla.spark.catalog import Catalog
from flotilla.spark.options import Options
from flotilla.spark.reader import FlotillaReader

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Partitions to read, and offsets and times in [low, high)."""

    #: None: all.
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_low: int = 0
    offset_high: int = _END
    time_low_us: int = 0
    time_high_us: int = _END

    def allows(self, place: Partition) -> bool:
        topic, number = place
        return (self.topics is None or topic in self.topics) and (self.partitions is None or number in self.partitions)


def narrowed(bounds: Bounds, condition: Filter) -> Bounds:
    """The bounds with one more condition."""
    if isinstance(condition, In):
        return _among(bounds, condition.attribute, condition.value)
    if isinstance(condition, EqualTo):
        bounds = _among(bounds, condition.attribute, (condition.value,))
        return _above(_below(bounds, condition.attribute, condition.value, 1), condition.attribute, condition.value, 0)
    if isinstance(condition, GreaterThan | GreaterThanOrEqual):
        return _above(bounds, condition.attribute, condition.value, int(isinstance(condition, GreaterThan)))
    if isinstance(condition, LessThan | LessThanOrEqual):
        return _below(bounds, condition.attribute, condition.value, int(isinstance(condition, LessThanOrEqual)))
    return bounds


def _among(bounds: Bounds, attribute: tuple[str, ...], values: Iterable[Any]) -> Bounds:
    if attribute == ("partition",):
        numbers = frozenset(values)
        return replace(bounds, partitions=numbers if bounds.partitions is None else bounds.partitions & numbers)
    if attribute == ("topic",):
        names = frozenset(values)
        return replace(bounds, topics=names if bounds.topics is None else bounds.topics & names)
    return bounds


def _above(bounds: Bounds, attribute: tuple[str, ...], value: Any, beyond: int) -> Bounds:
    if attribute == ("offset",):
        return replace(bounds, offset_low=max(bounds.offset_low, value + beyond))
    if attribute == ("timestamp",):
        return replace(bounds, time_low_us=max(bounds.time_low_us, _microseconds(value) + beyond))
    return bounds


def _below(bounds: Bounds, attribute: tuple[str, ...], value: Any, beyond: int) -> Bounds:
    if attribute == ("offset",):
        return replace(bounds, offset_high=min(bounds.offset_high, value + beyond))
    if attribute == ("timestamp",):
        return replace(bounds, time_high_us=min(bounds.time_high_us, _microseconds(value) + beyond))
    return bounds


def _microseconds(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class FilteringReader(FlotillaReader):
    """A reader that accepts filters. A class of its own: Spark refuses one while its setting is off."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for condition in filters:
            self._bounds = narrowed(self._bounds, condition)
        return filters

    def _range(self, catalog: Catalog) -> tuple[Position, Position]:
        bounds = self._bounds
        start, end = super()._range(catalog)
        wanted = [place for place in start if bounds.allows(place)]
        at_time = catalog.at_time(wanted, bounds.time_low_us // 1_000) if bounds.time_low_us > 0 else {}
        return (
            {place: max(start[place], bounds.offset_low, at_time.get(place, 0)) for place in wanted},
            {place: min(end[place], bounds.offset_high) for place in wanted},
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        bounds = self._bounds
        is_timed = bounds.time_low_us > 0 or bounds.time_high_us < _END
        for batch in super().read(partition):
            yield _within(batch, bounds) if is_timed else batch


def _within(batch: pa.RecordBatch, bounds: Bounds) -> pa.RecordBatch:
    """The rows within the bounds of time."""
    times = batch.column("timestamp").cast(pa.int64())
    inside = pc.and_(pc.greater_equal(times, bounds.time_low_us), pc.less(times, bounds.time_high_us))
    return batch.filter(inside)
