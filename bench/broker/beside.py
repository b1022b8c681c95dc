"""Rounds of a workload, each beside probes of disk and loopback at the same time."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.parts.disk import settle
from flotilla.cli.bench.probes import copy_rate, disk_durations, echo_durations
from flotilla.cli.bench.workloads import cuts

AREA = "broker"
SYNC = "pwrite + fdatasync"
ECHO = "loopback echo"
COPY = "loopback copy"
PAYLOADS_BYTES = (100, 1_024)
#: The size of a producer's batches.
_CHUNK_BYTES = 256 * 1024
_PROBE_BYTES = 20_000_000
_PROBE_COUNT = 200


class Cuts(NamedTuple):
    p50: float
    p99: float


class Round(NamedTuple):
    """One latency in seconds, and the probe just before it."""

    subject: Cuts
    disk: Cuts
    loopback: Cuts


def latency_figures(
    name: str, options: BenchOptions, payload_bytes: int, work: Callable[[], list[float]]
) -> list[Figure]:
    """p50 and p99 of what `work` finds, in milliseconds."""
    rounds = []
    for _ in range(options.rounds):
        settle()
        disk = Cuts(*cuts(disk_durations(options.folder, payload_bytes, _PROBE_COUNT)))
        loopback = Cuts(*cuts(echo_durations(payload_bytes, _PROBE_COUNT)))
        rounds.append(Round(Cuts(*cuts(work())), disk, loopback))
    return [
        figure(f"{name}, p50", "ms", [(1e3 * each.subject.p50, 1e3 * each.disk.p50) for each in rounds], SYNC),
        figure(f"{name}, p50", "ms", [(1e3 * each.subject.p50, 1e3 * each.loopback.p50) for each in rounds], ECHO),
        figure(f"{name}, p99", "ms", [(1e3 * each.subject.p99, 1e3 * each.disk.p99) for each in rounds], SYNC),
    ]


def rate_figures(
    name: str,
    options: BenchOptions,
    payload_bytes: int,
    work: Callable[[], float],
    *,
    copy_goal: Goal | None = None,
) -> list[Figure]:
    """Messages a second, beside as many payloads in synced chunks and over one connection."""
    disk, loopback = [], []
    for _ in range(options.rounds):
        settle()
        synced = synced_rate(options.folder) / payload_bytes
        copied = copy_rate(_PROBE_BYTES) / payload_bytes
        rate = work()
        disk.append((rate, synced))
        loopback.append((rate, copied))
    return [
        figure(name, "msg/s", disk, f"{SYNC} of 256 KB"),
        figure(name, "msg/s", loopback, COPY, copy_goal or Goal(None)),
    ]


def synced_rate(folder: Path) -> float:
    count = _PROBE_BYTES // _CHUNK_BYTES
    return count * _CHUNK_BYTES / sum(disk_durations(folder, _CHUNK_BYTES, count))


def figure(
    name: str, unit: str, pairs: list[tuple[float, float]], probe_name: str, goal: Goal | None = None, note: str = ""
) -> Figure:
    return relate(AREA, name, unit, pairs=pairs, probe_name=probe_name, goal=goal or Goal(None), note=note)


def size(payload_bytes: int) -> str:
    return f"{payload_bytes} B" if payload_bytes < 1_024 else f"{payload_bytes // 1_024} KB"
