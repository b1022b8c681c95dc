"""A cluster with a large log: the time until it is ready again, and the log's cost for the next record."""

import shutil

from bench.figure import Absence, Figure, Goal, relate
from bench.options import BenchOptions
from bench.scale.cluster import AREA, ScaleCluster, beside, started
from flotilla.cli.bench.probes import scratch

START_GB = 1.0
_RECORD_BYTES = 10_000
_CALL_BYTES = 50_000_000
#: Three replicas, and the journals beside them.
_ROOM = 3.3
#: Which node is started alone, and how often.
RESTARTED = 2
RESTARTS = 3


def measure(options: BenchOptions) -> list[Figure | Absence]:
    free_gb = shutil.disk_usage(options.folder).free / 1e9
    if free_gb < _ROOM * options.log_gb:
        reason = f"needs {_ROOM * options.log_gb:.0f} GB, {free_gb:.0f} GB are free"
        return [Absence(AREA, f"a log of {options.log_gb:g} GB", reason)]
    with (
        scratch(options.folder, "log") as folder,
        started(folder / "small") as small,
        started(folder / "large") as large,
    ):
        for cluster in (small, large):
            cluster.create("active", 1)
            cluster.create("log", 1)
        first_gb = min(START_GB, options.log_gb)
        fill(large, first_gb)
        figures = _starts(large, small, first_gb)
        fill(large, options.log_gb - first_gb)
        large.wait_at_rest()
        figures += beside(
            large,
            small,
            f"log of {options.log_gb:g} GB",
            "empty log",
            rounds=options.rounds,
            count=options.pick(quick=10_000, full=500_000),
            goal=Goal(0.9),
        )
    return [*figures]


def fill(cluster: ScaleCluster, size_gb: float) -> None:
    left_bytes = int(size_gb * 1e9)
    while left_bytes > 0:
        count = min(left_bytes, _CALL_BYTES) // _RECORD_BYTES + 1
        cluster.client.produce_many("log", [bytes(_RECORD_BYTES)] * count)
        left_bytes -= count * _RECORD_BYTES


def _starts(large: ScaleCluster, small: ScaleCluster, size_gb: float) -> list[Figure]:
    figures = []
    for is_killed, how in ((False, "a stop in order"), (True, "kill -9")):
        empty_s = small.restart(is_killed=is_killed)
        ready_s = large.restart(is_killed=is_killed)
        name = f"start of all nodes to the first ack, log of {size_gb:g} GB, after {how}"
        figures.append(relate(AREA, name, "s", pairs=[(ready_s, empty_s)], probe_name="empty log", goal=Goal(None)))
        alone_s = [large.restart_one(RESTARTED, is_killed=is_killed) for _ in range(RESTARTS)]
        name = f"start of one node to ready, log of {size_gb:g} GB, after {how}"
        pairs = [(each, 1.0) for each in alone_s]
        figures.append(relate(AREA, name, "s", pairs=pairs, probe_name="one second", goal=Goal(1.5, at_most=True)))
    return figures
