"""`flotilla pipeline query`: the live log and the archive as one table, with no gap and no double between them.

The seam is the manifest's: below its end for a partition, rows come from the lake; from there on, from the log.
Retention cannot pass that end, because the archive holds the log up to it; and if the log begins behind it all the
same, the read fails and names what is gone instead of leaving it out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from flotilla.client.client import Client
from flotilla.spark.lake.lake import Lake
from flotilla.spark.lake.manifest import Manifest, Partition
from flotilla.spark.pipelines.ranges import lake_rows
from flotilla.spark.schema import COLUMNS
from flotilla.types.errors import InvalidArgumentError, NotFoundError

#: The schema of the views, and of the names that a query is searched for.
_NAME: Final = re.compile(r"\bflotilla\s*\.\s*(?:`((?:[^`]|``)+)`|([A-Za-z0-9_]+))", re.IGNORECASE)
_OLDEST: Final = -2


def flotilla_table(
    spark: SparkSession, topic: str, *, servers: str = "localhost:7600", lake: str | None = None
) -> DataFrame:
    """A topic as one table: what the lake has of it, and the log behind that. Raises NotFoundError.

    All columns of the source are there, `headers` too. Without a lake it is the log alone. The rows are those that were
    there when this was called, and the log's end is looked up when the table is read.
    """
    if lake is None:
        with Client(servers, name="query") as client:
            client.describe_topic(topic)
        return _log(spark, topic, servers, {})
    manifest = Lake(lake).latest()
    files = manifest.files_of(topic)
    archived = lake_rows(spark, topic, files, Lake(lake)) if files else None
    with Client(servers, name="query") as client:
        try:
            partitions = len(client.describe_topic(topic).partitions)
        except NotFoundError:
            if archived is None:
                raise
            # A topic that was removed is still in the lake.
            return archived
    log = _log(spark, topic, servers, seams(manifest, topic, partitions))
    return log if archived is None else archived.unionByName(log)


def seams(manifest: Manifest, topic: str, partitions: int) -> dict[int, int]:
    """For each partition the first offset that the lake does not have; -2, the oldest one, where it has none."""
    spans = manifest.spans()
    places: list[Partition] = [(topic, number) for number in range(partitions)]
    return {number: spans[topic, number].end if (topic, number) in spans else _OLDEST for _, number in places}


def _log(spark: SparkSession, topic: str, servers: str, starts: Mapping[int, int]) -> DataFrame:
    reader = spark.read.format("flotilla").option("servers", servers).option("subscribe", topic)
    if starts:
        offsets = {topic: {str(number): offset for number, offset in starts.items()}}
        reader = reader.option("startingOffsets", json.dumps(offsets))
    return reader.option("includeHeaders", "true").load().select(*COLUMNS)


def named_topics(sql: str) -> list[str]:
    """Every topic that a query may mean: whatever stands behind `flotilla.`, in comments and texts as well.

    What is found too much costs a view; which names the query really has, Spark itself decides.
    """
    found = (match[1].replace("``", "`") if match[1] else match[2] for match in _NAME.finditer(sql))
    return list(dict.fromkeys(found))


def register_views(spark: SparkSession, topics: Iterable[str], *, servers: str, lake: str | None = None) -> list[str]:
    """Makes each topic a view in the session's schema for temporary views, `flotilla` in sessions of the command line.

    Names that are no topic are left out; those that are, are returned.
    """
    known = []
    for topic in topics:
        try:
            table = flotilla_table(spark, topic, servers=servers, lake=lake)
        except NotFoundError:
            continue
        escaped = topic.replace("`", "``")
        table.createOrReplaceGlobalTempView(f"`{escaped}`")
        known.append(topic)
    return known


def query(spark: SparkSession, sql: str, *, servers: str, lake: str | None = None) -> DataFrame:
    """The result of a query over `flotilla.<topic>`; names with dots or dashes stand in backquotes.

    Raises InvalidArgumentError for a query that Spark does not understand, NotFoundError for a topic that is nowhere.
    """
    named = named_topics(sql)
    known = register_views(spark, named, servers=servers, lake=lake)
    try:
        return spark.sql(sql)
    except (ParseException, AnalysisException) as error:
        unknown = [name for name in named if name not in known]
        if unknown and not isinstance(error, ParseException):
            raise NotFoundError(f"there is no topic {unknown[0]!r}, neither in the cluster nor in the lake") from None
        raise InvalidArgumentError(str(error).split("\n\nJVM stacktrace")[0].strip()) from None


def first_rows(found: DataFrame, count: int) -> list[tuple[Any, ...]]:
    """So many rows of a result, for people: the rest stays where it is."""
    return [tuple(row) for row in found.limit(count).toLocalIterator()]
