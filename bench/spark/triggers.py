"""Micro-batches: the cost of one with few rows beside Spark's own, and the rows per second of a writing stream."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.figure import Figure, Goal, relate
from flotilla.client.client import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AREA = "spark"
VALUE_BYTES = 100
PARTITIONS = 2
SMALL_ROWS = 100
#: How much longer than Spark's own a micro-batch may take.
EXTRA_MS = 100.0
WRITE_RATE = 200_000.0
#: The first triggers of a query start processes and compile.
WARM_UP = 5


class Triggers:
    def __init__(self, spark: "SparkSession", servers: str, folder: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._folder = folder
        self._checkpoints = 0

    def _run(self, rows: Any, count: int, into: str = "noop", **options: str) -> list[Any]:
        """Micro-batches of a stream, without the first ones."""
        self._checkpoints += 1
        checkpoint = str(self._folder / f"trigger-{self._checkpoints}")
        writer = rows.writeStream.format(into).option("checkpointLocation", checkpoint).options(**options)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            while query.isActive and len(query.recentProgress) < WARM_UP + count:
                time.sleep(0.05)
            if query.exception() is not None:
                raise query.exception()
            return list(query.recentProgress[WARM_UP : WARM_UP + count])
        finally:
            query.stop()

    # A micro-batch of few rows.

    def small(self, client: Client, rounds: int, count: int) -> list[Figure]:
        """Milliseconds of a trigger, sources in turn: the first round is for compilers and is not counted."""
        topic = "small"
        client.create_topic(topic, partitions=PARTITIONS)
        each = SMALL_ROWS // PARTITIONS
        for number in range(PARTITIONS):
            # As many as there are triggers, and then some that the query may plan while it is asked to stop.
            client.produce_many(topic, [bytes(VALUE_BYTES)] * (each * (WARM_UP + count + 50)), partition=number)
        taken: list[tuple[float, float, float]] = []
        for _ in range(1 + rounds):
            taken.append((self._ours(topic, count), self._rate(count), self._premade(count)))
        name = f"a micro-batch of {SMALL_ROWS} rows"
        beyond = [(ours - rate, EXTRA_MS) for ours, rate, _ in taken[1:]]
        return [
            relate(AREA, f"{name}, beyond Spark's rate source", "ms", pairs=beyond, probe_name="goal",
                   goal=Goal(1.0, at_most=True)),
            relate(AREA, name, "ms", pairs=[(ours, rate) for ours, rate, _ in taken[1:]],
                   probe_name="Spark's rate source", goal=Goal(None)),
            relate(AREA, name, "ms", pairs=[(ours, premade) for ours, _, premade in taken[1:]],
                   probe_name="a source in Python with its rows at hand", goal=Goal(None)),
        ]  # fmt: skip

    def _median_ms(self, rows: Any, count: int) -> float:
        return float(median(each.durationMs["triggerExecution"] for each in self._run(rows, count)))

    def _ours(self, topic: str, count: int) -> float:
        reader = self._spark.readStream.format("flotilla").option("servers", self._servers).option("subscribe", topic)
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", SMALL_ROWS)
        return self._median_ms(reader.load(), count)

    def _rate(self, count: int) -> float:
        return self._median_ms(self._own_rows(SMALL_ROWS), count)

    def _premade(self, count: int) -> float:
        reader = self._spark.readStream.format("premade").option("rows", SMALL_ROWS).option("tasks", PARTITIONS)
        return self._median_ms(reader.load(), count)

    def _own_rows(self, count: int) -> Any:
        reader = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", count)
        return reader.option("numPartitions", PARTITIONS).load()

    # A stream that writes.

    def writing(self, client: Client, rounds: int, batch_rows: int) -> list[Figure]:
        """Rows a second of a stream into a topic, from Spark's own rows."""
        client.create_topic("written", partitions=PARTITIONS)
        value = f"cast(lpad(cast(value as string), {VALUE_BYTES}, '0') as binary) as value"
        rows = self._own_rows(batch_rows).selectExpr(value)

        def rate(run: Callable[[], list[Any]]) -> float:
            found = run()
            taken_ms = sum(each.durationMs["triggerExecution"] for each in found)
            return float(1e3 * sum(each.numInputRows for each in found) / taken_ms)

        def ours() -> float:
            return rate(lambda: self._run(rows, 5, "flotilla", servers=self._servers, topic="written"))

        pairs = [(ours(), rate(lambda: self._run(rows, 5))) for _ in range(rounds)]
        name = f"streaming write, transactional, {batch_rows:,} rows of {VALUE_BYTES} B a micro-batch"
        return [
            relate(AREA, name, "rows/s", pairs=[(own, WRITE_RATE) for own, _ in pairs], probe_name="goal",
                   goal=Goal(1.0)),
            relate(AREA, name, "rows/s", pairs=pairs, probe_name="Spark's noop sink", goal=Goal(None)),
        ]  # fmt: skip
