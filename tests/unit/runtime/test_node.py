"""A node at work, on a real disk: turns, replies, failing disks, wrong programs, and the end."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop

from flotilla.raft.messages import Configuration, Entry, Message
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import ReplicaOptions
from flotilla.runtime.driver import DriverOptions
from flotilla.runtime.node import NodeRuntime
from flotilla.runtime.ports import LinkEvents
from flotilla.sim.ledger import Ledger, command
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Buffer, File
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore
from flotilla.types.errors import DiskFullError, FlotillaError, StorageFailedError, UnavailableError

GROUP = 1
TICK_MS = 5


class Wire:
    """Links between nodes of one loop; whoever is closed hears and says nothing."""

    def __init__(self) -> None:
        self.ends: dict[int, WireEnd] = {}


class WireEnd:
    def __init__(self, wire: Wire, node: int) -> None:
        self._wire = wire
        self._node = node
        self._queued: list[tuple[int, list[tuple[int, Message]]]] = []
        self.events: LinkEvents | None = None
        self.is_closed = False
        self.flushes = 0
        wire.ends[node] = self

    async def start(self, events: LinkEvents) -> None:
        self.events = events

    def close(self) -> None:
        self.is_closed = True
        self.events = None

    def send(self, to: int, messages: list[tuple[int, Message]]) -> None:
        self._queued.append((to, messages))

    def flush(self) -> None:
        self.flushes += 1
        queued, self._queued = self._queued, []
        for to, messages in queued:
            asyncio.get_running_loop().call_soon(self._deliver, to, messages)

    def _deliver(self, to: int, messages: list[tuple[int, Message]]) -> None:
        events = self._wire.ends[to].events
        if events is not None:
            events.receive(messages)


class MoodyFile:
    """A real file whose writes and syncs fail while its disk is in the mood."""

    def __init__(self, file: File, disk: "MoodyDisk") -> None:
        self._file = file
        self._disk = disk

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if self._disk.write_error is not None:
            raise self._disk.write_error
        self._file.write(offset, buffers)

    def sync(self) -> None:
        if self._disk.sync_error is not None:
            raise self._disk.sync_error
        self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class MoodyDisk(PosixDisk):
    write_error: Exception | None = None
    sync_error: Exception | None = None

    def open(self, path: str, *, create: bool = False) -> File:
        return MoodyFile(super().open(path, create=create), self)  # type: ignore[return-value]


class Cluster:
    """Nodes in one loop, each with its own folder; the first tick may elect."""

    def __init__(self, folder: Path, nodes: tuple[int, ...]) -> None:
        self.wire = Wire()
        self.disks: dict[int, MoodyDisk] = {}
        self.stores: dict[int, NodeStore] = {}
        self.nodes: dict[int, NodeRuntime] = {}
        for node in nodes:
            data = folder / str(node)
            data.mkdir()
            disk = self.disks[node] = MoodyDisk(str(data))
            store = self.stores[node] = NodeStore.open(disk, StoreOptions(journal_bytes=1 << 20), lambda entry: None)
            store.create_group(GROUP, Configuration(voters=nodes))
            runtime = self.nodes[node] = NodeRuntime(
                node=node,
                store=store,
                links=WireEnd(self.wire, node),
                chance=Random(node),
                options=DriverOptions(ReplicaOptions(), retry_ticks=2),
                tick_ms=TICK_MS,
            )
            runtime.driver.add_replica(GROUP, Ledger())

    async def start(self) -> None:
        for node in self.nodes.values():
            await node.start()

    async def wait_leader(self, excluded: int = 0) -> NodeRuntime:
        while True:
            for number, node in self.nodes.items():
                if number != excluded and node.driver.replicas[GROUP].raft.role == LEADER:
                    return node
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.stop()
        for number, store in self.stores.items():
            store.close()
            self.disks[number].close()


def run(folder: Path, nodes: tuple[int, ...], test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        cluster = Cluster(folder, nodes)
        try:
            async with asyncio.timeout(10):
                await cluster.start()
                await test(cluster)
        finally:
            await cluster.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


async def propose(node: NodeRuntime, identity: int) -> object:
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    node.propose(GROUP, command(identity), answer.set_result)
    return await answer


def test_all_inputs_of_a_round_share_a_turn_and_a_sync(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        turns, syncs = node.turns, node.journal.durations.count
        assert await asyncio.gather(*(propose(node, 2 + number) for number in range(100))) == list(range(1, 101))
        assert node.journal.durations.count == syncs + 1
        # One for the proposals, one for the sync; the clock may add a few.
        assert node.turns - turns < 6

    run(tmp_path, (1,), scenario)


def test_a_reply_may_propose_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        positions: list[object] = []
        finished = asyncio.Event()

        def answered(position: object) -> None:
            positions.append(position)
            if len(positions) < 10:
                node.propose(GROUP, command(len(positions)), answered)
            else:
                finished.set()

        node.propose(GROUP, command(0), answered)
        await finished.wait()
        assert positions == list(range(10))

    run(tmp_path, (1,), scenario)


def test_three_nodes_replicate_read_and_hand_over(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        for identity in range(20):
            assert await propose(first, identity) == identity
        follower = next(node for node in cluster.nodes.values() if node is not first)
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        follower.read(GROUP, None, answer.set_result)
        length, _ = await answer  # type: ignore[misc]
        assert length == 20
        term = first.driver.replicas[GROUP].raft.term
        await first.stop()
        # By the time it has stopped another leads already.
        roles = [node.driver.replicas[GROUP].raft.role for node in cluster.nodes.values() if node is not first]
        assert roles.count(LEADER) == 1
        second = await cluster.wait_leader(excluded=first.node)
        assert second.driver.replicas[GROUP].raft.term == term + 1
        assert await propose(second, 20) == 20
        assert isinstance(await propose(first, 21), UnavailableError)

    run(tmp_path, (1, 2, 3), scenario)


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (DiskFullError("no room"), "write_error"),
        (StorageFailedError("refused"), "write_error"),
        (StorageFailedError("refused"), "sync_error"),
    ],
)
def test_a_failing_disk_is_reported_and_work_goes_on_when_it_works_again(
    tmp_path: Path, error: FlotillaError, where: str
) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        setattr(cluster.disks[1], where, error)
        assert isinstance(await propose(node, 2), FlotillaError)
        assert node.driver.storage_error is error
        setattr(cluster.disks[1], where, None)
        while isinstance(await propose(node, 3), FlotillaError):
            await asyncio.sleep(0.005)
        assert node.driver.storage_error is None
        ledger = node.driver.replicas[GROUP].machine
        assert isinstance(ledger, Ledger)
        assert ledger.commands[0] == 1
        assert 3 in ledger.commands

    run(tmp_path, (1,), scenario)


class WrongLedger(Ledger):
    def apply(self, entry: Entry) -> object:
        raise ZeroDivisionError("a wrong program")


def test_a_wrong_program_stops_the_node_where_it_stands(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        node.driver.replicas[GROUP].machine = WrongLedger()
        answers: list[object] = []
        node.propose(GROUP, command(1), answers.append)
        with pytest.raises(ZeroDivisionError):
            await node.wait_stopped()
        assert cluster.wire.ends[1].is_closed
        assert answers == []
        assert isinstance(await propose(node, 2), UnavailableError)

    run(tmp_path, (1,), scenario)


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await asyncio.gather(*(propose(node, identity) for identity in range(50)))

    run(tmp_path, (1,), scenario)
    disk = PosixDisk(str(tmp_path / "1"))
    store = NodeStore.open(disk, StoreOptions(), lambda entry: None)
    entries = store.groups[GROUP].entries(1, store.groups[GROUP].last_index() + 1, 1 << 20)
    identities = [int.from_bytes(entry.data[:8], "little") for entry in entries if len(entry.data) == 8]
    assert identities == list(range(50))
    store.close()
    disk.close()
