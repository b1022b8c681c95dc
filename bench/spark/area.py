"""Spark over a real cluster of three brokers, as ratios to Spark's own speed in the same run.

Reads are compared with a source of Arrow batches in memory, the fastest that Spark takes rows from Python, and with
a source that yields a tuple per message, as a plain reader would; a stream into Parquet beside
Spark's own rows; a micro-batch beside one of Spark's rate source; an archive beside plain Parquet.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figure import Absence, Figure, Goal, compare, relate
from bench.options import BenchOptions
from bench.spark.guest import Guest
from bench.spark.lake import LakeRun
from bench.spark.triggers import Triggers
from flotilla.cli.bench.probes import scratch
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AREA = "spark"
VALUE_BYTES = 100
PARTITIONS = 2
ROOT = Path(__file__).parents[2]


def measure(options: BenchOptions) -> Sequence[Figure | Absence]:
    reason = _missing()
    if reason:
        return [Absence(AREA, "Spark", reason)]
    rows = options.pick(quick=400_000, full=4_000_000)
    with scratch(options.folder, AREA) as folder, LocalCluster.on_free_ports(folder / "cluster") as cluster:
        cluster.start()
        cluster.wait_ready()
        spark = _session(folder)
        try:
            servers = ",".join(cluster.servers)
            with Client(servers) as client:
                triggers = Triggers(spark, servers, folder)
                return [
                    *_Run(spark, servers, rows, folder, options.rounds).figures(client),
                    *LakeRun(spark, servers, "bench", folder).figures(client, options.pick(quick=1, full=3)),
                    *triggers.small(client, options.pick(quick=1, full=3), options.pick(quick=10, full=40)),
                    *triggers.writing(client, options.pick(quick=1, full=3), rows // 8),
                    *Guest(spark, cluster, options).figures(client),
                ]
        finally:
            spark.stop()


def _missing() -> str:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed"
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "Java 17 is not installed"
    return ""


def _session(folder: Path) -> "SparkSession":
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    from bench.spark.probes import ConstantSource, PremadeSource, TupleSource
    from flotilla.spark import register

    register(spark)
    for source in (PremadeSource, ConstantSource, TupleSource):
        spark.dataSource.register(source)
    return spark


class _Run:
    def __init__(self, spark: "SparkSession", servers: str, rows: int, folder: Path, rounds: int) -> None:
        self._spark = spark
        self._servers = servers
        self._rows = rows
        self._folder = folder
        self._rounds = rounds
        self._checkpoints = 0

    def figures(self, client: Client) -> list[Figure]:
        for name in ("bench", "copy"):
            client.create_topic(name, partitions=PARTITIONS)
        writes = self._write_rates()
        self._made_in_python("premade"), self._count("bench")
        return [
            *writes,
            self._reading("premade", "Arrow batches that are there already", Goal(0.6)),
            self._reading("tuples", "tuples of the same messages", Goal(5.0)),
            self._reading("constant", "one tuple again and again", Goal(None)),
            self._parquet(),
        ]

    # Each returns rows a second.

    def _rate(self, work: Callable[[], object]) -> float:
        started = time.perf_counter()
        work()
        return self._rows / (time.perf_counter() - started)

    def _made(self) -> Any:
        return self._spark.range(0, self._rows, 1, PARTITIONS).selectExpr(
            f"cast(lpad(cast(id as string), {VALUE_BYTES}, '0') as binary) as value"
        )

    def _write_rates(self) -> list[Figure]:
        """The first one fills the topic that the others read."""

        def write(**options: str) -> float:
            writer = self._made().write.format("flotilla").option("servers", self._servers).options(**options)
            return self._rate(writer.mode("append").save)

        def nowhere() -> float:
            return self._rate(self._made().write.format("noop").mode("append").save)

        write(topic="copy")
        pairs = [(write(topic="bench"), nowhere())]
        plain = [(write(topic="copy", deliveryGuarantee="atLeastOnce"), nowhere())]
        return [
            relate(AREA, f"batch write, transactional, {self._rows:,} rows", "rows/s", pairs=pairs,
                   probe_name="Spark's noop sink", goal=Goal(None)),
            relate(AREA, "batch write, atLeastOnce", "rows/s", pairs=plain,
                   probe_name="Spark's noop sink", goal=Goal(None)),
        ]  # fmt: skip

    def _count(self, topic: str) -> float:
        def count() -> None:
            found = self._reader().option("subscribe", topic).load().selectExpr("count(value)").collect()[0][0]
            assert found == self._rows, (found, self._rows)

        return self._rate(count)

    def _reader(self) -> Any:
        reader = self._spark.read.format("flotilla").option("servers", self._servers)
        return reader.option("minPartitions", PARTITIONS).option("maxRecordsPerPartition", self._rows)

    def _made_in_python(self, kind: str) -> float:
        options = {"rows": str(self._rows), "tasks": str(PARTITIONS), "servers": self._servers, "topic": "bench"}

        def count() -> None:
            found = self._spark.read.format(kind).options(**options).load().selectExpr("count(value)").collect()[0][0]
            assert found == self._rows, (found, self._rows)

        return self._rate(count)

    def _reading(self, kind: str, probe_name: str, goal: Goal) -> Figure:
        return compare(
            AREA,
            f"count of {self._rows:,} rows of {VALUE_BYTES} B",
            "rows/s",
            subject=lambda: self._count("bench"),
            probe=lambda: self._made_in_python(kind),
            probe_name=probe_name,
            goal=goal,
            rounds=self._rounds,
        )

    def _checkpoint(self) -> str:
        self._checkpoints += 1
        return str(self._folder / f"checkpoint-{self._checkpoints}")

    def _stream(self, topic: str) -> Any:
        reader = self._spark.readStream.format("flotilla").option("servers", self._servers)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest")

    def _drain(self, rows: Any, kind: str, **options: str) -> Any:
        writer = rows.writeStream.format(kind).option("checkpointLocation", self._checkpoint()).options(**options)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def _parquet(self) -> Figure:
        def streamed() -> float:
            rows = self._stream("bench").load()
            return self._rate(lambda: self._drain(rows, "parquet", path=str(self._folder / "lake")))

        def made() -> float:
            columns = ["value", "cast(null as binary) as key", "'bench' as topic", "0 as partition", "0L as offset",
                       "current_timestamp() as timestamp", "0 as priority", "0 as content_type"]  # fmt: skip
            rows = self._made().selectExpr(*columns)
            return self._rate(rows.write.mode("overwrite").format("parquet").option("path", self._folder / "own").save)

        return compare(
            AREA, "availableNow into Parquet", "rows/s", subject=streamed, probe=made, probe_name="Spark's own rows",
            goal=Goal(0.8), rounds=self._rounds,
        )  # fmt: skip
