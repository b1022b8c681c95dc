"""A node's runtime on a real disk: turns, replies, failing disks, bugs, and stopping."""

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop

from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Configuration, Entry, Message
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import LinkEvents
from flotilla.replica.replica import ReplicaOptions
from flotilla.runtime import node as node_module
from flotilla.runtime.driver import DriverOptions
from flotilla.runtime.node import NodeRuntime
from flotilla.runtime.pause_detector import PauseDetector
from flotilla.sim.ledger.machine import Ledger, command
from flotilla.storage.journal_scan import JournalScan, list_journal
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Buffer, File
from flotilla.storage.posix import PosixDisk
from flotilla.storage.snapshots import SnapshotJob
from flotilla.storage.store import NodeStore
from flotilla.storage.store_format import read_salt
from flotilla.types.errors import (
    DiskFullError,
    FlotillaError,
    OutcomeUnknownError,
    StorageFailedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE
from flotilla.types.timing import Timing

GROUP = 1
OTHER = 2
TICK_MS = 5
#: No tick ever comes: what happens follows from messages alone, however slow the machine.
NEVER_MS = 1_000_000


class FixedWrites:
    """Every block is written on the loop, or none is."""

    def __init__(self, is_taken: bool) -> None:
        self._is_taken = is_taken

    def allows(self, size_bytes: int, now_us: int) -> bool:
        return self._is_taken

    def note(self, started_us: int, ended_us: int) -> None:
        assert started_us <= ended_us


@pytest.fixture(autouse=True, params=["on the thread", "on the loop"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where blocks are written; everything else is the same."""
    where: str = request.param
    monkeypatch.setattr(node_module, "InlineWrites", lambda: FixedWrites(where == "on the loop"))
    return where


class Wire:
    """Links between nodes of one loop; a closed node receives and sends nothing."""

    def __init__(self) -> None:
        self.ends: dict[int, WireEnd] = {}
        #: Nodes that nothing comes through to or from, also of what is under way.
        self.cut: list[int] = []


class WireEnd:
    def __init__(self, wire: Wire, node: int) -> None:
        self._wire = wire
        self._node = node
        self.events: LinkEvents | None = None
        self.is_closed = False
        wire.ends[node] = self

    async def start(self, events: LinkEvents) -> None:
        self.events = events

    def close(self) -> None:
        self.is_closed = True
        self.events = None

    def send(self, to: int, messages: list[tuple[int, Message]]) -> None:
        asyncio.get_running_loop().call_soon(self._deliver, to, messages)

    def tell_room(self, room: int) -> None:
        for node, end in self._wire.ends.items():
            if node != self._node and end.events is not None:
                asyncio.get_running_loop().call_soon(end.events.peer_room, self._node, room)

    def _deliver(self, to: int, messages: list[tuple[int, Message]]) -> None:
        events = self._wire.ends[to].events
        if events is not None and not {to, self._node} & set(self._wire.cut):
            events.receive(messages)


class MoodyFile:
    """A real file whose writes and syncs fail on request."""

    def __init__(self, file: File, disk: "MoodyDisk") -> None:
        self._file = file
        self._disk = disk

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if self._disk.write_error is not None:
            raise self._disk.write_error
        self._file.write(offset, buffers)

    def write_synced(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self.write(offset, buffers)
        self.sync()

    def sync(self) -> None:
        self._disk.syncing_threads.add(threading.get_ident())
        if self._disk.sync_error is not None:
            raise self._disk.sync_error
        self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class MoodyDisk(PosixDisk):
    write_error: Exception | None = None
    sync_error: Exception | None = None

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.syncing_threads: set[int] = set()

    def open(self, path: str, *, create: bool = False) -> File:
        return MoodyFile(super().open(path, create=create), self)  # type: ignore[return-value]


class Cluster:
    """Nodes in one loop, each with its own folder; node 1 stands for election at once."""

    def __init__(self, folder: Path, nodes: tuple[int, ...], tick_ms: int) -> None:
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
                timing=Timing(10 * tick_ms, 3 * tick_ms, tick_ms),
            )
            runtime.driver.add_replica(GROUP, Ledger())

    async def add_group(self, node: int, group: int) -> None:
        """A group that the node is alone in, and leads."""
        self.stores[node].create_group(group, Configuration(voters=(node,)))
        self.nodes[node].driver.add_replica(group, Ledger())
        self.nodes[node].campaign(group)
        while not self.nodes[node].driver.replicas[group].is_serving():
            await self.nodes[node].turned()

    async def start(self) -> None:
        for node in self.nodes.values():
            await node.start()
        self.nodes[min(self.nodes)].campaign(GROUP)

    async def wait_leader(self, excluded: int = 0) -> NodeRuntime:
        while True:
            for number, node in self.nodes.items():
                if number != excluded and node.driver.replicas[GROUP].is_serving():
                    return node
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.stop(hand_over_ms=0)
        for number, store in self.stores.items():
            store.close()
            self.disks[number].close()


def run(
    folder: Path,
    nodes: tuple[int, ...],
    test: Callable[[Cluster], Coroutine[Any, Any, None]],
    tick_ms: int = TICK_MS,
) -> None:
    async def bounded() -> None:
        cluster = Cluster(folder, nodes, tick_ms)
        try:
            async with asyncio.timeout(50):
                await cluster.start()
                await test(cluster)
        finally:
            await cluster.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


async def propose(node: NodeRuntime, identity: int, group: int = GROUP) -> object:
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    node.propose(group, command(identity), answer.set_result)
    return await answer


def test_all_inputs_of_a_round_share_a_turn_and_a_sync(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        turns, syncs = node.turns, node.journal.durations.count
        assert await asyncio.gather(*(propose(node, 2 + number) for number in range(100))) == list(range(1, 101))
        assert node.journal.durations.count == syncs + 1
        # One for the proposals, one for the sync, and one each for the spare file that may be made meanwhile.
        assert node.turns - turns < 6

    run(tmp_path, (1,), scenario, tick_ms=NEVER_MS)


def test_blocks_are_written_on_the_chosen_thread(tmp_path: Path, written: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        threads = cluster.disks[1].syncing_threads
        # A spare file is made in the background.
        await node.background.stop()
        threads.clear()
        await propose(node, 1)
        assert (threads == {threading.get_ident()}) is (written == "on the loop")
        assert len(threads) == 1
        assert node.journal.durations.count > 0

    run(tmp_path, (1,), scenario, tick_ms=NEVER_MS)


def unproven_count(folder: Path) -> int:
    """Blocks of a node's journal that nothing proves to have been durable."""
    disk = PosixDisk(str(folder))
    scan = JournalScan.of(disk, list_journal(disk), read_salt(disk))
    disk.close()
    return len([sequence for sequence in scan.images if sequence > scan.proven])


def test_an_idle_node_soon_marks_its_last_block(tmp_path: Path, written: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        copied = tmp_path / "copied"
        while True:
            # As after a kill: what the kernel has is there.
            shutil.copytree(tmp_path / "1", copied)
            if not unproven_count(copied):
                return
            shutil.rmtree(copied)
            await asyncio.sleep(0.02)

    run(tmp_path, (1,), scenario)


def test_a_node_that_stops_leaves_no_block_without_its_mark(tmp_path: Path, written: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await propose(await cluster.wait_leader(), 1)

    run(tmp_path, (1,), scenario, tick_ms=NEVER_MS)
    assert unproven_count(tmp_path / "1") == 0


def test_a_block_that_comes_while_the_journal_is_tidied_up_goes_to_the_thread(
    tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        await node.background.stop()
        threads = cluster.disks[1].syncing_threads
        threads.clear()
        may_mark = threading.Event()
        monkeypatch.setattr(node.journal, "_tidy", lambda: may_mark.wait(10))
        node.journal.tidy_up()
        proposed = asyncio.ensure_future(propose(node, 2))
        await node.turned()
        may_mark.set()
        assert await proposed == 1
        assert len(threads) == 1
        assert threading.get_ident() not in threads

    run(tmp_path, (1,), scenario, tick_ms=NEVER_MS)


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
        # However long that takes here: by the time it has stopped another leads already.
        await first.stop(hand_over_ms=60_000)
        roles = [node.driver.replicas[GROUP].raft.role for node in cluster.nodes.values() if node is not first]
        assert roles.count(LEADER) == 1
        second = await cluster.wait_leader(excluded=first.node)
        assert second.driver.replicas[GROUP].raft.term == term + 1
        assert await propose(second, 20) == 20
        assert isinstance(await propose(first, 21), UnavailableError)

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


def test_a_node_whose_heirs_do_not_answer_still_stops(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        cluster.wire.cut += [2, 3]
        await first.stop(hand_over_ms=20)
        assert first.driver.replicas[GROUP].raft.role == LEADER

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


def test_requests_that_a_stopping_node_cannot_finish_are_answered(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        cluster.wire.cut += [2, 3]
        proposed = asyncio.ensure_future(propose(first, 1))
        reading: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        first.read(GROUP, None, reading.set_result)
        await asyncio.sleep(0)
        await first.stop(hand_over_ms=20)
        assert isinstance(await proposed, OutcomeUnknownError), "others may have it"
        assert isinstance(await reading, UnavailableError)

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


def test_proposals_of_a_single_node_that_stops_are_finished(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        proposed = []
        for identity in range(5):
            # Each finds the disk at work with the one before it, or waiting.
            proposed.append(asyncio.ensure_future(propose(node, identity)))
            await asyncio.sleep(0)
        await node.stop()
        assert await asyncio.gather(*proposed) == list(range(5))

    run(tmp_path, (1,), scenario, tick_ms=NEVER_MS)


def test_requests_to_a_group_that_is_not_here_yet_are_refused_and_do_it_no_harm(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        answers: list[object] = []
        assert not node.propose(OTHER, command(1), answers.append)
        node.read(OTHER, None, answers.append)
        node.change_members(OTHER, ConfigurationChange(), answers.append)
        node.forward(OTHER, b"")
        node.campaign(OTHER)
        assert [type(answer) for answer in answers] == [UnavailableError] * 3
        assert not node.driver.failed
        await cluster.add_group(1, OTHER)
        assert not isinstance(await propose(node, 1, OTHER), FlotillaError)

    run(tmp_path, (1,), scenario)


def test_requests_to_a_group_that_is_dropped_are_answered(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        cluster.wire.cut += [2, 3]
        answers: list[object] = []
        first.propose(GROUP, command(1), answers.append)
        first.read(GROUP, None, answers.append)
        gone = UnavailableError("the group has left this node")
        first.drop(GROUP, gone)
        assert answers == [], "not before the caller is done"
        while len(answers) < 2:
            await asyncio.sleep(0)
        assert answers == [gone, gone]
        assert GROUP not in cluster.stores[1].groups

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


def test_a_leader_that_was_paused_is_confirmed_by_a_quorum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 1
    monkeypatch.setattr(node_module, "PauseDetector", lambda ms_max, _: PauseDetector(ms_max, lambda: now_ns))

    async def scenario(cluster: Cluster) -> None:
        nonlocal now_ns
        first = await cluster.wait_leader()
        assert first.is_confirmed(GROUP)
        now_ns += NEVER_MS * 1_000_000
        assert first.is_confirmed(GROUP), "a tick that is a little late is no pause"
        now_ns += 4 * NEVER_MS * 1_000_000
        cluster.wire.cut += [2, 3]
        for _ in range(100):
            assert not first.is_confirmed(GROUP)
            await asyncio.sleep(0)
        # The question was lost; the next heartbeat repeats it.
        cluster.wire.cut.clear()
        for _ in range(3):
            first.driver.tick()
        while not first.is_confirmed(GROUP):
            first._schedule_turn()
            await asyncio.sleep(0)
        assert first.driver.replicas[GROUP].raft.role == LEADER, "a pause alone costs no leadership"

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


def test_a_leader_whose_links_leave_no_quorum_is_not_believed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        first.peer_down(2)
        assert first.is_confirmed(GROUP), "two of three are a quorum"
        first.peer_down(3)
        cluster.wire.cut += [2, 3]
        for _ in range(100):
            assert not first.is_confirmed(GROUP)
            await asyncio.sleep(0)
        # The links are back, but another node may have been elected meanwhile: a quorum must say that it was not.
        first.peer_up(2)
        first.peer_up(3)
        assert not first.is_confirmed(GROUP)
        cluster.wire.cut.clear()
        for _ in range(3):
            first.driver.tick()
        while not first.is_confirmed(GROUP):
            first._schedule_turn()
            await asyncio.sleep(0)
        assert first.driver.replicas[GROUP].raft.role == LEADER

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


def test_a_leader_that_stepped_down_without_links_is_confirmed_in_its_next_term(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        for peer in (2, 3):
            first.peer_down(peer)
        cluster.wire.cut += [2, 3]
        assert not first.is_confirmed(GROUP)
        first._input(first.driver.replicas[GROUP].raft.step_down)
        for _ in range(20):
            await asyncio.sleep(0)
        cluster.wire.cut.clear()
        for peer in (2, 3):
            first.peer_up(peer)
            # They neither stick to the old leader nor stand themselves.
            cluster.nodes[peer].driver.replicas[GROUP].raft.leader = NO_NODE
        first.campaign(GROUP)
        assert await cluster.wait_leader() is first
        while not first.is_confirmed(GROUP):
            first.driver.tick()
            first._schedule_turn()
            await asyncio.sleep(0)

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


def test_a_leader_that_was_replaced_during_a_pause_is_never_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 1
    monkeypatch.setattr(node_module, "PauseDetector", lambda ms_max, _: PauseDetector(ms_max, lambda: now_ns))

    async def scenario(cluster: Cluster) -> None:
        nonlocal now_ns
        first = await cluster.wait_leader()
        # A node that lacks entries is not elected, and nothing here would retry.
        last = first.driver.replicas[GROUP].raft.log.last_index
        while any(node.driver.replicas[GROUP].raft.log.durable < last for node in cluster.nodes.values()):
            await asyncio.sleep(0)
        cluster.wire.cut.append(1)
        for node in (2, 3):
            cluster.nodes[node].peer_down(1)
        cluster.nodes[2].campaign(GROUP)
        assert await cluster.wait_leader(excluded=1) is cluster.nodes[2]
        now_ns += 5 * NEVER_MS * 1_000_000
        cluster.wire.cut.clear()
        while first.driver.replicas[GROUP].raft.role == LEADER:
            assert not first.is_confirmed(GROUP)
            await asyncio.sleep(0)

    run(tmp_path, (1, 2, 3), scenario, tick_ms=NEVER_MS)


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (DiskFullError("no room"), "write_error"),
        (StorageFailedError("refused"), "write_error"),
        (StorageFailedError("refused"), "sync_error"),
    ],
)
def test_a_failing_disk_is_reported_and_work_goes_on_when_it_works_again(
    tmp_path: Path, error: FlotillaError, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "flotilla.runtime")

    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        setattr(cluster.disks[1], where, error)
        assert isinstance(await propose(node, 2), FlotillaError)
        assert node.driver.storage_error is error
        # It is tried again and fails again, which is no news.
        while node.journal.failed_count < 3:
            await asyncio.sleep(0.005)
        setattr(cluster.disks[1], where, None)
        while isinstance(await propose(node, 3), FlotillaError):
            await asyncio.sleep(0.005)
        assert node.driver.storage_error is None
        ledger = node.driver.replicas[GROUP].machine
        assert isinstance(ledger, Ledger)
        assert ledger.commands[0] == 1
        assert 3 in ledger.commands

    run(tmp_path, (1,), scenario)
    events = [(record.levelname, record.message) for record in caplog.records]
    assert events == [("ERROR", "journal writes fail"), ("INFO", "journal writes work again")]
    assert caplog.records[0].fields == {"node": 1, "code": error.code, "error": str(error)}  # type: ignore[attr-defined]


def test_peers_up_down_and_refused_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flotilla.runtime")

    async def scenario(cluster: Cluster) -> None:
        events = cluster.wire.ends[1].events
        assert events is not None
        events.peer_up(2)
        events.peer_down(2)
        events.peer_refused(3, "10.0.0.3:50000", "the node belongs to another cluster")
        events.refused_by_peer(3, "10.0.0.3:7601", "the node is not a member")

    run(tmp_path, (1,), scenario)
    logged = [(record.levelname, record.message, record.fields) for record in caplog.records]  # type: ignore[attr-defined]
    assert logged == [
        ("INFO", "peer up", {"node": 1, "peer": 2}),
        ("INFO", "peer down", {"node": 1, "peer": 2}),
        (
            "WARNING",
            "refused a peer",
            {"node": 1, "peer": 3, "address": "10.0.0.3:50000", "reason": "the node belongs to another cluster"},
        ),
        (
            "WARNING",
            "refused by a peer",
            {"node": 1, "peer": 3, "address": "10.0.0.3:7601", "reason": "the node is not a member"},
        ),
    ]


class WrongLedger(Ledger):
    def apply(self, entry: Entry) -> object:
        raise ZeroDivisionError("a wrong program")


def test_a_bug_in_one_group_cuts_it_off_and_the_node_goes_on(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        failed: list[int] = []
        node.on_group_failed = failed.append
        await cluster.add_group(1, OTHER)
        node.driver.replicas[GROUP].machine = WrongLedger()
        assert isinstance(await propose(node, 1), OutcomeUnknownError)
        assert failed == [GROUP]
        # Requests are refused from now on, and nothing else happens to them.
        assert isinstance(await propose(node, 2), UnavailableError)
        answers: list[object] = []
        node.read(GROUP, "all", answers.append)
        node.change_members(GROUP, ConfigurationChange(), answers.append)
        assert [type(answer) for answer in answers] == [UnavailableError] * 2
        with pytest.raises(UnavailableError):
            node.transfer(GROUP, 2)
        node.forward(GROUP, b"")
        node.campaign(GROUP)
        node.snapshot(GROUP)
        assert not node.is_confirmed(GROUP)
        assert not isinstance(await propose(node, 3, OTHER), FlotillaError)
        assert not cluster.wire.ends[1].is_closed

    run(tmp_path, (1,), scenario)


@pytest.mark.parametrize("is_error_typed", [False, True])
def test_an_answer_that_raises_cuts_off_its_group(tmp_path: Path, *, is_error_typed: bool) -> None:
    def answer(_: object) -> None:
        raise UnavailableError("typed") if is_error_typed else ZeroDivisionError("a wrong program")

    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await cluster.add_group(1, OTHER)
        assert not isinstance(await propose(node, 1, OTHER), FlotillaError)
        node.propose(GROUP, command(1), answer)
        assert not isinstance(await propose(node, 2, OTHER), FlotillaError)
        while GROUP not in node.driver.failed:
            await node.turned()
        assert not isinstance(await propose(node, 3, OTHER), FlotillaError)

    run(tmp_path, (1,), scenario)


def test_a_bug_in_a_background_job_is_a_failure_of_that_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: SnapshotJob) -> None:
        raise ZeroDivisionError("a wrong program")

    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        await propose(node, 1)
        monkeypatch.setattr(SnapshotJob, "run", fail)
        node.snapshot(GROUP)
        while node.background.failed_count == 0:
            await asyncio.sleep(0.001)
        assert not isinstance(await propose(node, 2), FlotillaError)

    run(tmp_path, (1,), scenario)


def test_a_bug_in_what_all_groups_share_stops_the_node_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a wrong program")

    async def scenario(cluster: Cluster) -> None:
        node = await cluster.wait_leader()
        monkeypatch.setattr(cluster.stores[1], "save", save)
        answers: list[object] = []
        node.propose(GROUP, command(1), answers.append)
        with pytest.raises(ZeroDivisionError):
            await node.wait_stopped()
        assert cluster.wire.ends[1].is_closed
        assert answers == []
        assert isinstance(await propose(node, 2), UnavailableError)

    run(tmp_path, (1,), scenario)


def test_acknowledged_entries_survive_a_restart(tmp_path: Path) -> None:
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
