"""The driver's view of the cluster: the topics to read, where their partitions begin and end, and lost records.

Lives in the process in which Spark plans a read. Every request has the timeout of the options, so a cluster that does
not answer fails the query instead of hanging it.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from flotilla.client.bulk.offsets import Start, list_all
from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.codec.batch.header import parse_header
from flotilla.lake.offset_range import OffsetRange, Partition, Position
from flotilla.lake.range_reader import ArchivedRange
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.lake_side import LakeSide
from flotilla.spark.options import EARLIEST, LATEST, OffsetChoice, OptionError, Options
from flotilla.types.errors import NotFoundError
from flotilla.types.operations import TopicInfo


class DataLossError(LookupError):
    """Records to read are gone."""


class Catalog:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._client = Client(
            options.servers,
            timeout_ms=options.timeout_ms,
            name="spark",
            tls=options.tls,
            credentials=options.log_in.credentials(),
        )
        self._lake = LakeSide(options.lake) if options.lake else None
        #: Topics that were deleted, and are in the lake.
        self._archived: set[str] = set()

    @property
    def client(self) -> Client:
        return self._client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def partitions(self, *, is_complete: bool = True) -> list[Partition]:
        """All partitions to read that exist. Raises NotFoundError for a named one that does not."""
        options = self._options
        if options.subscribe_pattern:
            matches = re.compile(options.subscribe_pattern).fullmatch
            found = [topic for topic in self._client.topics() if matches(topic.name)]
        else:
            found = self._named(is_complete=is_complete)
        counts = {topic.name: len(topic.partitions) for topic in found}
        if self._lake is not None:
            for topic in found:
                self._lake.check_topic(topic)
            self._archived = {name for name in options.topics if name not in counts}
            counts |= {name: self._lake.partition_count(name) for name in self._archived}
        if not options.assign:
            names = options.subscribe or sorted(counts)
            return [(name, number) for name in names for number in range(counts.get(name, 0))]
        there = [(name, number) for name, number in options.assign if number < counts.get(name, 0)]
        for name, number in options.assign:
            if is_complete and (name, number) not in there:
                raise NotFoundError(f"there is no partition {number} of topic {name!r}, named by the option assign")
        return there

    def _named(self, *, is_complete: bool) -> list[TopicInfo]:
        """The topics that the options name. Asks for these only: a cluster may have thousands."""
        names = self._options.topics
        found = self._client.admin.metadata(names).topics
        for name in names:
            if all(topic.name != name for topic in found):
                try:
                    # The broker that answered may lag; this one asks the controller.
                    found = [*found, self._client.describe_topic(name)]
                except NotFoundError:
                    is_archived = self._lake is not None and self._lake.partition_count(name) > 0
                    if is_complete and not is_archived:
                        raise NotFoundError(f"there is no topic {name!r} to read") from None
        return found

    def earliest(self, partitions: list[Partition]) -> Position:
        """The oldest offsets, of the lake where it has some."""
        return self._each(partitions, EARLIEST)

    def latest(self, partitions: list[Partition]) -> Position:
        return self._each(partitions, LATEST)

    def starting(self, partitions: list[Partition], default: str) -> Position:
        """The start of a read."""
        options = self._options
        if options.starting_timestamp_ms is not None:
            return self.at_time(partitions, options.starting_timestamp_ms)
        start = self._chosen(partitions, options.starting_offsets or default, default, "startingOffsets")
        self._check_ends(partitions, start, options.starting_offsets, "startingOffsets")
        return start

    def ending(self, partitions: list[Partition]) -> Position:
        """The end of a batch read."""
        options = self._options
        if options.ending_timestamp_ms is not None:
            return self.at_time(partitions, options.ending_timestamp_ms)
        end = self._chosen(partitions, options.ending_offsets or LATEST, LATEST, "endingOffsets")
        self._check_ends(partitions, end, options.ending_offsets, "endingOffsets")
        return end

    def _check_ends(
        self, partitions: list[Partition], position: Position, choice: OffsetChoice | None, option: str
    ) -> None:
        """Raises OptionError for a named offset behind the end of its partition."""
        if not isinstance(choice, dict):
            return
        for place, offset in self.latest(partitions).items():
            if position[place] > offset:
                raise OptionError(
                    f"option {option} names offset {position[place]} of partition {place[1]} of topic {place[0]}, "
                    f"which ends at {offset}"
                )

    def _each(self, partitions: list[Partition], at: Start) -> Position:
        found = self._in_log(partitions, at)
        if self._lake is not None:
            for place in partitions:
                span = self._lake.span(place)
                if span is not None and at == EARLIEST:
                    found[place] = span.first
                elif place not in found:
                    found[place] = 0 if span is None else span.end
        return found

    def _in_log(self, partitions: list[Partition], at: Start) -> Position:
        there = [place for place in partitions if place[0] not in self._archived]
        return list_all(self._client, there, at, timeout_ms=self._options.timeout_ms)

    def at_time(self, partitions: list[Partition], timestamp_ms: int) -> Position:
        """The offset of the first record at a time or later; the end of a partition that has none."""
        timeout_ms = self._options.timeout_ms
        found = list_all(self._client, partitions, None, timestamp_ms=timestamp_ms, timeout_ms=timeout_ms)
        ends = self.latest([place for place, offset in found.items() if offset < 0])
        return {**found, **ends}

    def _chosen(self, partitions: list[Partition], choice: OffsetChoice, default: str, option: str) -> Position:
        if isinstance(choice, str):
            return self._each(partitions, choice)  # type: ignore[arg-type]
        position: Position = {}
        for topic, numbers in choice.items():
            for number in numbers:
                if (topic, number) not in partitions:
                    raise OptionError(
                        f"option {option} names partition {number} of topic {topic}, which does not exist"
                    )
        for topic, number in partitions:
            offset = choice.get(topic, {}).get(number)
            if offset is None or offset < 0:
                named = default if offset is None else (EARLIEST if offset == -2 else LATEST)
                offset = self._each([(topic, number)], named)[topic, number]  # type: ignore[arg-type]
            position[topic, number] = offset
        return position

    # Lost records.

    def existing(self, start: Position, end: Position) -> list[OffsetRange]:
        """The ranges between two positions that still exist, each of the lake or of the log.

        Raises DataLossError for the rest, or warns.
        """
        wanted = [OffsetRange(*place, start.get(place, 0), offset) for place, offset in end.items()]
        wanted = [each for each in wanted if len(each)]
        oldest = self._oldest(wanted)
        found: list[OffsetRange] = []
        if self._lake is not None:
            self._lake.refresh(wanted, oldest)
        for each in wanted:
            place = (each.topic, each.partition)
            rest = each
            if self._lake is not None and (span := self._lake.span(place)) is not None:
                archived = self._lake.part(each)
                found.append(self._kept(archived, span.first))
                rest = OffsetRange(*place, archived.end, each.end)
            # A deleted topic has nothing left.
            found.append(self._kept(rest, oldest.get(place, each.end)))
        return [each for each in found if len(each)]

    def _kept(self, wanted: OffsetRange, oldest: int) -> OffsetRange:
        """A range without what precedes the oldest offset. Raises DataLossError, or warns."""
        if len(wanted) and wanted.first < oldest:
            self.lost(OffsetRange(wanted.topic, wanted.partition, wanted.first, min(oldest, wanted.end)))
        return OffsetRange(wanted.topic, wanted.partition, max(wanted.first, oldest), wanted.end)

    def task_of(self, wanted: OffsetRange) -> OffsetRange | ArchivedRange:
        """One of the existing ranges, or a part of it, with all that a task must know."""
        return (self._lake.archived(wanted) if self._lake is not None else None) or wanted

    def _oldest(self, wanted: list[OffsetRange]) -> Position:
        """In the log."""
        places = [(each.topic, each.partition) for each in wanted]
        try:
            return self._in_log(places, EARLIEST)
        except NotFoundError:
            there = self.partitions(is_complete=False)
            return self._in_log([place for place in places if place in there], EARLIEST)

    def lost(self, gone: OffsetRange) -> None:
        report_loss(gone, is_fatal=self._options.fail_on_data_loss)

    def record_bytes(self, start: Position, end: Position) -> Mapping[Partition, int]:
        """The approximate size of a record in each partition with a backlog."""
        found: dict[Partition, int] = {}
        for each in self.existing(start, end):
            if self._lake is not None and self._lake.archived(each) is not None:
                found[each.topic, each.partition] = self._lake.record_bytes(each)
                continue
            # Fetches one batch, the smallest answer possible.
            stored = StoredBatches(
                self._client,
                each.topic,
                each.partition,
                each.first,
                each.first + 1,
                fetch_bytes=1,
                timeout_ms=self._options.timeout_ms,
            )
            header = parse_header(next(iter(stored)))
            found[each.topic, each.partition] = max(header.length // header.count, 1)
        return found


def all_topics(options: Options) -> list[str]:
    """The topics of the cluster, and those that only the lake has."""
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        live = [topic.name for topic in client.topics()]
    return sorted({*live, *(LakeSide(options.lake).topics() if options.lake else ())})


def check_target(options: Options) -> None:
    """Raises NotFoundError, before a job is started, if the topic to write to does not exist."""
    _check_exists(options, options.target, "to write to")


def check_bad_value_topic(options: Options) -> None:
    """Raises NotFoundError, before a job is started, if the topic for bad values does not exist."""
    _check_exists(options, options.bad_value_topic, "for values that do not fit, which badValueTopic names")


def _check_exists(options: Options, topic: str, purpose: str) -> None:
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        try:
            client.describe_topic(topic)
        except NotFoundError:
            raise NotFoundError(f"there is no topic {topic!r} {purpose}") from None


def report_loss(gone: OffsetRange, *, is_fatal: bool, warn: Callable[[str], None] = warnings.warn) -> None:
    """Raises DataLossError, or warns."""
    text = (
        f"offsets {gone.first} to {gone.end - 1} of partition {gone.partition} of topic {gone.topic} are gone: "
        f"removed by retention, or with the topic"
    )
    if is_fatal:
        raise DataLossError(f"{text}. With the option failOnDataLoss=false the query continues without them")
    warn(text)
