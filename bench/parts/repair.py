"""Mending a replica's damaged log, against a copy of the same bytes over loopback.

Most of the segments of one replica of three are overwritten with zeros while it is down. It starts, finds the damage,
and has every entry again from the other two; it is done when it has applied all of its log. The copy is made by two
processes: one sends the intact files of another replica over a TCP connection, the other writes and syncs them.
"""

import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from time import perf_counter

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.parts.disk import settle
from bench.parts.node_cluster import NODES, BenchCluster
from flotilla.cli.bench.probes import scratch

AREA = "repair"
ENTRY_BYTES = 100_000
WINDOW = 64
#: Of each segment, in its middle: both ends stay.
DAMAGED_SHARE = 0.9
#: Each look costs the victim's loop some time.
_POLL_S = 0.02
_ZEROS = bytes(1 << 20)

_RECEIVER = """
import os, socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
buffer = memoryview(bytearray(1 << 20))
while size := connection.recv_into(buffer):
    os.write(file, buffer[:size])
os.fdatasync(file)
connection.sendall(b"!")
"""


def measure(options: BenchOptions) -> list[Figure]:
    size_mb = options.pick(quick=256, full=int(options.log_gb * 1000))
    rates: list[tuple[float, float]] = []
    costs: list[tuple[float, float]] = []
    with (
        scratch(options.folder, "repair") as folder,
        BenchCluster(folder, groups=1, keeps_log=True) as cluster,
    ):
        leader = cluster.wait_leader(1)
        count = size_mb * 1_000_000 // ENTRY_BYTES
        cluster.ask(leader, "load", group=1, batch_bytes=ENTRY_BYTES, count=count, window=WINDOW)
        for victim in [node for node in NODES if node != leader]:
            wait_equal(cluster, leader, victim)
            cluster.stop(victim)
            damage(cluster.data(victim))
            settle()
            copied, copying_s = copy_rate(cluster.data(leader), folder / "copy")
            settle()
            cluster.start(victim)
            started, started_s = perf_counter(), _cpu_s(cluster)
            wait_equal(cluster, leader, victim)
            elapsed_s = perf_counter() - started
            mended_bytes = cluster.ask(victim, "status")["repaired"] * ENTRY_BYTES
            rates.append((mended_bytes / elapsed_s, copied))
            costs.append(((_cpu_s(cluster) - started_s) / mended_bytes * 1e9, copying_s * 1e9))
    name = f"{size_mb} MB of log, nine tenths of it damaged, entries of {ENTRY_BYTES // 1000} KB"
    probe = "copy over loopback, synced"
    return [
        relate(AREA, name, "B/s", pairs=rates, probe_name=probe, goal=Goal(0.5)),
        # Does not depend on what else the machine does.
        relate(AREA, f"{name}, processor time of all nodes", "s/GB", pairs=costs, probe_name=probe, goal=Goal(None)),
    ]


def _cpu_s(cluster: BenchCluster) -> float:
    return sum(map(cluster.cpu_s, NODES))


def wait_equal(cluster: BenchCluster, leader: int, victim: int) -> None:
    """Until the victim lacks nothing that the leader has applied."""
    wanted = cluster.ask(leader, "status")["applied"]
    while (state := cluster.ask(victim, "status"))["applied"] != wanted or state["is_damaged"]:
        time.sleep(_POLL_S)


def segments(data: Path) -> list[Path]:
    return sorted(data.glob("groups/1/*.seg"))


def damage(data: Path) -> None:
    """Overwrites the middle of every segment."""
    for path in segments(data):
        size = path.stat().st_size
        first, end = int(size * (1 - DAMAGED_SHARE) / 2), int(size * (1 + DAMAGED_SHARE) / 2)
        with path.open("r+b") as file:
            file.seek(first)
            for at in range(first, end, len(_ZEROS)):
                file.write(_ZEROS[: end - at])
            os.fsync(file.fileno())


def copy_rate(data: Path, target: Path) -> tuple[float, float]:
    """Bytes a second, from the first one sent to the sync of the last one; and seconds of processor time per byte."""
    target.unlink(missing_ok=True)
    before_s = _used_s()
    receiver = subprocess.Popen([sys.executable, "-c", _RECEIVER, str(target)], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    sent_bytes = 0
    with socket.create_connection(("127.0.0.1", int(receiver.stdout.readline()))) as connection:
        started = perf_counter()
        for path in segments(data):
            with path.open("rb") as file:
                sent_bytes += connection.sendfile(file)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        elapsed_s = perf_counter() - started
    receiver.communicate()
    target.unlink()
    return sent_bytes / elapsed_s, (_used_s() - before_s) / sent_bytes


def _used_s() -> float:
    """Processor time of this process and of those that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
