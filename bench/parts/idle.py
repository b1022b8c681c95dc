"""The cost of a thousand idle groups."""

import time

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.parts.node_cluster import NODES, BenchCluster
from flotilla.cli.bench.probes import scratch

GROUPS = 1000
#: Of one processor.
GOAL = 0.02


def measure(options: BenchOptions) -> list[Figure]:
    seconds = options.pick(quick=3, full=10)
    with scratch(options.folder, "idle") as folder, BenchCluster(folder, groups=GROUPS) as cluster:
        deadline = time.monotonic() + 120
        while any(is_busy(cluster, node) for node in NODES):
            if time.monotonic() > deadline:
                raise RuntimeError("the groups do not fall asleep")
            time.sleep(0.5)
        before = {node: cluster.cpu_s(node) for node in NODES}
        started = time.monotonic()
        time.sleep(seconds)
        elapsed = time.monotonic() - started
        used = [(cluster.cpu_s(node) - before[node]) / elapsed for node in NODES]
    return [
        relate(
            "idle",
            f"{GROUPS:,} idle groups on three nodes, a node's share",
            "of a core",
            pairs=[(share, 1.0) for share in used],
            probe_name="one core",
            goal=Goal(GOAL, at_most=True),
        )
    ]


def is_busy(cluster: BenchCluster, node: int) -> bool:
    status = cluster.ask(node, "status")
    return bool(status["awake"] or status["led"] < GROUPS)
