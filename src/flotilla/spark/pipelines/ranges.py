"""Rows of a topic by offsets: from the lake up to its end, from the log after that."""

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.functions import col
from pyspark.sql.types import StructField, StructType

from flotilla.spark.lake.lake import Lake
from flotilla.spark.lake.manifest import DataFile, Manifest, Run, Span
from flotilla.spark.schema import COLUMNS
from flotilla.types.errors import InvalidArgumentError


def split_at_seam(wanted: Mapping[int, Span], archived: Mapping[int, Span]) -> tuple[list[Run], list[Run]]:
    """The offsets to read from the lake and from the log. Raises InvalidArgumentError for offsets that neither has.

    Nothing precedes the lake: an archive begins with the oldest record of the log.
    """
    lake, log = [], []
    for number, span in sorted(wanted.items()):
        kept = archived.get(number)
        if kept is None:
            log.append(Run(number, *span))
            continue
        if span.first < min(kept.first, span.end):
            raise InvalidArgumentError(
                f"offsets {span.first} to {kept.first - 1} of partition {number} were gone when the archive began"
            )
        lake.append(Run(number, span.first, min(span.end, kept.end)))
        log.append(Run(number, max(span.first, kept.end), span.end))
    return [run for run in lake if run.end > run.first], [run for run in log if run.end > run.first]


def rows_in(
    spark: SparkSession,
    topic: str,
    wanted: Mapping[int, Span],
    *,
    servers: str,
    lake: Lake | None = None,
    manifest: Manifest | None = None,
) -> DataFrame:
    """The rows of these offsets, each once, with all columns of the source."""
    archived = {}
    if manifest is not None:
        archived = {number: span for (name, number), span in manifest.spans().items() if name == topic}
    of_lake, of_log = split_at_seam(wanted, archived)
    parts = []
    if of_lake:
        assert lake is not None
        assert manifest is not None
        parts.append(_from_lake(spark, topic, of_lake, lake, manifest))
    if of_log:
        parts.append(_from_log(spark, topic, of_log, servers))
    if not parts:
        return _nothing(spark)
    return reduce(lambda left, right: left.unionByName(right), parts)


def _from_lake(spark: SparkSession, topic: str, runs: list[Run], lake: Lake, manifest: Manifest) -> DataFrame:
    files = [
        file for file in manifest.files_of(topic) if any(_overlap(mine, run) for mine in file.runs for run in runs)
    ]
    return lake_rows(spark, topic, files, lake).where(_within(runs))


def lake_rows(spark: SparkSession, topic: str, files: Sequence[DataFile], lake: Lake) -> DataFrame:
    """All rows of the given files; other files in the folders are ignored."""
    stored = StructType([StructField(name, kind) for name, kind in COLUMNS.items() if name != "topic"])
    rows = spark.read.schema(stored).parquet(*[lake.address_of(file.path) for file in files])
    return rows.withColumn("topic", functions.lit(topic)).select(*COLUMNS)


def _overlap(one: Run, other: Run) -> bool:
    return one.partition == other.partition and one.first < other.end and other.first < one.end


def _within(runs: list[Run]) -> Column:
    conditions = [
        (col("partition") == run.partition) & (col("offset") >= run.first) & (col("offset") < run.end) for run in runs
    ]
    return reduce(lambda left, right: left | right, conditions)


def _from_log(spark: SparkSession, topic: str, runs: list[Run], servers: str) -> DataFrame:
    first = {topic: {str(run.partition): run.first for run in runs}}
    end = {topic: {str(run.partition): run.end for run in runs}}
    numbers = {topic: [run.partition for run in runs]}
    reader = spark.read.format("flotilla").option("servers", servers).option("assign", json.dumps(numbers))
    reader = reader.option("startingOffsets", json.dumps(first)).option("endingOffsets", json.dumps(end))
    return reader.option("includeHeaders", "true").load().select(*COLUMNS)


def _nothing(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], StructType([StructField(name, kind) for name, kind in COLUMNS.items()]))
