"""Reads from disk for replicas: what they wait for, and what a disk that hangs costs."""

from flotilla.raft import reasons
from flotilla.raft.messages import (
    Append,
    AppendReply,
    HeartbeatReply,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
)
from flotilla.raft.roles import LEADER
from flotilla.types.errors import StorageFailedError
from tests.unit.runtime.test_driver import THREE, Bench, command, lead_with_entries, sends


def cold_leader(*, has_heir: bool = True) -> Bench:
    """Node 1 leads; node 2 has everything, if `has_heir`, and node 3 nothing. The log is on disk, and cold."""
    bench = Bench(THREE)
    lead_with_entries(bench, 40)
    job = bench.store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    bench.store.finish_maintenance(job)
    bench.disk.is_cold = True
    bench.driver.peer_down(3)
    if not has_heir:
        bench.driver.peer_down(2)
    bench.driver.pump()
    bench.sent.clear()
    return bench


def ask_for_all(bench: Bench) -> None:
    """Node 3 says that it has nothing."""
    raft = bench.driver.replicas[1].raft
    bench.driver.peer_up(3)
    bench.driver.receive([(1, AppendReply(3, 1, raft.term, raft.log.last_index, accepted=False))])
    bench.driver.pump()


def tick(bench: Bench, count: int) -> None:
    """Node 2 answers heartbeats."""
    for _ in range(count):
        bench.tick(1)
        bench.driver.receive([(1, HeartbeatReply(2, 1, bench.driver.replicas[1].raft.term, 0))])
        bench.driver.pump()


def entries_to(bench: Bench, node: int) -> list[int]:
    appends = [message for to, message in bench.sent if to == node and isinstance(message, Append)]
    return [entry.index for append in appends for entry in append.entries]


def test_a_follower_that_lags_gets_old_entries_after_they_were_loaded() -> None:
    bench = cold_leader()
    ask_for_all(bench)
    assert entries_to(bench, 3) == []
    [load] = bench.loads
    assert load.group == 1
    bench.driver.propose(1, command(99), "new")
    bench.settle()
    assert entries_to(bench, 3)[:2] == [1, 2]


def test_a_load_that_fails_is_tried_again_with_the_next_tick() -> None:
    bench = cold_leader()
    ask_for_all(bench)
    bench.driver.load_done(bench.loads.pop(), StorageFailedError("too many open files"))
    bench.driver.pump()
    assert entries_to(bench, 3) == []
    assert bench.loads == []
    bench.tick(1)
    bench.finish_loads()
    assert entries_to(bench, 3)[:2] == [1, 2]


def test_a_leader_whose_disk_hangs_goes_on_and_hands_its_group_over() -> None:
    bench = cold_leader()
    ask_for_all(bench)
    tick(bench, 29)
    assert bench.driver.stalled == {}
    assert sends(bench, TimeoutNow) == []
    bench.driver.propose(1, command(99), "new")
    bench.driver.pump()
    assert entries_to(bench, 2) == [bench.driver.replicas[1].raft.log.last_index], "the newest is in memory"
    while bench.blocks:
        bench.finish_block()
    bench.driver.receive([(1, AppendReply(2, 1, 1, bench.driver.replicas[1].raft.log.last_index, accepted=True))])
    bench.driver.pump()
    assert "new" in [token for token, _ in bench.replies]
    tick(bench, 1)
    assert list(bench.driver.stalled) == [1]
    [handover] = sends(bench, TimeoutNow)
    assert isinstance(handover, TimeoutNow)
    assert (handover.to, handover.reason) == (2, reasons.SLOW_DISK)
    bench.finish_loads()
    assert bench.driver.stalled == {}


def test_an_heir_whose_disk_hangs_as_well_is_left_alone_for_a_while() -> None:
    bench = cold_leader()
    ask_for_all(bench)
    tick(bench, 30)
    assert [handover.to for handover in sends(bench, TimeoutNow)] == [2]
    raft = bench.driver.replicas[1].raft
    # Node 2 wants to lead no more either: leadership comes back, again and again.
    tick(bench, 100)
    assert raft.role == LEADER
    assert [handover.to for handover in sends(bench, TimeoutNow)] == [2]
    bench.driver.receive([(1, AppendReply(3, 1, raft.term, raft.log.last_index, accepted=True))])
    tick(bench, 1)
    assert [handover.to for handover in sends(bench, TimeoutNow)] == [2, 3], "the other one"
    tick(bench, 300)
    assert len(sends(bench, TimeoutNow)) > 2, "it may have recovered"


def test_leadership_stays_where_no_other_voter_has_everything() -> None:
    bench = cold_leader(has_heir=False)
    ask_for_all(bench)
    bench.tick(31)
    assert list(bench.driver.stalled) == [1]
    assert sends(bench, TimeoutNow) == []


def test_chunks_of_a_snapshot_are_loaded_one_after_the_other() -> None:
    bench = cold_leader()
    bench.driver.snapshot(1)
    bench.settle()
    assert bench.driver.replicas[1].log.first_index() > 1
    bench.sent.clear()
    ask_for_all(bench)
    assert sends(bench, SnapshotChunk) == []
    bench.finish_loads()
    [chunk] = sends(bench, SnapshotChunk)
    assert isinstance(chunk, SnapshotChunk)
    assert chunk.offset == 0
    bench.driver.receive([(1, SnapshotReply(3, 1, chunk.term, chunk.meta.index, 0))])
    bench.settle()
    assert len(sends(bench, SnapshotChunk)) == 2, "the follower asked for it again"
