"""What a lake has of the topics that are read: up to which offset of a partition, and in which files.

The lake serves offsets before the end of a table, the log later ones; both have the same rows, so a micro-batch that
runs again may get them from either side. A table is looked up again while offsets are read from it, because files that
compaction has replaced are removed after a while, and when the log lacks what it should have. So a stream that has
passed the end of the tables reads the log alone.
"""

from collections.abc import Iterable

from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange, Partition, Position
from flotilla.lake.range_reader import ArchivedRange
from flotilla.lake.runs import Run, Span
from flotilla.lake.table import Snapshot, TableFile, TopicTable
from flotilla.types.operations import TopicInfo


class LakeSide:
    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError for an address that is no lake."""
        self._lake = Lake(address)
        self._tables: dict[str, TopicTable] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def topics(self) -> list[str]:
        return self._lake.topics()

    def check_topic(self, topic: TopicInfo) -> None:
        """Raises InvalidArgumentError for a topic that was created again after it was archived."""
        self._table(topic.name).check_topic(topic.topic_id)

    def partition_count(self, topic: str) -> int:
        return max(self._snapshot(topic).spans, default=-1) + 1

    def span(self, place: Partition) -> Span | None:
        """None: the lake has nothing of it."""
        return self._snapshot(place[0]).spans.get(place[1])

    def refresh(self, wanted: Iterable[OffsetRange], oldest: Position) -> None:
        """Looks up the tables again that these ranges may be read from. `oldest` are the first offsets in the log."""
        for topic in sorted({each.topic for each in wanted if self._is_needed(each, oldest)}):
            self._snapshots[topic] = self._table(topic).snapshot()

    def part(self, wanted: OffsetRange) -> OffsetRange:
        """The part of a range, from its beginning, that is read from the lake; it may be empty."""
        span = self.span((wanted.topic, wanted.partition))
        end = wanted.first if span is None else min(max(span.end, wanted.first), wanted.end)
        return OffsetRange(wanted.topic, wanted.partition, wanted.first, end)

    def archived(self, wanted: OffsetRange) -> ArchivedRange | None:
        """A range with the files to read it from; None for one of the log."""
        span = self.span((wanted.topic, wanted.partition))
        if span is None or wanted.end > span.end:
            return None
        return ArchivedRange(self._table(wanted.topic), wanted, tuple(file.path for file in self._files(wanted)))

    def record_bytes(self, wanted: OffsetRange) -> int:
        """The approximate size of a record, as it is stored."""
        files = self._files(wanted)
        return max(sum(file.size_bytes for file in files) // max(sum(file.rows for file in files), 1), 1)

    def _files(self, wanted: OffsetRange) -> list[TableFile]:
        run = Run(wanted.partition, wanted.first, wanted.end)
        return [file for file in self._snapshot(wanted.topic).files if file.may_have(run)]

    def _is_needed(self, wanted: OffsetRange, oldest: Position) -> bool:
        place = (wanted.topic, wanted.partition)
        span = self.span(place)
        return (span is not None and wanted.first < span.end) or wanted.first < oldest.get(place, wanted.end)

    def _snapshot(self, topic: str) -> Snapshot:
        if topic not in self._snapshots:
            self._snapshots[topic] = self._table(topic).snapshot()
        return self._snapshots[topic]

    def _table(self, topic: str) -> TopicTable:
        if topic not in self._tables:
            self._tables[topic] = self._lake.table(topic)
        return self._tables[topic]
