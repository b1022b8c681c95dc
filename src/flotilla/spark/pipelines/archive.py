"""`flotilla pipeline archive`: the archive on Spark, for many topics, long backlogs and clusters of machines.

The executors write files, read them back and compact them; the driver commits. The order of steps and all promises are
those of `flotilla.lake.archive`.
"""

import json
from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from flotilla.client.app.environment import environment_credentials
from flotilla.client.client import Client
from flotilla.lake.archive import BATCH_BYTES, Archived, ArchiveOptions, Archiver, ReportProgress, copy_here
from flotilla.lake.data_file import DataFile
from flotilla.lake.offset_range import Partition
from flotilla.lake.report import archive_name
from flotilla.lake.runs import Span
from flotilla.lake.store import Store
from flotilla.security.client_tls import tls_of_environment
from flotilla.spark.pipelines.archive_source import NAME
from flotilla.spark.pipelines.executor_jobs import run_executor_jobs
from flotilla.spark.pipelines.streaming_run import RunOptions, run_query
from flotilla.spark.progress import reporting_lake
from flotilla.spark.registration import session_id


def archive(
    spark: SparkSession, options: ArchiveOptions, checkpoint: str, progress: ReportProgress = lambda _: None
) -> Archived:
    """Runs until the lake has everything, or for ever, by the options.

    Raises CorruptionError when a file cannot be read back as written, AlreadyExistsError when another archive was
    faster.
    """
    with Client(
        options.servers, name="archive", tls=tls_of_environment(), credentials=environment_credentials()
    ) as client:
        archiver = Archiver(options, client, partial(run_executor_jobs, spark), progress)
        archiver.begin()
        rows = _source(spark, options, starting_offsets(client, options.topics, archiver.spans()))
        query = rows.writeStream.foreachBatch(partial(_take, archiver))
        run = RunOptions(checkpoint, options.is_once, f"{options.every_ms} milliseconds")
        name = archive_name(options.topics)
        with reporting_lake(session_id(spark), name, archiver.lake_report.added_to):
            run_query(query.queryName(name), run, progress)
        if options.is_once:
            # A checkpoint that was used with another lake is ahead of this one.
            copy_here(archiver, options, client)
        archiver.tidy()
        return archiver.done()


def _source(spark: SparkSession, options: ArchiveOptions, starting: dict[str, dict[str, int]]) -> DataFrame:
    reader = spark.readStream.format(NAME)
    for name, value in {
        "servers": options.servers,
        "subscribe": ",".join(options.topics),
        # Absolute, because workers may have another working directory.
        "lake": Store(options.lake).address,
        "maxOffsetsPerTrigger": str(options.batch_rows),
        "maxBytesPerTrigger": str(BATCH_BYTES),
        # For a new checkpoint only: a used one has its own position.
        "startingOffsets": json.dumps(starting),
        "schemas": json.dumps(dict(options.schemas)),
    }.items():
        reader = reader.option(name, value)
    return reader.load()


def _take(archiver: Archiver, files: DataFrame, batch_id: int) -> None:
    """Takes one micro-batch; the query waits for it."""
    archiver.commit([DataFile.from_text(row.file) for row in files.collect()])


def starting_offsets(client: Client, topics: Sequence[str], spans: dict[Partition, Span]) -> dict[str, dict[str, int]]:
    """For each partition the end of the lake, or -2 for the oldest record."""
    return {
        topic: {
            str(part.number): spans[topic, part.number].end if (topic, part.number) in spans else -2
            for part in client.describe_topic(topic).partitions
        }
        for topic in topics
    }
