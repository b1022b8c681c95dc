"""Rows of a topic by offsets: from the lake up to its end, from the log after that."""

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

from flotilla.lake.runs import Run, Span
from flotilla.lake.table import Snapshot, TableFile, TopicTable
from flotilla.spark.pipelines.lake_reader import lake_rows
from flotilla.spark.topic_read import TopicRead
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
    read: TopicRead,
    wanted: Mapping[int, Span],
    table: TopicTable | None = None,
    snapshot: Snapshot | None = None,
) -> DataFrame:
    """The rows of these offsets, each once."""
    of_lake, of_log = split_at_seam(wanted, {} if snapshot is None else snapshot.spans)
    parts = []
    if of_lake:
        assert table is not None
        assert snapshot is not None
        parts.append(_from_lake(spark, read, table, snapshot.files, of_lake))
    if of_log:
        parts.append(_from_log(spark, read, of_log))
    if not parts:
        return spark.createDataFrame([], read.schema())
    return reduce(lambda left, right: left.unionByName(right), parts)


def _from_lake(
    spark: SparkSession, read: TopicRead, table: TopicTable, files: Sequence[TableFile], runs: list[Run]
) -> DataFrame:
    needed = [file for file in files if any(map(file.may_have, runs))]
    return lake_rows(spark, table, needed, read.schema()).where(_within(runs))


def _within(runs: list[Run]) -> Column:
    conditions = [
        (col("partition") == run.partition) & (col("offset") >= run.first) & (col("offset") < run.end) for run in runs
    ]
    return reduce(lambda left, right: left | right, conditions)


def _from_log(spark: SparkSession, read: TopicRead, runs: list[Run]) -> DataFrame:
    options = dict(read.options)
    topic = options.pop("subscribe")
    options["assign"] = json.dumps({topic: [run.partition for run in runs]})
    options["startingOffsets"] = json.dumps({topic: {run.partition: run.first for run in runs}})
    options["endingOffsets"] = json.dumps({topic: {run.partition: run.end for run in runs}})
    return spark.read.format("flotilla").options(**options).load()
