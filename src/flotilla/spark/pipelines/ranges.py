"""Rows of a topic by offsets: from the lake up to its end, from the log after that."""

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StructField, StructType

from flotilla.lake.runs import Run, Span
from flotilla.lake.table import Snapshot, TableFile, TopicTable
from flotilla.spark.pipelines.lake_reader import lake_rows
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
    table: TopicTable | None = None,
    snapshot: Snapshot | None = None,
) -> DataFrame:
    """The rows of these offsets, each once, with all columns of the source."""
    of_lake, of_log = split_at_seam(wanted, {} if snapshot is None else snapshot.spans)
    parts = []
    if of_lake:
        assert table is not None
        assert snapshot is not None
        parts.append(_from_lake(spark, table, snapshot.files, of_lake))
    if of_log:
        parts.append(_from_log(spark, topic, of_log, servers))
    if not parts:
        return _nothing(spark)
    return reduce(lambda left, right: left.unionByName(right), parts)


def _from_lake(spark: SparkSession, table: TopicTable, files: Sequence[TableFile], runs: list[Run]) -> DataFrame:
    return lake_rows(spark, table, [file for file in files if any(map(file.may_have, runs))]).where(_within(runs))


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
