"""Shortcuts of tests: a read, a stream, a write."""

import time
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

#: Over which a query is taken to hang; far above what any takes.
QUERY_S_MAX = 180
#: Spark waits 10 s for its Python planner, which a busy machine may not have started by then.
_NOT_CONNECTED = "failed to connect back"


def read(spark: Any, servers: str, **options: object) -> Any:
    """A table out of a topic."""
    return _with(spark.read.format("flotilla"), servers, options).load()


def read_stream(spark: Any, servers: str, **options: object) -> Any:
    return _with(spark.readStream.format("flotilla"), servers, options).load()


def write(rows: Any, servers: str, **options: object) -> None:
    _with(rows.write.format("flotilla"), servers, options).mode("append").save()


def drain(rows: Any, servers: str, checkpoint: Path, **options: Any) -> Any:
    """Runs a streaming write over all that is there now, and returns the query that has ended."""
    while True:
        query = start(rows, servers, checkpoint, **options)
        try:
            assert query.awaitTermination(QUERY_S_MAX)
        except StreamingQueryException as error:
            if _NOT_CONNECTED not in str(error):
                raise
        else:
            return query


def start(
    rows: Any,
    servers: str,
    checkpoint: Path,
    *,
    into: str = "flotilla",
    name: str = "",
    table: str = "",
    trigger: Any = None,
    **options: object,
) -> Any:
    """A streaming write that runs, or has ended, into a topic or a table."""
    writer = _with(rows.writeStream.format(into), servers, options).option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(**(trigger or {"availableNow": True}))
    if name:
        writer = writer.queryName(name)
    deadline = time.monotonic() + QUERY_S_MAX
    while True:
        query = writer.toTable(table) if table else writer.start()
        while query.isActive and not _has_planned(query):
            assert time.monotonic() < deadline, f"the query does not start: {query.status}"
            time.sleep(0.05)
        if query.isActive or _NOT_CONNECTED not in str(query.exception()):
            return query


def _has_planned(query: Any) -> bool:
    """Whether its source answers. A query without new data has no progress for ten seconds."""
    status = query.status
    is_waiting = status["message"].startswith("Waiting")
    return query.lastProgress is not None or status["isDataAvailable"] or is_waiting


def values(spark: Any, servers: str, topic: str) -> list[str]:
    """All values of a topic, sorted: what is doubled stands there twice."""
    rows = read(spark, servers, subscribe=topic, columns="value").selectExpr("cast(value as string) as value")
    return sorted(row.value for row in rows.collect())


def _with(builder: Any, servers: str, options: dict[str, object]) -> Any:
    builder = builder.option("servers", servers)
    for name, value in options.items():
        builder = builder.option(name, value)
    return builder
