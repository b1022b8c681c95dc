"""Three replicas over loopback, every entry synced by a majority, against the disk alone.

All three nodes share this machine's processors and one disk: every byte is written three times to
it, and once more when segments are flushed; it crosses the loopback twice. On three machines the
leader would have both for itself. So each figure stands beside two probes: one writer that has the
disk alone, and one of three writers that share it as the three nodes do.
"""

from pathlib import Path
from statistics import median

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.parts.disk import append_rate, settle, shared_durations, sync_p50
from bench.parts.node_cluster import NODES, BenchCluster
from flotilla.cli.bench.probes import scratch

AREA = "replication"
BATCH_BYTES = 100_000
WINDOW = 64
#: Enough to reuse journal files, as in a node that has run for a while.
WARM_UP_COUNT = 1_500
BURST_COUNT = 30
#: Of each probe.
PROBE_BYTES = 30_000_000
NOTE = "three nodes and the load on one machine and one disk; the load runs in the leader's process"
SHARED = "the same, each of three at once"


def measure(options: BenchOptions) -> list[Figure]:
    count = options.pick(quick=500, full=2000)
    bursts = options.pick(quick=10, full=30)
    rates: list[tuple[float, float, float]] = []
    latencies: list[tuple[float, float, float]] = []
    with scratch(options.folder, "cluster") as folder, BenchCluster(folder, groups=1) as cluster:
        leader = cluster.wait_leader(1)
        cluster.ask(leader, "load", group=1, batch_bytes=BATCH_BYTES, count=WARM_UP_COUNT, window=WINDOW)
        for _ in range(options.rounds):
            settle()
            alone, shared = probe_rates(options.folder)
            answer = cluster.ask(leader, "load", group=1, batch_bytes=BATCH_BYTES, count=count, window=WINDOW)
            rates.append((count * BATCH_BYTES / answer["elapsed_s"], alone, shared))
            settle()
            latencies.append(measure_latency(options.folder, cluster, leader, bursts))
    many, one = f"100 KB batches, {WINDOW} in flight", "100 KB batches, one in flight, p50"
    return [
        figure(many, "B/s", [(rate, alone) for rate, alone, _ in rates], "pwrite + fdatasync", Goal(0.5)),
        figure(many, "B/s", [(rate, shared) for rate, _, shared in rates], SHARED, Goal(None)),
        figure(one, "us", [(p50, alone) for p50, alone, _ in latencies], "pwrite + fdatasync", Goal(3.0, at_most=True)),
        figure(one, "us", [(p50, shared) for p50, _, shared in latencies], SHARED, Goal(None)),
    ]


def figure(name: str, unit: str, pairs: list[tuple[float, float]], probe_name: str, goal: Goal) -> Figure:
    return relate(AREA, name, unit, pairs=pairs, probe_name=probe_name, goal=goal, note=NOTE)


def probe_rates(folder: Path) -> tuple[float, float]:
    """Bytes a second of one writer alone, and of each of three at once, with the chunk the disk likes better."""
    alone, shared = [], []
    for size in (BATCH_BYTES, 10 * BATCH_BYTES):
        count = PROBE_BYTES // size
        alone.append(append_rate(folder, size, count))
        shared.append(PROBE_BYTES / max(map(sum, shared_durations(folder, size, count, len(NODES)))))
    return max(alone), max(shared)


def measure_latency(folder: Path, cluster: BenchCluster, leader: int, bursts: int) -> tuple[float, float, float]:
    """Median microseconds of one batch: replicated, by one writer alone, by each of three at once.

    In short bursts in turn, because whatever else this machine does meanwhile must hit all alike.
    """
    found: list[tuple[float, float, float]] = []
    for _ in range(bursts):
        alone = sync_p50(folder, BATCH_BYTES, BURST_COUNT)
        durations = shared_durations(folder, BATCH_BYTES, BURST_COUNT, len(NODES))
        shared = median(duration for each in durations for duration in each)
        answer = cluster.ask(leader, "load", group=1, batch_bytes=BATCH_BYTES, count=BURST_COUNT, window=1)
        found.append((answer["p50_s"] * 1e6, alone * 1e6, shared * 1e6))
    replicated, alone, shared = (median(column) for column in zip(*found, strict=True))
    return replicated, alone, shared
