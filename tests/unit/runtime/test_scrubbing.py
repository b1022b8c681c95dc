"""The scrubber: it reads everything at its pace, and what it finds is repaired like what a reader finds."""

import logging

import pytest

from flotilla.raft.messages import RepairRequest
from flotilla.replica.ports import Scrubbed
from flotilla.runtime.scrubbing import PASS_MS, Scrubbing
from flotilla.sim.devices.disk import Inode
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.types.errors import CorruptionError, StorageFailedError
from flotilla.types.limits import MIB
from tests.unit.runtime.test_driver import Bench, sends
from tests.unit.runtime.test_loads import cold_leader


def file_of(bench: Bench, suffix: str) -> Inode:
    """The first one of the group."""
    return next(inode for path, inode in bench.disk.files() if path.startswith("groups/1/") and path.endswith(suffix))


def shared_bytes(bench: Bench) -> int:
    """Of the journal, and of the file `format`."""
    return sum(end for _, end in bench.store._journal.written()) + 2 * SECTOR_BYTES


def scrub(bench: Bench) -> None:
    """One full pass."""
    while bench.driver.scrub():
        bench.finish_loads()


def test_a_pass_reads_every_segment_and_snapshot_the_journal_and_the_format() -> None:
    bench = cold_leader()
    scrub(bench)
    log = bench.store.groups[1]
    assert bench.store.scrubbed == Scrubbed(bench.store.scrubbed.bytes, 0, 1)
    assert 40_000 < bench.store.scrubbed.bytes - shared_bytes(bench) <= log.size_bytes()
    bench.driver.snapshot(1)
    bench.settle()
    snapshot = log.read_snapshot()
    assert snapshot is not None
    before = bench.store.scrubbed.bytes
    scrub(bench)
    added_bytes = bench.store.scrubbed.bytes - before - shared_bytes(bench)
    assert len(snapshot.data) < added_bytes <= len(snapshot.data) + log.size_bytes()
    assert bench.store.scrubbed.passes == 2


def test_damage_that_no_reader_has_met_is_repaired_from_the_others() -> None:
    bench = cold_leader()
    file_of(bench, ".seg").image[500] ^= 1
    scrub(bench)
    assert bench.store.scrubbed.damage == 1
    bench.tick(1)
    requests = [message for message in sends(bench, RepairRequest) if isinstance(message, RepairRequest)]
    assert {message.to for message in requests} == {2, 3}
    [damage] = bench.driver.replicas[1].raft.damaged
    assert {(message.low, message.high) for message in requests} == {damage}
    scrub(bench)
    assert bench.store.scrubbed.damage == 1, "it is reported once"


def test_a_damaged_snapshot_is_replaced_by_a_new_one() -> None:
    bench = cold_leader()
    bench.driver.snapshot(1)
    bench.settle()
    before = bench.store.groups[1].snapshots[-1]
    file_of(bench, ".snap").image[-1] ^= 1
    with pytest.raises(CorruptionError):
        bench.store.groups[1].read_snapshot()
    scrub(bench)
    assert bench.store.scrubbed.damage == 1
    bench.settle()
    after = bench.store.groups[1].snapshots[-1]
    assert after.number > before.number
    assert after.meta.index == before.meta.index
    assert bench.store.groups[1].read_snapshot() is not None


def test_a_file_that_cannot_be_read_is_left_to_the_next_pass() -> None:
    bench = cold_leader()
    while bench.driver.scrub():
        bench.driver.load_done(bench.loads.pop(), StorageFailedError("too many open files"))
    skipped = bench.store.scrubbed.skipped
    assert bench.store.scrubbed == Scrubbed(0, 0, 1, skipped)
    # Segments, the journal and `format` at least.
    assert skipped >= 3
    scrub(bench)
    assert bench.store.scrubbed.bytes > 0
    assert bench.store.scrubbed.skipped == skipped


def test_a_log_that_is_not_open_yet_is_skipped_once_in_a_pass() -> None:
    bench = cold_leader()
    log = bench.store.groups[1]
    log.is_attached = False
    scrub(bench)
    assert bench.store.scrubbed.skipped == 1
    scrub(bench)
    assert bench.store.scrubbed.skipped == 2
    log.is_attached = True
    scrub(bench)
    assert bench.store.scrubbed.skipped == 2


class Pieces:
    """A store of pieces of one MiB, and a clock."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.now_ms = 0
        self.place = 0
        self.scrubbed = Scrubbed(0, 0, 0)

    def start(self) -> bool:
        if self.place == self.count:
            self.place = 0
            self.scrubbed = self.scrubbed._replace(passes=self.scrubbed.passes + 1)
            return False
        self.place += 1
        return True

    def finish(self, pace: Scrubbing) -> None:
        self.scrubbed = self.scrubbed._replace(bytes=self.scrubbed.bytes + MIB)
        pace.piece_done(1, "a segment")

    def run(self, pace: Scrubbing, seconds: int) -> int:
        """The pieces of that many seconds; each is read at once."""
        before = self.scrubbed.bytes
        for _ in range(10 * seconds):
            self.now_ms += 100
            pace.tick()
            while pace._is_busy:
                self.finish(pace)
        return (self.scrubbed.bytes - before) // MIB


def test_pieces_follow_each_other_at_the_pace_that_was_set() -> None:
    pieces = Pieces(100)
    pace = Scrubbing(pieces, pieces.start, 2 * MIB, lambda: pieces.now_ms)  # type: ignore[arg-type]
    assert 18 <= pieces.run(pace, 10) <= 21
    pieces.now_ms += 60_000
    assert pieces.run(pace, 1) <= 5, "a pause is not made up for"


def test_a_pass_begins_at_most_once_an_hour() -> None:
    pieces = Pieces(3)
    pace = Scrubbing(pieces, pieces.start, 10 * MIB, lambda: pieces.now_ms)  # type: ignore[arg-type]
    assert pieces.run(pace, 60) == 3
    assert pieces.scrubbed.passes == 1
    assert 50 < pace.seconds_since_pass < 60
    pieces.now_ms = PASS_MS
    assert pieces.run(pace, 60) == 3


def test_a_pass_that_skipped_a_piece_is_no_full_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flotilla.scrub")
    pieces = Pieces(3)
    pace = Scrubbing(pieces, pieces.start, 10 * MIB, lambda: pieces.now_ms)  # type: ignore[arg-type]
    pieces.scrubbed = pieces.scrubbed._replace(skipped=2)
    assert pieces.run(pace, 60) == 3
    assert pieces.scrubbed.passes == 1
    assert pace.seconds_since_pass == 60
    pieces.now_ms = PASS_MS
    pieces.run(pace, 60)
    assert 50 < pace.seconds_since_pass < 60
    events = [(record.message, record.fields.get("skipped")) for record in caplog.records]  # type: ignore[attr-defined]
    assert events == [("stored data could not all be read", 2), ("all stored data were verified", None)]


def test_zero_switches_it_off() -> None:
    pieces = Pieces(3)
    pace = Scrubbing(pieces, pieces.start, 0, lambda: pieces.now_ms)  # type: ignore[arg-type]
    assert pieces.run(pace, 60) == 0
