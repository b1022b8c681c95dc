"""`flotilla pipeline query`: the archive and the live log as one table, without gaps or duplicates.

Rows before the end of a partition in its Delta table come from the lake, later ones from the log. Retention cannot pass
that end, because the archive holds it; if the log begins later all the same, the read fails and names the lost offsets.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from flotilla.client.app.environment import environment_credentials
from flotilla.client.client import Client
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Span
from flotilla.security.client_tls import tls_of_environment
from flotilla.spark.pipelines.lake_reader import lake_rows
from flotilla.spark.topic_read import topic_read
from flotilla.types.errors import InvalidArgumentError, NotFoundError

#: Names of topics in a query.
_NAME: Final = re.compile(r"\bflotilla\s*\.\s*(?:`((?:[^`]|``)+)`|([A-Za-z0-9_]+))", re.IGNORECASE)
_OLDEST: Final = -2


def flotilla_table(
    spark: SparkSession, topic: str, *, servers: str = "localhost:7600", lake: str | None = None
) -> DataFrame:
    """A topic as one table: the rows of the lake, then those of the log.

    Raises NotFoundError, and InvalidArgumentError when the lake has an earlier topic of the same name.

    It has all columns of the source, `headers` too, and those of values that the lake has decoded. Without a lake it is
    the log alone. The version of the lake is that of now, the end of the log that of the read.
    """
    given = {"servers": servers, "includeHeaders": "true"}
    if lake is None:
        with Client(servers, name="query", tls=tls_of_environment(), credentials=environment_credentials()) as client:
            client.describe_topic(topic)
        return _log(spark, given | {"subscribe": topic}, {})
    table = Lake(lake).table(topic)
    wanted = topic_read(given | {"lake": lake}, topic)
    snapshot = table.snapshot()
    archived = lake_rows(spark, table, snapshot.files, wanted.schema()) if snapshot.files else None
    with Client(servers, name="query", tls=tls_of_environment(), credentials=environment_credentials()) as client:
        try:
            found = client.describe_topic(topic)
        except NotFoundError:
            if archived is None:
                raise
            # A deleted topic is still in the lake.
            return archived
    table.check_topic(found.topic_id)
    log = _log(spark, wanted.options, {topic: seams(snapshot.spans, len(found.partitions))})
    return log if archived is None else archived.unionByName(log)


def seams(spans: Mapping[int, Span], partitions: int) -> dict[int, int]:
    """For each partition the end of the lake; -2, the oldest offset, without one."""
    return {number: spans[number].end if number in spans else _OLDEST for number in range(partitions)}


def _log(spark: SparkSession, options: Mapping[str, str], starts: Mapping[str, Mapping[int, int]]) -> DataFrame:
    reader = spark.read.format("flotilla").options(**options)
    return reader.option("startingOffsets", json.dumps(starts) if starts else "earliest").load()


def named_topics(sql: str) -> list[str]:
    """Every topic that a query may name: all words after `flotilla.`, in comments and strings too.

    A false match costs only a view.
    """
    found = (match[1].replace("``", "`") if match[1] else match[2] for match in _NAME.finditer(sql))
    return list(dict.fromkeys(found))


def register_views(spark: SparkSession, topics: Iterable[str], *, servers: str, lake: str | None = None) -> list[str]:
    """Makes each topic a global temporary view, in the schema `flotilla` in sessions of the command line.

    Returns the names that are topics.
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
    """The result of a query over `flotilla.<topic>`; names with dots or dashes need backquotes.

    Raises InvalidArgumentError for an invalid query, NotFoundError for an unknown topic.
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
    """The first rows of a result; the rest is not fetched."""
    return [tuple(row) for row in found.limit(count).toLocalIterator()]
