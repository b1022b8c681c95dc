"""Shortcuts of tests: a read, a stream, a write."""

from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

#: Over which a query is taken to hang; far above what any takes.
QUERY_S_MAX = 180


def read(spark: Any, servers: str, **options: object) -> Any:
    """A table out of a topic."""
    return _with(spark.read.format("flotilla"), servers, options).load()


def read_stream(spark: Any, servers: str, **options: object) -> Any:
    return _with(spark.readStream.format("flotilla"), servers, options).load()


def write(rows: Any, servers: str, **options: object) -> None:
    _with(rows.write.format("flotilla"), servers, options).mode("append").save()


def drain(rows: Any, servers: str, checkpoint: Path, *, into: str = "flotilla", **options: object) -> Any:
    """Runs a streaming write over all that is there now, and returns the query that has ended."""
    while True:
        query = start(rows, servers, checkpoint, into=into, **options)
        try:
            assert query.awaitTermination(QUERY_S_MAX)
        except StreamingQueryException as error:
            # Spark waits 10 s for its Python planner, which a busy machine may not have started by then.
            if "failed to connect back" not in str(error):
                raise
        else:
            return query


def start(
    rows: Any, servers: str, checkpoint: Path, *, into: str = "flotilla", trigger: Any = None, **options: object
) -> Any:
    writer = _with(rows.writeStream.format(into), servers, options).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def values(spark: Any, servers: str, topic: str) -> list[str]:
    """All values of a topic, sorted: what is doubled stands there twice."""
    rows = read(spark, servers, subscribe=topic, columns="value").selectExpr("cast(value as string) as value")
    return sorted(row.value for row in rows.collect())


def _with(builder: Any, servers: str, options: dict[str, object]) -> Any:
    builder = builder.option("servers", servers)
    for name, value in options.items():
        builder = builder.option(name, value)
    return builder
