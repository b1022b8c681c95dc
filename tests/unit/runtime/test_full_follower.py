"""A follower with a full disk takes few records of a leader that has room: the reserve is for freeing space."""

from dataclasses import replace

from flotilla.raft.messages import DATA, Append, AppendReply, Entry, Heartbeat
from flotilla.storage.store import NodeStore
from flotilla.types.errors import DiskFullError
from flotilla.types.records import Span
from tests.unit.runtime.test_driver import SMALL, THREE, Bench, sends

TERM = 1
OPTIONS = replace(SMALL, journal_bytes=512 * 1024, reserve_bytes=256 * 1024)


def describe(entry: Entry) -> Span | None:
    return Span(entry.index, 1, 0) if bytes(entry.data).startswith(b"records") else None


class Follower(Bench):
    """Node 1, which follows node 2. What a full disk refuses is reported as a real node does."""

    def _open(self) -> NodeStore:
        return NodeStore.open(self.disk, OPTIONS, describe)

    def settle(self) -> None:
        self.driver.pump()
        while self.blocks or self.jobs:
            if self.blocks:
                block = self.blocks.pop(0)
                try:
                    self.store.write_block(block)
                except DiskFullError as error:
                    self.driver.block_written(block, error)
                    return
                self.driver.block_written(block)
            while self.jobs:
                job = self.jobs.pop(0)
                try:
                    job.run()
                except DiskFullError as error:
                    self.driver.job_done(job, error)
                else:
                    self.driver.job_done(job)
            self.driver.pump()

    @property
    def last_index(self) -> int:
        return self.driver.replicas[1].raft.log.last_index

    def append(self, *payloads: bytes) -> None:
        """The leader sends entries after those that this follower has."""
        prev = self.last_index
        log = self.driver.replicas[1].raft.log
        entries = [Entry(prev + 1 + at, TERM, DATA, payload) for at, payload in enumerate(payloads)]
        message = Append(2, 1, TERM, prev, log.term(prev) if prev else 0, log.committed, entries)
        self.driver.receive([(1, message)])
        self.settle()


def full_follower() -> Follower:
    bench = Follower(THREE)
    bench.settle()
    bench.driver.receive([(1, Heartbeat(2, 1, TERM, 0))])
    bench.append(b"records" + bytes(3000))
    bench.disk.capacity_bytes = bench.disk.used_bytes
    for _ in range(300):
        if bench.store.is_low:
            break
        bench.append(b"records" + bytes(9_000))
    assert bench.store.is_low
    return bench


def use_up_the_share_of_records(bench: Follower) -> None:
    before = -1
    while bench.last_index != before:
        before = bench.last_index
        bench.append(b"records" + bytes(3000))


def test_records_of_a_leader_with_room_do_not_use_up_the_reserve() -> None:
    bench = full_follower()
    use_up_the_share_of_records(bench)
    before = bench.last_index
    bench.sent.clear()
    for _ in range(200):
        bench.append(b"records" + bytes(3000), b"a command")
    assert bench.last_index == before
    assert bench.driver.storage_error is None
    assert not sends(bench, AppendReply), "the leader goes on at its own pace"
    assert bench.driver.replicas[1].raft.leader == 2, "it still follows"


def test_a_command_before_the_records_is_taken() -> None:
    bench = full_follower()
    use_up_the_share_of_records(bench)
    before = bench.last_index
    bench.sent.clear()
    bench.append(b"a trim", b"records" + bytes(3000))
    assert bench.last_index == before + 1
    [reply] = sends(bench, AppendReply)
    assert isinstance(reply, AppendReply)
    assert (reply.index, reply.accepted) == (before + 1, True)


def test_commands_leave_room_for_what_they_free() -> None:
    bench = full_follower()
    before = bench.last_index
    for _ in range(300):
        bench.append(b"a command")
    assert before < bench.last_index < before + 300
    assert bench.driver.storage_error is None
    log = bench.store.groups[1]
    log.compact(before, log.term(before - 1))
    bench.settle()
    assert bench.driver.storage_error is None
    bench.restart()
    assert bench.store.groups[1].first_index() == before


def test_with_room_again_all_is_taken() -> None:
    bench = full_follower()
    before = bench.last_index
    bench.append(b"records" + bytes(3000))
    bench.disk.capacity_bytes = 1 << 40
    for _ in range(5):
        bench.tick(3)
        bench.settle()
        bench.append(b"a command")
    assert not bench.store.is_low
    taken = bench.last_index
    bench.append(b"records" + bytes(3000))
    assert bench.last_index == taken + 1 > before + 1
