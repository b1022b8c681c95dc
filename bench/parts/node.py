"""One node of a benchmark, as a process of its own. Lines of JSON in, one line of JSON out for each.

The load runs inside the leader's process, so these figures do not include the cost of a client's
socket (receiving each batch once more). They include everything else:
three processes, real links, every entry synced by a majority before it
counts. A request with "profile" names a file for the profile of the leader's loop.
"""

import asyncio
import cProfile
import json
import os
import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import uvloop

from flotilla.node import Node, NodeParts
from flotilla.raft.messages import Configuration, Entry
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import ReplicaOptions
from flotilla.runtime.driver import DriverOptions
from flotilla.runtime.process import tune_process
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError
from flotilla.types.snapshot_data import SnapshotData, whole

CLUSTER = b"flotilla's bench"
#: No snapshot is ever due.
_KEEPING = ReplicaOptions(snapshot_entries=0, snapshot_bytes=0, keeps_log=True)


class Sink:
    """A state machine that only counts."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, entry: Entry) -> object:
        self.count += 1
        return None

    def read(self, query: object) -> object:
        return self.count

    def freeze(self) -> Callable[[], Iterable[bytes]]:
        data = self.count.to_bytes(8, "big")
        return lambda: (data,)

    def decode(self, data: SnapshotData) -> int:
        return int.from_bytes(whole(data), "big")

    def restore(self, data: SnapshotData, decoded: int | None = None) -> None:
        self.count = self.decode(data)


class Load:
    """Proposes batches to one group, a fixed number of them in flight, and times each."""

    def __init__(self, node: Node, group: int, *, batch_bytes: int, count: int, window: int) -> None:
        self._node = node
        self._group = group
        self._data = os.urandom(batch_bytes)
        self._left = count
        self._window = window
        self._in_flight = 0
        self.durations: list[float] = []
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> float:
        """Seconds from the first proposal to the last answer."""
        started = perf_counter()
        for _ in range(min(self._window, self._left)):
            self._propose()
        await self._finished
        return perf_counter() - started

    def _propose(self) -> None:
        self._left -= 1
        self._in_flight += 1
        started = perf_counter()
        self._node.runtime.propose(self._group, self._data, lambda result: self._answered(started, result))

    def _answered(self, started: float, result: object) -> None:
        self.durations.append(perf_counter() - started)
        self._in_flight -= 1
        if isinstance(result, FlotillaError):
            if not self._finished.done():
                self._finished.set_exception(result)
        elif self._left:
            self._propose()
        elif not self._in_flight:
            self._finished.set_result(None)


async def load(node: Node, request: dict[str, Any]) -> dict[str, Any]:
    profile = cProfile.Profile()
    if request.get("profile"):
        profile.enable()
    work = Load(
        node,
        request["group"],
        batch_bytes=request["batch_bytes"],
        count=request["count"],
        window=request["window"],
    )
    busy = _busy_s()
    elapsed = await work.run()
    if request.get("profile"):
        profile.disable()
        profile.dump_stats(request["profile"])
    durations = sorted(work.durations)
    return {
        "elapsed_s": elapsed,
        "busy_s": _busy_s() - busy,
        "p50_s": durations[len(durations) // 2],
        "p99_s": durations[len(durations) * 99 // 100],
        **status(node),
    }


def status(node: Node) -> dict[str, Any]:
    replicas = node.runtime.driver.replicas.values()
    journal = node.runtime.journal.durations
    return {
        "leading": [replica.group for replica in replicas if replica.raft.role == LEADER],
        "led": sum(replica.raft.leader != 0 for replica in replicas),
        "awake": sum(not replica.raft.quiescent for replica in replicas),
        "turns": node.runtime.turns,
        "syncs": journal.count,
        "sync_us": journal.sum_us,
        "busy_s": _busy_s(),
        "applied": [replica.applied for replica in replicas],
        "is_damaged": any(
            replica.raft.damaged or replica.raft.log.stored.unsaved_repair_bytes() for replica in replicas
        ),
        "repaired": sum(node.runtime.driver.repaired.values()),
    }


def _busy_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def main(arguments: dict[str, Any]) -> None:
    ports = {int(peer): port for peer, port in arguments["ports"].items()}
    node_id = arguments["node"]
    settings = NodeParts(
        node=node_id,
        cluster=CLUSTER,
        data=Path(arguments["data"]),
        listen=Address("127.0.0.1", ports[node_id]),
        peers={peer: Address("127.0.0.1", port) for peer, port in ports.items() if peer != node_id},
        driver=DriverOptions(_KEEPING if arguments["keeps_log"] else ReplicaOptions()),
    )
    node = Node(settings, lambda group: Sink(), lambda entry: None)
    for group in range(1, arguments["groups"] + 1):
        node.create_group(group, Configuration(voters=tuple(sorted(ports))))
    await node.start()
    tune_process()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        request = json.loads(line)
        answer = await load(node, request) if request["do"] == "load" else status(node)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    await node.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(json.loads(sys.argv[1])))
