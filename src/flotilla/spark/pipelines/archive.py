"""`flotilla pipeline archive`: copies topics into a lake, each record once, and holds retention until it is there.

For each micro-batch: tasks write files and describe them; other tasks read the files back; one version of the manifest
lists them, under the query's id and the batch's number; then the retention hold moves. A failure in between leaves
unlisted files and a hold that is too far back; the next run repairs both. The checkpoint has Spark's position, the
manifest the lake's; if they do not match, nothing is written.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from flotilla.client.app.environment import environment_credentials
from flotilla.client.client import Client
from flotilla.security.client_tls import tls_of_environment
from flotilla.spark.lake.data_file import verify
from flotilla.spark.lake.lake import Lake
from flotilla.spark.lake.manifest import DataFile, Manifest, Partition, Span
from flotilla.spark.pipelines.archive_source import NAME, file_text, read_file_text
from flotilla.spark.pipelines.compaction import CompactionRules, compact
from flotilla.spark.pipelines.executor_jobs import run_executor_jobs
from flotilla.spark.pipelines.retention_hold import RetentionHold
from flotilla.spark.pipelines.streaming_run import ReportProgress, RunOptions, run_query
from flotilla.types.errors import CorruptionError

GROUP_DEFAULT: Final = "archive"


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    servers: str
    topics: Sequence[str]
    lake: str
    run: RunOptions
    #: The group whose committed offset holds retention.
    group: str = GROUP_DEFAULT
    #: Records of one micro-batch, and so of one manifest version.
    batch_rows: int = 2_000_000
    compaction: CompactionRules = field(default_factory=CompactionRules)


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run, and the totals of the lake."""

    rows: int
    files: int
    #: Of the whole lake.
    rows_total: int
    files_total: int
    version: int
    compacted: int


class Archive:
    def __init__(self, spark: SparkSession, options: ArchiveOptions, progress: ReportProgress) -> None:
        self._spark = spark
        self._options = options
        self._progress = progress
        self._lake = Lake(options.lake)
        self._manifest = self._lake.latest()
        self._rows = self._files = self._compacted = 0

    def run(self) -> Archived:
        """Runs until the lake has everything, or for ever, by the options."""
        options = self._options
        with Client(
            options.servers, name="archive", tls=tls_of_environment(), credentials=environment_credentials()
        ) as client:
            hold = RetentionHold(client, options.group, options.topics)
            hold.begin(self._manifest.spans())
            query = (
                self._source(client)
                .writeStream.foreachBatch(partial(self._take, hold))
                .queryName(f"archive {', '.join(options.topics)}")
            )
            run_query(query, options.run, self._progress)
            self._compact()
        manifest = self._manifest
        return Archived(self._rows, self._files, manifest.rows, len(manifest.files), manifest.version, self._compacted)

    def _source(self, client: Client) -> DataFrame:
        options = self._options
        reader = self._spark.readStream.format(NAME)
        for name, value in {
            "servers": options.servers,
            "subscribe": ",".join(options.topics),
            "lake": self._lake.address,
            "maxOffsetsPerTrigger": str(options.batch_rows),
            # For a new checkpoint only: a used one has its own position.
            "startingOffsets": json.dumps(starting_offsets(client, options.topics, self._manifest.spans())),
        }.items():
            reader = reader.option(name, value)
        return reader.load()

    def _take(self, hold: RetentionHold, files: DataFrame, batch_id: int) -> None:
        """Takes one micro-batch; the query waits for it."""
        described = [read_file_text(row.file) for row in files.collect()]
        query_id = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query_id is not None, "a micro-batch belongs to a query"
        manifest = self._lake.latest()
        if manifest.has_batch(query_id, batch_id):
            # The driver died between the manifest and Spark's commit of the batch.
            self._lake.remove(file.path for file in described)
        elif described:
            verify_files(self._spark, self._lake, described)
            manifest = manifest.with_batch(query_id, batch_id, described)
            self._lake.commit(manifest)
            self._rows += sum(file.rows for file in described)
            self._files += len(described)
        self._manifest = manifest
        hold.move(manifest.spans())
        self._progress(
            f"batch {batch_id}: {self._rows:,} rows in {self._files:,} files; the lake has {manifest.rows:,}"
        )
        if not self._options.run.is_once and batch_id % self._options.compaction.every_batches == 0:
            self._compact()

    def _compact(self) -> None:
        self._remove_expired()
        before = self._manifest
        self._manifest = compact(self._spark, self._lake, before, self._options.compaction)
        self._compacted += len(self._manifest.retired) - len(before.retired)

    def _remove_expired(self) -> None:
        """Removes retired files whose grace period is over."""
        paths = self._manifest.expired(self._options.compaction.grace_ms, time.time_ns() // 1_000_000)
        if paths:
            # The manifest first: a leftover file costs space, a missing one breaks a reader.
            manifest = self._manifest.forgetting(paths)
            self._lake.commit(manifest)
            self._manifest = manifest
            self._lake.remove(paths)


def archive(spark: SparkSession, options: ArchiveOptions, progress: ReportProgress = lambda _: None) -> Archived:
    """Copies topics into a lake. Raises CorruptionError when a file cannot be read back as written."""
    return Archive(spark, options, progress).run()


def starting_offsets(client: Client, topics: Sequence[str], spans: dict[Partition, Span]) -> dict[str, dict[str, int]]:
    """For each partition the end of the lake, or -2 for the oldest record."""
    return {
        topic: {
            str(part.number): spans[topic, part.number].end if (topic, part.number) in spans else -2
            for part in client.describe_topic(topic).partitions
        }
        for topic in topics
    }


def verify_files(spark: SparkSession, lake: Lake, files: Sequence[DataFile]) -> None:
    """Reads files back in tasks. Raises CorruptionError."""
    problems = [text for text in run_executor_jobs(spark, [file_text(file) for file in files], _verifier(lake)) if text]
    if problems:
        raise CorruptionError(f"{len(problems)} of {len(files)} files are not as they were written: {problems[0]}")


def _verifier(lake: Lake) -> Callable[[str], str]:
    def verify_one(text: str) -> str:
        try:
            verify(lake, read_file_text(text))
        except CorruptionError as error:
            return str(error)
        return ""

    return verify_one


def verify_lake(spark: SparkSession, lake: Lake) -> Manifest:
    """Reads every file of the newest manifest back, and checks that offsets are dense. Raises CorruptionError."""
    manifest = lake.latest()
    manifest.spans()
    verify_files(spark, lake, manifest.files)
    return manifest


def unnamed_files(lake: Lake, manifest: Manifest) -> list[Any]:
    """Files that no manifest lists: leftovers of failed attempts."""
    named = {file.path for file in manifest.files} | {each.path for each in manifest.retired}
    return [path for path in lake.list_files() if path not in named]
