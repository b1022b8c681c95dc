"""A large Spark read in a shared cluster: its cost in the brokers' memory, and in the latency of other clients.

Any work on the same processors slows other clients down, so their latencies are compared with those during the same
job over rows that are already in memory.
"""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figure import Absence, Figure, Goal, relate
from bench.options import BenchOptions
from flotilla.cli.bench.workloads import cuts
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AREA = "spark"
TOPIC = "large"
PARTITIONS = 2
RECORD_BYTES = 1_000
_CALL_RECORDS = 50_000
#: Three replicas, and the journals beside them.
_ROOM = 3.3
_LOOK_S = 0.1
#: Between two calls of the other client.
_PAUSE_S = 0.005
MIB = 1 << 20
#: How much a broker may grow: twice the bytes in flight to two tasks, and what its allocator keeps.
GROWTH_MIB = 256.0


class Guest:
    def __init__(self, spark: "SparkSession", cluster: LocalCluster, options: BenchOptions) -> None:
        self._spark = spark
        self._cluster = cluster
        self._servers = ",".join(cluster.servers)
        self._options = options
        self._rows = int(options.log_gb * 1e9) // RECORD_BYTES

    def figures(self, client: Client) -> list[Figure | Absence]:
        name = f"a read of {self._options.log_gb:g} GB"
        free_gb = shutil.disk_usage(self._options.folder).free / 1e9
        if free_gb < _ROOM * self._options.log_gb:
            needed = f"needs {_ROOM * self._options.log_gb:.0f} GB, {free_gb:.0f} GB are free"
            return [Absence(AREA, name, needed)]
        self._fill(client)
        before_ms = _latency_ms(client, lambda: time.sleep(2.0))
        grown: list[tuple[float, float]] = []
        waited: list[tuple[float, float]] = []
        for _ in range(self._options.pick(quick=1, full=3)):
            beside_premade_ms = _latency_ms(client, self._read_premade)
            with _Memory(self._cluster) as memory:
                beside_ours_ms = _latency_ms(client, self._read)
            grown.append((memory.growth_mib, GROWTH_MIB))
            waited.append((beside_ours_ms, beside_premade_ms))
        alone = f"p99 of a produce with nothing beside it: {before_ms:.1f} ms"
        return [
            relate(AREA, f"{name}, growth of the broker that grew most", "MiB", pairs=grown, probe_name="goal",
                   goal=Goal(1.0, at_most=True)),
            relate(AREA, f"{name}, p99 of a produce beside it", "ms", pairs=waited,
                   probe_name="beside as much from memory", goal=Goal(2.0, at_most=True), note=alone),
        ]  # fmt: skip

    def _fill(self, client: Client) -> None:
        client.create_topic(TOPIC, partitions=PARTITIONS)
        client.create_topic("others", partitions=1)
        left = self._rows
        while left > 0:
            count = min(left, _CALL_RECORDS)
            for number in range(PARTITIONS):
                client.produce_many(TOPIC, [bytes(RECORD_BYTES)] * (count // PARTITIONS), partition=number)
            left -= count

    def _read(self) -> None:
        reader = self._spark.read.format("flotilla").option("servers", self._servers).option("subscribe", TOPIC)
        found = reader.load().selectExpr("count(value)").collect()[0][0]
        assert found == self._rows, (found, self._rows)

    def _read_premade(self) -> None:
        # Rows of a tenth of the size cost Spark about as much: it is paid by row.
        reader = self._spark.read.format("premade").option("rows", self._rows).option("tasks", PARTITIONS)
        reader.load().selectExpr("count(value)").collect()


def _latency_ms(client: Client, work: Callable[[], None]) -> float:
    """p99 of single produces by another client while the work runs."""
    durations: list[float] = []
    is_over = threading.Event()

    def produce() -> None:
        while not is_over.wait(_PAUSE_S):
            started = time.perf_counter()
            client.produce("others", bytes(100))
            durations.append(time.perf_counter() - started)

    other = threading.Thread(target=produce)
    other.start()
    try:
        work()
    finally:
        is_over.set()
        other.join()
    return 1e3 * cuts(durations)[1]


class _Memory:
    """Polls the brokers' resident memory and keeps each maximum."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._pids = [node.pid for node in cluster.nodes.values()]
        self._before = {pid: _resident_bytes(pid) for pid in self._pids}
        self._most = dict(self._before)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @property
    def growth_mib(self) -> float:
        return max(self._most[pid] - self._before[pid] for pid in self._pids) / MIB

    def __enter__(self) -> "_Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            for pid in self._pids:
                self._most[pid] = max(self._most[pid], _resident_bytes(pid))


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} is gone")
