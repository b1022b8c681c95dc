"""The pump with the real store on a simulated disk: order of the steps, shared syncs, failing disks, snapshots."""

from random import Random

import pytest

from flotilla.raft import reasons
from flotilla.raft.messages import (
    DATA,
    NOOP,
    Append,
    AppendReply,
    Configuration,
    Entry,
    Message,
    ReadReply,
    ReadRequest,
    RepairReply,
    RepairRequest,
    SnapshotChunk,
    SnapshotMeta,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import Block, Job, Load, Remains
from flotilla.replica.replica import ReplicaOptions
from flotilla.runtime.driver import Driver, DriverOptions
from flotilla.sim.devices.disk import SimDisk
from flotilla.sim.ledger.machine import Ledger, command
from flotilla.storage.options import StoreOptions
from flotilla.storage.snapshots import SnapshotJob
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError, FlotillaError, NotLeaderError, OutcomeUnknownError
from flotilla.types.snapshot_data import SnapshotData

ALONE = Configuration(voters=(1,))
THREE = Configuration(voters=(1, 2, 3))
SMALL = StoreOptions(journal_bytes=64 * 1024, segment_bytes=16 * 1024)


class Bench:
    """A driver whose ports are worked by hand: blocks and jobs wait until a test finishes them."""

    #: A failure that a test has not planted ends it.
    is_containing = False

    def __init__(
        self, configuration: Configuration, groups: int = 1, snapshot_entries: int = 0, raft: RaftOptions | None = None
    ) -> None:
        self.disk = SimDisk(Random(1))
        self.options = DriverOptions(
            ReplicaOptions(raft or RaftOptions(), snapshot_entries=snapshot_entries, trail_entries=2), retry_ticks=3
        )
        self.configuration = configuration
        store = self._open()
        for group in range(1, groups + 1):
            store.create_group(group, configuration)
        self._start(store)

    def _open(self) -> NodeStore:
        return NodeStore.open(self.disk, SMALL, lambda entry: None)

    def _start(self, store: NodeStore) -> None:
        self.store = store
        self.sent: list[tuple[int, Message]] = []
        self.blocks: list[Block] = []
        self.jobs: list[Job] = []
        self.loads: list[Load] = []
        self.discarded: list[None] = []
        self.replies: list[tuple[object, object]] = []
        self.points: list[str] = []
        self.told_rooms: list[int] = []
        self.driver = Driver(1, store, self, Random(7), self.options)
        self.machines = {group: Ledger() for group in store.groups}
        for group, machine in self.machines.items():
            self.driver.add_replica(group, machine)

    def restart(self) -> None:
        self.disk.crash()
        self._start(self._open())

    # The driver's ports.

    def send(self, to: int, messages: list[tuple[int, Message]]) -> None:
        self.sent += [(to, message) for _, message in messages]

    def tell_room(self, room: int) -> None:
        self.told_rooms.append(room)

    def write(self, block: Block) -> None:
        self.blocks.append(block)

    def run(self, job: Job) -> None:
        self.jobs.append(job)

    def load(self, load: Load) -> None:
        self.loads.append(load)

    def discard(self, remains: Remains) -> None:
        self.discarded += list(remains)

    def reply(self, token: object, result: object) -> None:
        self.replies.append((token, result))

    def crash_point(self, name: str) -> None:
        self.points.append(name)

    def group_failed(self, group: int, failure: Exception) -> None:
        if not self.is_containing:
            raise failure

    # The hand.

    def finish_block(self, error: FlotillaError | None = None) -> None:
        block = self.blocks.pop(0)
        if error is None:
            self.store.write_block(block)
        self.driver.block_written(block, error)
        self.driver.pump()

    def finish_jobs(self) -> None:
        while self.jobs:
            job = self.jobs.pop(0)
            job.run()
            self.driver.job_done(job)
            self.driver.pump()

    def finish_loads(self) -> None:
        while self.loads:
            load = self.loads.pop(0)
            error: FlotillaError | None = None
            try:
                load.run()
            except FlotillaError as failure:
                error = failure
            self.driver.load_done(load, error)
            self.driver.pump()

    def settle(self) -> None:
        self.driver.pump()
        while self.blocks or self.jobs or self.loads:
            if self.blocks:
                self.finish_block()
            self.finish_jobs()
            self.finish_loads()

    def tick(self, count: int) -> None:
        for _ in range(count):
            self.driver.tick()
            self.driver.pump()

    def elect(self) -> None:
        for _ in range(40):
            self.tick(1)
            self.settle()
        assert all(replica.raft.role == LEADER for replica in self.driver.replicas.values())


def sends(bench: Bench, kind: type[Message]) -> list[Message]:
    return [message for _, message in bench.sent if type(message) is kind]


def lead_with_entries(bench: Bench, count: int) -> RaftNode:
    """Node 1 leads group 1 with the votes of node 2, which has all of `count` entries; node 3 never answers."""
    bench.settle()
    raft = bench.driver.replicas[1].raft
    raft.campaign()
    for is_pre in (True, False):
        bench.tick(1)
        bench.settle()
        bench.driver.receive([(1, VoteReply(2, 1, raft.term + is_pre, granted=True, pre=is_pre))])
        bench.settle()
    assert raft.role == LEADER
    for number in range(count):
        bench.driver.propose(1, command(number, 1_000), number)
        bench.settle()
        bench.driver.receive([(1, AppendReply(2, 1, raft.term, raft.log.last_index, accepted=True))])
        bench.settle()
    return raft


def test_a_proposal_is_answered_only_after_its_sync():
    bench = Bench(ALONE)
    bench.elect()
    bench.driver.propose(1, command(1), "token")
    bench.driver.pump()
    assert bench.replies == []
    bench.finish_block()
    assert [token for token, _ in bench.replies] == ["token"]


def test_inputs_that_come_while_a_block_is_written_share_the_next_one():
    bench = Bench(ALONE, groups=3)
    bench.elect()
    bench.driver.propose(1, command(2), 0)
    bench.driver.pump()
    for token in range(1, 10):
        bench.driver.propose(token % 3 + 1, command(3), token)
        bench.driver.pump()
    assert len(bench.blocks) == 1
    bench.finish_block()
    assert [token for token, _ in bench.replies] == [0]
    bench.finish_block()
    assert sorted(token for token, _ in bench.replies if isinstance(token, int)) == list(range(10))
    assert bench.blocks == []


def test_the_steps_come_in_their_order():
    bench = Bench(ALONE)
    bench.elect()
    bench.points.clear()
    bench.driver.propose(1, command(1), "token")
    bench.settle()
    turn = ["sent", "applied", "replied"]
    assert bench.points[:9] == ["saved", "syncing", *turn, "synced", "saved", *turn][:9]


def test_a_vote_request_leaves_only_after_the_own_vote_is_durable():
    bench = Bench(THREE)
    bench.settle()
    replica = bench.driver.replicas[1]
    replica.raft.campaign()
    bench.driver.receive([])
    bench.tick(1)
    pre = [m for m in sends(bench, VoteRequest) if isinstance(m, VoteRequest)]
    assert pre, "the pre-vote rests on nothing"
    assert all(message.pre for message in pre)
    for peer in (2, 3):
        bench.driver.receive([(1, _pre_vote(peer, replica.raft.term + 1))])
    bench.driver.pump()
    assert not [m for m in sends(bench, VoteRequest) if isinstance(m, VoteRequest) and not m.pre]
    bench.finish_block()
    assert len([m for m in sends(bench, VoteRequest) if isinstance(m, VoteRequest) and not m.pre]) == 2


def _pre_vote(sender: int, term: int) -> Message:
    return VoteReply(sender, 1, term, granted=True, pre=True)


def test_an_append_is_answered_only_after_its_sync():
    bench = Bench(THREE)
    bench.settle()
    entry_term = 5
    append = Append(2, 1, entry_term, 0, 0, 0, [Entry(1, entry_term, NOOP, b"")])
    bench.driver.receive([(1, append)])
    bench.driver.pump()
    assert sends(bench, AppendReply) == []
    bench.finish_block()
    assert sends(bench, AppendReply) == [AppendReply(1, 2, entry_term, index=1, accepted=True)]


def test_a_reply_that_stores_nothing_waits_only_for_the_block_in_flight():
    bench = Bench(THREE)
    bench.settle()
    bench.driver.receive([(1, Append(2, 1, 5, 0, 0, 0, [Entry(1, 5, NOOP, b"")]))])
    bench.driver.pump()
    bench.driver.receive([(1, Append(2, 1, 5, 9, 5, 0, []))])
    bench.driver.pump()
    assert sends(bench, AppendReply) == []
    bench.finish_block()
    assert [reply.accepted for reply in sends(bench, AppendReply) if isinstance(reply, AppendReply)] == [True, False]
    assert bench.blocks == []


def test_an_acknowledgement_of_an_entry_truncated_meanwhile_is_not_sent():
    bench = Bench(THREE)
    bench.driver.receive([(1, Append(2, 1, 2, 0, 0, 0, [Entry(1, 2, NOOP, b"")]))])
    bench.driver.pump()
    # The next block brings an entry and what takes its place.
    bench.driver.receive([(1, Append(2, 1, 2, 1, 2, 0, [Entry(2, 2, NOOP, b""), Entry(3, 2, NOOP, b"")]))])
    bench.driver.pump()
    bench.driver.receive([(1, Append(3, 1, 3, 1, 2, 0, [Entry(2, 3, NOOP, b"")]))])
    bench.settle()
    replies = [reply for reply in sends(bench, AppendReply) if isinstance(reply, AppendReply) and reply.accepted]
    assert [(reply.to, reply.term, reply.index) for reply in replies] == [(3, 3, 2)]


def led_by_one(raft_options: RaftOptions | None = None) -> Bench:
    """Node 1 leads, and both others have everything."""
    bench = Bench(THREE, raft=raft_options)
    bench.settle()
    raft = bench.driver.replicas[1].raft
    bench.driver.campaign(1)
    for is_pre in (True, False):
        bench.driver.pump()
        bench.driver.receive([(1, VoteReply(2, 1, raft.term + is_pre, granted=True, pre=is_pre))])
        bench.settle()
    assert raft.role == LEADER
    for peer in (2, 3):
        bench.driver.receive([(1, AppendReply(peer, 1, raft.term, index=raft.log.last_index, accepted=True))])
    bench.settle()
    return bench


def led_with_a_lagging_voter() -> Bench:
    """Node 1 leads, node 3 lags, and an entry has just been proposed."""
    bench = led_by_one(RaftOptions(thrifty_bytes_max=1_000))
    bench.tick(1)
    assert bench.driver.replicas[1].raft.lagging == {3}
    # The first one after a tick goes to all voters.
    bench.driver.propose(1, command(1), "first")
    bench.settle()
    for peer in (2, 3):
        accept(bench, peer)
    bench.driver.replicate_to_lagging()
    assert not bench.driver.has_lagging
    bench.sent.clear()
    bench.replies.clear()
    bench.driver.propose(1, command(1), "token")
    bench.settle()
    assert [to for to, message in bench.sent if type(message) is Append] == [2]
    assert bench.driver.has_lagging
    return bench


def accept(bench: Bench, peer: int) -> None:
    raft = bench.driver.replicas[1].raft
    bench.driver.receive([(1, AppendReply(peer, 1, raft.term, index=raft.log.last_index, accepted=True))])
    bench.settle()


def test_an_entry_without_a_quorum_in_time_goes_to_all_voters():
    bench = led_with_a_lagging_voter()
    bench.sent.clear()
    bench.driver.replicate_to_lagging()
    bench.settle()
    assert [to for to, message in bench.sent if type(message) is Append] == [3]
    assert not bench.driver.has_lagging
    accept(bench, 3)
    assert [token for token, _ in bench.replies] == ["token"]


def test_an_entry_with_a_quorum_in_time_goes_to_no_lagging_voter():
    bench = led_with_a_lagging_voter()
    accept(bench, 2)
    bench.sent.clear()
    bench.driver.replicate_to_lagging()
    bench.settle()
    assert bench.sent == []
    assert not bench.driver.has_lagging


def test_a_later_entry_has_its_own_timeout():
    bench = led_with_a_lagging_voter()
    accept(bench, 2)
    bench.driver.propose(1, command(2), "later")
    bench.settle()
    bench.sent.clear()
    bench.driver.replicate_to_lagging()
    bench.settle()
    assert bench.sent == []
    assert bench.driver.has_lagging
    bench.driver.replicate_to_lagging()
    bench.settle()
    assert [to for to, message in bench.sent if type(message) is Append] == [3]


def test_a_dropped_group_has_no_lagging_voters():
    bench = led_with_a_lagging_voter()
    bench.driver.remove_replica(1)
    bench.driver.replicate_to_lagging()
    bench.settle()


def led_by_two() -> Bench:
    """Node 1 follows, and has one entry, which is not committed yet."""
    bench = Bench(THREE)
    bench.driver.receive([(1, Append(2, 1, 1, 0, 0, 0, [Entry(1, 1, DATA, command(1))]))])
    bench.settle()
    return bench


def test_a_leader_sends_before_it_saves_so_that_all_disks_work_at_once():
    bench = led_by_one()
    bench.sent.clear()
    seen: list[int] = []
    save = bench.store.save
    bench.store.save = lambda *args, **kinds: (seen.append(len(sends(bench, Append))), save(*args, **kinds))[1]
    bench.driver.propose(1, command(1), "token")
    bench.driver.pump()
    assert seen == [2]


def test_a_follower_stores_and_replies_before_it_applies():
    bench = led_by_two()
    bench.driver.receive([(1, Append(2, 1, 1, 1, 1, 1, [Entry(2, 1, DATA, command(2))]))])
    bench.driver.hurry()
    assert bench.driver.replicas[1].applied == 0
    assert len(bench.blocks) == 1
    bench.driver.catch_up()
    assert bench.driver.replicas[1].applied == 1


def test_a_reply_without_effect_causes_no_turn():
    bench = led_by_one()
    raft = bench.driver.replicas[1].raft
    bench.driver.propose(1, command(1), "token")
    bench.settle()
    assert not bench.driver.has_work, "the own copy alone is no quorum"
    for peer, brings_the_commit in ((2, True), (2, False)):
        bench.driver.receive([(1, AppendReply(peer, 1, raft.term, index=raft.log.last_index, accepted=True))])
        assert bench.driver.has_work is brings_the_commit
        bench.driver.pump()
    assert [token for token, _ in bench.replies] == ["token"]


def behind_by_one() -> Bench:
    """Node 1 follows, has applied one entry, and knows that a second one is committed."""
    bench = led_by_two()
    for index in (2, 3):
        bench.driver.receive([(1, Append(2, 1, 1, index - 1, 1, index - 1, [Entry(index, 1, DATA, command(index))]))])
        if index == 2:
            bench.settle()
    return bench


def test_a_due_snapshot_waits_for_entries_still_to_be_applied():
    bench = behind_by_one()
    bench.driver.replicas[1].raft.snapshot_wanted = True
    bench.driver.hurry()
    assert bench.driver.replicas[1].applied == 1
    assert bench.jobs == []
    bench.driver.catch_up()
    assert [job.file.meta.index for job in bench.jobs if isinstance(job, SnapshotJob)] == [2]


def test_a_requested_snapshot_covers_entries_still_to_be_applied():
    bench = behind_by_one()
    bench.driver.hurry()
    bench.driver.snapshot(1)
    assert [job.file.meta.index for job in bench.jobs if isinstance(job, SnapshotJob)] == [2]


def test_a_dropped_group_applies_nothing_more():
    bench = behind_by_one()
    machine = bench.machines[1]
    bench.driver.hurry()
    bench.driver.remove_replica(1)
    bench.driver.pump()
    assert list(machine.commands) == [1]


def test_a_read_at_a_follower_does_not_wait_for_its_disk():
    bench = led_by_two()
    bench.driver.read(1, None, "token")
    bench.driver.hurry()
    (request,) = sends(bench, ReadRequest)
    bench.driver.receive([(1, ReadReply(2, 1, 1, request.read_id, 1))])
    bench.driver.receive([(1, Append(2, 1, 1, 1, 1, 1, [Entry(2, 1, DATA, command(2))]))])
    bench.driver.hurry()
    assert [token for token, _ in bench.replies] == ["token"]


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_leader_with_a_slow_disk_transfers_to_a_quicker_voter(is_alone: bool):
    bench = led_by_one()
    raft = bench.driver.replicas[1].raft
    bench.driver.propose(1, command(1), "token")
    bench.driver.pump()
    if not is_alone:
        bench.driver.receive([(1, AppendReply(3, 1, raft.term, index=raft.log.last_index, accepted=True))])
    bench.tick(raft.options.election_ticks)
    assert sends(bench, TimeoutNow) == []
    bench.tick(1)
    # Where no voter has it on disk, all disks may be slow.
    assert sends(bench, TimeoutNow) == ([] if is_alone else [TimeoutNow(1, 3, raft.term, reasons.SLOW_DISK)])
    assert bench.replies == []


@pytest.mark.parametrize(
    ("write_ticks", "others_ticks", "is_handed_over"),
    [
        # A disk that is slow all the time, beside quick ones.
        (3, 0, True),
        # A disk that is always busy, but as quick as the others.
        (1, 0, False),
        # All are slow.
        (3, 2, False),
        (20, 19, False),
    ],
)
def test_a_disk_that_is_always_slow_costs_leadership_and_one_that_is_busy_does_not(
    write_ticks: int, others_ticks: int, is_handed_over: bool
):
    bench = led_by_one()
    raft = bench.driver.replicas[1].raft
    for number in range(60 // write_ticks):
        bench.driver.propose(1, command(number), number)
        bench.driver.pump()
        bench.tick(others_ticks)
        for peer in (2, 3):
            bench.driver.receive([(1, AppendReply(peer, 1, raft.term, index=raft.log.last_index, accepted=True))])
        bench.tick(write_ticks - others_ticks)
        bench.settle()
    assert bool(sends(bench, TimeoutNow)) is is_handed_over


def test_pending_requests_are_answered_when_a_cut_off_leader_steps_down():
    bench = led_by_one()
    raft = bench.driver.replicas[1].raft
    bench.driver.propose(1, command(1), "token")
    bench.driver.pump()
    bench.blocks.clear()
    while raft.role == LEADER:
        assert bench.replies == []
        bench.tick(1)
    assert [(token, type(result)) for token, result in bench.replies] == [("token", OutcomeUnknownError)]


@pytest.mark.parametrize("crashes", [0, 1])
def test_snapshots_shorten_the_log_and_survive(crashes: int):
    bench = Bench(ALONE, snapshot_entries=5)
    bench.elect()
    for number in range(12):
        bench.driver.propose(1, command(number), number)
        bench.settle()
    expected = bench.machines[1].snapshot()
    assert bench.store.groups[1].snapshot() is not None
    assert bench.store.groups[1].first_index() > 1
    for _ in range(crashes):
        bench.restart()
        bench.elect()
    assert bench.machines[1].snapshot() == expected


def test_a_follower_refuses_and_names_the_leader():
    bench = Bench(THREE)
    bench.settle()
    bench.driver.propose(1, command(1), "token")
    bench.driver.pump()
    assert [(token, type(result)) for token, result in bench.replies] == [("token", NotLeaderError)]


def test_idle_groups_become_quiescent_and_need_no_ticks():
    bench = Bench(ALONE, groups=5)
    bench.elect()
    bench.tick(60)
    assert all(replica.raft.quiescent for replica in bench.driver.replicas.values())
    before = [replica.raft.election_elapsed for replica in bench.driver.replicas.values()]
    bench.tick(50)
    assert [replica.raft.election_elapsed for replica in bench.driver.replicas.values()] == before
    bench.driver.propose(3, command(6), "token")
    bench.settle()
    assert bench.replies[-1][0] == "token"


def test_a_removed_group_is_forgotten_also_with_a_write_in_flight():
    bench = Bench(ALONE, groups=2)
    bench.elect()
    bench.driver.propose(1, command(1), "token")
    bench.driver.pump()
    bench.driver.remove_replica(1)
    bench.settle()
    bench.tick(5)
    bench.settle()
    assert list(bench.driver.replicas) == [2]
    bench.restart()
    assert list(bench.store.groups) == [2]


def test_the_state_that_a_leaders_snapshot_replaces_is_handed_out_to_be_freed():
    class Heavy(Ledger):
        def restore(self, data: SnapshotData, decoded: object = None) -> Remains:  # type: ignore[override]
            super().restore(data, decoded)
            return iter([None] * 3)

    bench = Bench(THREE)
    bench.driver.replicas[1].machine = Heavy()
    data = Ledger().snapshot()
    meta = SnapshotMeta(9, 2, 9, 2, THREE, len(data))
    bench.driver.receive([(1, SnapshotChunk(2, 1, 2, meta=meta, offset=0, data=data))])
    bench.settle()
    assert bench.driver.replicas[1].applied == 9
    assert len(bench.discarded) == 3


@pytest.mark.parametrize("is_hosted_again", [False, True])
def test_a_group_is_removed_while_its_leaders_snapshot_is_being_installed(is_hosted_again: bool):
    bench = Bench(THREE)
    data = Ledger().snapshot()
    meta = SnapshotMeta(9, 2, 9, 2, THREE, len(data))
    bench.driver.receive([(1, SnapshotChunk(2, 1, 2, meta=meta, offset=0, data=data))])
    bench.driver.pump()
    while bench.blocks:
        bench.finish_block()
    jobs = [job for job in bench.jobs if isinstance(job, SnapshotJob)]
    assert len(jobs) == 1, "the snapshot is being written"
    bench.driver.remove_replica(1)
    if is_hosted_again:
        bench.store.create_group(1, THREE)
        bench.driver.add_replica(1, Ledger())
    bench.settle()
    bench.tick(3)
    bench.settle()
    assert not bench.disk.exists(jobs[0].file.path), "it is not needed"
    assert list(bench.driver.replicas) == ([1] if is_hosted_again else [])
    assert [(log.first_index(), log.last_index()) for log in bench.store.groups.values()] == [(1, 0)] * is_hosted_again
    bench.restart()
    assert [log.snapshot() for log in bench.store.groups.values()] == [None] * is_hosted_again


def _rotten(configuration: Configuration) -> Bench:
    """A replica whose log lies in a segment, where a byte has changed; a reader has found it."""
    bench = Bench(configuration)
    entries = [Entry(index, 1, NOOP, b"") for index in range(1, 4)]
    if configuration is ALONE:
        bench.elect()
        bench.driver.propose(1, command(1), "token")
    else:
        bench.driver.receive([(1, Append(2, 1, 1, 0, 0, 3, entries))])
    bench.settle()
    job = bench.store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    bench.store.finish_maintenance(job)
    bench.settle()
    images = [inode.image for path, inode in bench.disk.files() if path.endswith(".seg")]
    images[-1][60] ^= 1
    bench.sent.clear()
    with pytest.raises(CorruptionError):
        bench.store.groups[1].entries(2, 3, 1 << 20)
    return bench


def test_damage_that_a_reader_finds_is_repaired():
    bench = _rotten(THREE)
    assert not sends(bench, RepairRequest)
    bench.tick(1)
    assert {message.to for message in sends(bench, RepairRequest)} == {2, 3}
    damaged = bench.driver.replicas[1].raft.damaged
    assert damaged
    entries = [Entry(index, 1, NOOP, b"") for low, high in damaged for index in range(low, high)]
    bench.driver.receive([(1, RepairReply(3, 1, 0, entries[0].index, entries))])
    bench.settle()
    bench.tick(1)
    assert not bench.driver.replicas[1].raft.damaged
    assert bench.driver.repaired == {1: len(entries)}
    assert len(bench.store.groups[1].entries(1, 4, 1 << 20)) == 3


def test_a_single_replica_goes_on_with_its_intact_entries():
    bench = _rotten(ALONE)
    bench.tick(1)
    bench.replies.clear()
    bench.driver.propose(1, command(2), "later")
    bench.settle()
    assert [token for token, _ in bench.replies] == ["later"]
