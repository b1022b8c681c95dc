"""`flotilla archive run`: copies topics into a lake in one process, each record once, without Spark.

For each batch: files are written and described; they are read back; one version of each topic's table adds them; then
the retention hold moves. A failure in between leaves files that are in no version and a hold that is too far back; the
next run repairs both. Where to continue is in the tables alone, so any archive, with Spark or without, takes over from
any other.

`Archiver` is what both kinds share; `run_archive` is the one without Spark.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.client.app.environment import environment_credentials
from flotilla.client.bulk.offsets import list_all
from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.lake.arrow import record_batches
from flotilla.lake.columns import STORED
from flotilla.lake.compaction import CompactionRules, RunJobs, compact
from flotilla.lake.data_file import DataFile, write_days
from flotilla.lake.decoded_columns import Decoding, Decodings
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange, Partition, Position, limit_records, split
from flotilla.lake.report import ArchivePipeline, LakeReport
from flotilla.lake.retention_hold import RetentionHold
from flotilla.lake.runs import Span
from flotilla.lake.table import TopicTable
from flotilla.lake.vacuum import GRACE_HOURS_DEFAULT, vacuum
from flotilla.lake.verification import verify_files
from flotilla.security.client_tls import tls_of_environment
from flotilla.types.errors import OffsetOutOfRangeError
from flotilla.types.limits import MIB

#: Receives one line of progress.
ReportProgress: TypeAlias = Callable[[str], None]

GROUP_DEFAULT: Final = "archive"
BATCH_ROWS_DEFAULT: Final = 2_000_000
#: Raw size of one batch: a file waits for its commit until all of them are written.
BATCH_BYTES: Final = 4_096 * MIB
#: Rows of one file, before they are split by day.
ROWS_PER_FILE: Final = 1_000_000
#: Files of the tables for each batch between two tidies.
_TIDIED_FILES: Final = 100
_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    servers: str
    topics: Sequence[str]
    lake: str
    #: The group whose committed offset holds retention.
    group: str = GROUP_DEFAULT
    #: Records of one batch, and so of one version of the tables.
    batch_rows: int = BATCH_ROWS_DEFAULT
    compaction: CompactionRules = field(default_factory=CompactionRules)
    grace_hours: int = GRACE_HOURS_DEFAULT
    #: Ends when everything that existed at the start is in the lake.
    is_once: bool = True
    #: The wait of a continuous archive that has nothing to do; with Spark, the interval between micro-batches.
    every_ms: int = 5_000
    #: Schemas, as NAME or NAME@VERSION, by topic: values are stored decoded, too.
    schemas: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run, and the totals of its topics in the lake."""

    rows: int
    files: int
    #: Of the tables of these topics.
    rows_total: int
    files_total: int
    #: Files that were replaced by larger ones, and files that were removed.
    compacted: int
    removed: int


class Archiver:
    """Commits batches of files and moves the hold; compacts and removes files in between."""

    def __init__(self, options: ArchiveOptions, client: Client, run_jobs: RunJobs, progress: ReportProgress) -> None:
        self._options = options
        self._client = client
        self._run_jobs = run_jobs
        self._progress = progress
        lake = Lake(options.lake)
        self.tables: dict[str, TopicTable] = {topic: lake.table(topic) for topic in options.topics}
        self.lake_report = LakeReport(lake, self.tables, options.group)
        self._hold = RetentionHold(client, options.group, options.topics)
        self._planned = Decodings(client, options.schemas, progress)
        self._rows = self._files = self._compacted = self._removed = self._batches = 0
        #: Batches at the last tidy.
        self._tidied = 0

    def begin(self) -> None:
        """From now on retention keeps everything that is not in the lake.

        Raises InvalidArgumentError for the table of an earlier topic of the same name, NotFoundError for a schema that
        is not registered.
        """
        self._check_topics(self.tables)
        self.decodings()
        self._hold.begin(self.spans())

    def spans(self) -> dict[Partition, Span]:
        """The offsets in the newest version of each table."""
        return {(topic, number): span for topic, table in self.tables.items() for number, span in table.spans().items()}

    def decodings(self) -> dict[str, Decoding]:
        """How values of the next batch are decoded, by topic. Raises NotFoundError."""
        return self._planned.of(self.tables)

    def commit(self, files: Sequence[DataFile]) -> int:
        """Takes the files of one batch: reads them back, commits them, moves the hold. Returns their rows.

        Raises CorruptionError, and AlreadyExistsError when another archive was faster.
        """
        for topic, table in self.tables.items():
            mine = [file for file in files if file.topic == topic]
            if mine:
                # The topic may have been deleted and created again since it was read.
                self._check_topics([topic])
                verify_files(table, mine, self._run_jobs)
                table.add(mine, self._options.schemas.get(topic, ""))
                self._rows += sum(file.rows for file in mine)
                self._files += len(mine)
        self._hold.move(self.spans())
        self._batches += 1
        self._progress(f"batch {self._batches}: {self._rows:,} rows in {self._files:,} files are archived")
        if not self._options.is_once and self._batches - self._tidied >= self._tidy_batches():
            self.tidy()
        return sum(file.rows for file in files)

    def _check_topics(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.tables[topic].check_topic(self._client.describe_topic(topic).topic_id)

    def _tidy_batches(self) -> int:
        """In large tables it looks at more files, and comes later: its share of the cost of a batch stays the same."""
        files = sum(table.content.files for table in self.tables.values())
        return max(self._options.compaction.every_batches, files // _TIDIED_FILES)

    def tidy(self) -> None:
        """Compacts, and removes what nobody needs. A failure of any kind is reported; the next run tries again."""
        self._tidied = self._batches
        for topic, table in self.tables.items():
            try:
                self._compacted += compact(table, self._options.compaction, self._run_jobs)
                self._removed += len(vacuum(table, self._options.grace_hours))
                # The next report has the size of the compacted table.
                table.spans()
            except Exception as error:
                self._progress(f"files of {topic} are not compacted: {str(error) or type(error).__name__}")

    def done(self) -> Archived:
        self.spans()
        contents = [table.content for table in self.tables.values()]
        return Archived(
            self._rows,
            self._files,
            sum(each.rows for each in contents),
            sum(each.files for each in contents),
            self._compacted,
            self._removed,
        )


def run_here(jobs: Sequence[str], work: Callable[[str], str]) -> list[str]:
    """Jobs in this process, one after the other."""
    return [work(job) for job in jobs]


def run_archive(
    options: ArchiveOptions,
    progress: ReportProgress = lambda _: None,
    wait: Callable[[float], object] = time.sleep,
) -> Archived:
    """Runs until the lake has everything, or until an interrupt, by the options.

    Raises CorruptionError when a file cannot be read back as written, OffsetOutOfRangeError when records to archive are
    gone.
    """
    with Client(
        options.servers, name="archive", tls=tls_of_environment(), credentials=environment_credentials()
    ) as client:
        archiver = Archiver(options, client, run_here, progress)
        archiver.begin()
        pipeline = ArchivePipeline(client, archiver.lake_report, options.topics, options.group)
        try:
            copy_here(archiver, options, client, wait, pipeline)
        except KeyboardInterrupt:
            progress("stopping")
        else:
            archiver.tidy()
        finally:
            pipeline.over()
        return archiver.done()


def copy_here(
    archiver: Archiver,
    options: ArchiveOptions,
    client: Client,
    wait: Callable[[float], object] = time.sleep,
    pipeline: ArchivePipeline | None = None,
) -> None:
    """Archives in this process what the tables do not have, and reports the pipeline if there is one.

    Raises OffsetOutOfRangeError when records to archive are gone.
    """
    target = _ends(client, options.topics) if options.is_once else None
    while True:
        # First of all: another archive may be writing.
        spans = archiver.spans()
        ends = _ends(client, options.topics)
        start = next_offsets(spans, list_all(client, list(ends), "earliest", timeout_ms=_TIMEOUT_MS), ends)
        if pipeline is not None:
            pipeline.planned(start, ends)
        ranges = _plan(start, ends, target, options.batch_rows)
        if ranges:
            rows = archiver.commit(write_ranges(archiver.tables, client, ranges, archiver.decodings()))
            if pipeline is not None:
                pipeline.batch_done(rows)
        elif target is not None:
            return
        else:
            wait(options.every_ms / 1_000)


def _ends(client: Client, topics: Sequence[str]) -> Position:
    places = [(topic, part.number) for topic in topics for part in client.describe_topic(topic).partitions]
    return list_all(client, places, "latest", timeout_ms=_TIMEOUT_MS)


def _plan(start: Position, ends: Position, target: Position | None, batch_rows: int) -> list[OffsetRange]:
    """The ranges of the next batch."""
    wanted = ends if target is None else {place: min(offset, target.get(place, 0)) for place, offset in ends.items()}
    # Another archive may have passed the target.
    end = limit_records(start, {place: max(offset, start[place]) for place, offset in wanted.items()}, batch_rows)
    ranges = [OffsetRange(*place, start[place], offset) for place, offset in end.items()]
    return split(ranges, count_min=None, records_max=ROWS_PER_FILE)


def next_offsets(spans: dict[Partition, Span], oldest: Position, ends: Position) -> Position:
    """Where each partition continues: after the lake, or with the oldest record. Raises OffsetOutOfRangeError."""
    start = {place: spans[place].end if place in spans else offset for place, offset in oldest.items()}
    for place, offset in start.items():
        if not oldest[place] <= offset <= ends[place]:
            raise OffsetOutOfRangeError(
                f"the lake has {place[0]}/{place[1]} up to offset {offset}, and the log has offsets {oldest[place]} to "
                f"{ends[place] - 1}: records between them are gone, or the topic was deleted and made again"
            )
    return start


def write_ranges(
    tables: Mapping[str, TopicTable],
    client: Client,
    ranges: Sequence[OffsetRange],
    decodings: Mapping[str, Decoding],
    bytes_max: int = BATCH_BYTES,
) -> list[DataFile]:
    """Writes the records of ranges from the log, and describes the files.

    It ends with the range that exceeds the size, which is cut there; the rest belongs to the next batch.
    """
    files: list[DataFile] = []
    for wanted in ranges:
        stored = StoredBatches(client, wanted.topic, wanted.partition, wanted.first, wanted.end, timeout_ms=_TIMEOUT_MS)
        taken = _Taken(record_batches(stored, wanted, STORED), bytes_max)
        decoding = decodings.get(wanted.topic)
        rows = taken if decoding is None else decoding.batches(taken, client)
        files += write_range(tables[wanted.topic], wanted, rows, decoding)
        bytes_max -= taken.size_bytes
        if bytes_max <= 0:
            break
    return files


def write_range(
    table: TopicTable, wanted: OffsetRange, rows: "Iterable[pa.RecordBatch]", decoding: Decoding | None
) -> list[DataFile]:
    """Writes the rows of one range, which have decoded columns if there is a decoding."""
    name = f"{wanted.partition:05}-{wanted.first:020}"
    return write_days(table, wanted.topic, name, rows, decoding.type_text if decoding else "")


class _Taken:
    """Batches up to a size, and at least one."""

    def __init__(self, batches: "Iterable[pa.RecordBatch]", bytes_max: int) -> None:
        self._batches = batches
        self._bytes_max = bytes_max
        self.size_bytes = 0

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        for batch in self._batches:
            yield batch
            self.size_bytes += batch.nbytes
            if self.size_bytes >= self._bytes_max:
                return
