"""A cluster of real brokers for the measurements of scale."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from bench.figure import Figure, Goal, relate
from bench.peers.processes import busy_s, resident_bytes
from flotilla.cli.bench import workloads
from flotilla.cli.local_cluster import HOST, LocalCluster, LocalNode
from flotilla.client.client import Client
from flotilla.types.ids import NO_NODE

AREA = "scale"
#: Share of one processor below which a node counts as idle.
_REST = 0.1
_REST_S_MAX = 60.0
_LEADERS_S_MAX = 120.0
_READY_S_MAX = 300.0
_READY_POLL_S = 0.005
#: Records of a round whose latency is taken.
ONE_BY_ONE = 500


@dataclass(slots=True)
class ScaleCluster:
    cluster: LocalCluster
    client: Client

    def create(self, topic: str, partitions: int) -> None:
        """The topic, when every partition of it has a leader."""
        self.client.create_topic(topic, partitions=partitions)
        deadline = time.monotonic() + _LEADERS_S_MAX
        while not self._is_led(topic):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has partitions without a leader")
            time.sleep(0.1)

    def _is_led(self, topic: str) -> bool:
        """As the asked broker knows them; a broker that does not know the topic yet returns none."""
        topics = self.client.admin.metadata([topic]).topics
        return bool(topics) and all(each.leader != NO_NODE for each in topics[0].partitions)

    def wait_at_rest(self) -> None:
        """Waits until the work after a change (elections, flushes) is done, but not for a busy machine."""
        deadline = time.monotonic() + _REST_S_MAX
        while max(self.busy_shares(1.0)) > _REST and time.monotonic() < deadline:
            continue

    def busy_shares(self, seconds: float) -> list[float]:
        """The share of one processor that each node uses."""
        before = [busy_s(node.pid) for node in self.cluster.running]
        started = time.monotonic()
        time.sleep(seconds)
        elapsed_s = time.monotonic() - started
        return [(busy_s(node.pid) - used) / elapsed_s for node, used in zip(self.cluster.running, before, strict=True)]

    def resident_mb(self) -> list[float]:
        return [resident_bytes(node.pid) / 1e6 for node in self.cluster.running]

    def restart(self, *, is_killed: bool) -> float:
        """Seconds from the start of all nodes to the first acknowledgement."""
        if is_killed:
            self.cluster.kill()
        else:
            self.cluster.stop()
        started = time.monotonic()
        self.cluster.start()
        self.cluster.wait_ready(_READY_S_MAX)
        self.client.produce("first", b"again")
        return time.monotonic() - started

    def restart_one(self, node: int, *, is_killed: bool) -> float:
        """Seconds from the start of one node until it is ready, while the others run."""
        subject = self.cluster.nodes[node]
        if is_killed:
            subject.kill()
        else:
            subject.terminate()
        subject.wait_gone()
        started = time.monotonic()
        self.cluster.start_node(node)
        while not _is_ready(subject):
            if time.monotonic() - started > _READY_S_MAX:
                raise TimeoutError(f"node {node} does not get ready")
            time.sleep(_READY_POLL_S)
        return time.monotonic() - started


def _is_ready(node: LocalNode) -> bool:
    try:
        with urlopen(f"http://{HOST}:{node.ports.http}/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def started(folder: Path, nodes: int = 3) -> Iterator[ScaleCluster]:
    folder.mkdir()
    with LocalCluster.on_free_ports(folder, node_count=nodes) as cluster:
        cluster.start()
        cluster.wait_ready()
        with Client(cluster.servers, timeout_ms=60_000) as client:
            client.produce("first", b"one")
            yield ScaleCluster(cluster, client)


def interpreter_mb() -> float:
    """The memory of a Python process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        # Long enough for it to wait for its input.
        time.sleep(0.5)
        return resident_bytes(process.pid) / 1e6


def beside(
    large: ScaleCluster, small: ScaleCluster, name: str, probe_name: str, *, rounds: int, count: int, goal: Goal
) -> list[Figure]:
    """Produce to `active` of both in turn: the rate with many in flight, and the latency with one."""
    rates, latencies = [], []
    payload = bytes(100)
    for each in (small, large):
        workloads.produce_pipelined(each.client, "active", payload, count // 10)
    for _ in range(rounds):
        small_rate = workloads.produce_pipelined(small.client, "active", payload, count)
        rates.append((workloads.produce_pipelined(large.client, "active", payload, count), small_rate))
        small_p50 = median(workloads.produce_one_by_one(small.client, "active", payload, ONE_BY_ONE))
        large_p50 = median(workloads.produce_one_by_one(large.client, "active", payload, ONE_BY_ONE))
        latencies.append((1e3 * large_p50, 1e3 * small_p50))
    return [
        relate(AREA, f"pipelined 100 B, {name}", "msg/s", pairs=rates, probe_name=probe_name, goal=goal),
        relate(
            AREA,
            f"one in flight 100 B, {name}, p50",
            "ms",
            pairs=latencies,
            probe_name=probe_name,
            goal=Goal(1.25, at_most=True),
        ),
    ]
