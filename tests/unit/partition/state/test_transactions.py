"""Staged batches of a partition: unseen until the last one is stored again, and then all of them, once."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flotilla.codec.batch.header import parse_header, patch_base_offset, published
from flotilla.metadata.commands import DecideTransaction
from flotilla.metadata.machine import MetadataMachine
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import (
    Command,
    DropStage,
    StageBatch,
    decode_command,
    encode_command,
)
from flotilla.partition.leader.produce_admission import ProduceAdmission
from flotilla.partition.state import transactions
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Concluded, Ended, Published, Staging, VisibleBatch, publisher_id
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import CorruptionError, InvalidArgumentError, OverloadedError, TransactionEndedError
from tests.unit.partition.batches import TERM, Log, batch, describe, new_log

NOW_MS = 5_000


def stage(log: Log, transaction_id: str, sequence: int = 0, count: int = 1, producer: int = 9) -> object:
    return log.command(StageBatch(transaction_id, batch(count=count, producer=producer, sequence=sequence), NOW_MS))


def store_again(log: Log, transaction_id: str, **fields: int) -> object:
    """The next part of a transaction, as its leader stores it."""
    staging = log.machine.transactions.open[transaction_id]
    part, before = staging.rest()[0]
    data = published(batch(count=part.record_count, **fields), publisher_id(transaction_id), before)
    patch_base_offset(data, log.machine.end_offset, TERM)
    return log.apply(bytes(data))


def restored(machine: PartitionMachine) -> PartitionMachine:
    again = PartitionMachine(describe)
    again.restore(machine.snapshot())
    assert again.state_hash() == machine.state_hash()
    return again


def test_a_staged_batch_has_no_offset():
    log = new_log()
    staging = stage(log, "t", count=3)
    assert isinstance(staging, Staging)
    assert (staging.count, staging.first_staged_ms) == (3, NOW_MS)
    assert (log.machine.next_offset, log.machine.end_offset) == (0, 0)
    assert log.append() == 0


def test_a_batch_is_staged_once_however_often_it_comes():
    log = new_log()
    for _ in range(3):
        staging = stage(log, "t", sequence=4, count=2)
    stage(log, "t", sequence=6, count=1)
    stage(log, "t", sequence=4, count=5, producer=10)
    assert staging.count == 8
    assert [part.producer_sequence for part in staging.parts] == [4, 6, 4]


def test_the_last_part_shows_all_of_them():
    log = new_log()
    log.append(count=2)
    stage(log, "t", 0, count=2)
    stage(log, "t", 2, count=1)
    assert store_again(log, "t", priority=3) == Published("t")
    machine = log.machine
    assert (machine.next_offset, machine.end_offset, machine.index.count) == (2, 4, 2)
    assert machine.transactions.partial is machine.transactions.open["t"]
    shown = store_again(log, "t", deliver_at_ms=7)
    assert isinstance(shown, Published)
    assert [(facts.base_offset, facts.count, facts.priority, facts.deliver_at_ms) for facts in shown.batches] == [
        (2, 2, 3, 0),
        (4, 1, 0, 7),
    ]
    assert (machine.next_offset, machine.end_offset, machine.index.count) == (5, 5, 5)
    assert machine.transactions.ended["t"] == Ended("t", (VisibleBatch(9, 0, 2), VisibleBatch(9, 2, 4)))
    assert not machine.transactions.open
    assert log.append() == 5


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_a_snapshot_holds_a_transaction_at_every_step(stored):
    log = new_log()
    stage(log, "other")
    for sequence in range(2):
        stage(log, "t", sequence)
    for _ in range(stored):
        store_again(log, "t")
    log.machine = restored(log.machine)
    for _ in range(2 - stored):
        store_again(log, "t")
    assert log.machine.transactions.ended["t"] == Ended("t", (VisibleBatch(9, 0, 0), VisibleBatch(9, 1, 1)))
    assert log.machine.next_offset == 2
    restored(log.machine)


def test_a_snapshot_with_a_wrong_end_offset_is_refused():
    log = new_log()
    for sequence in range(2):
        stage(log, "t", sequence)
    store_again(log, "t")
    log.machine.end_offset += 1
    with pytest.raises(CorruptionError):
        PartitionMachine(describe).restore(log.machine.snapshot())


def test_a_dropped_stage_is_never_visible_and_remembered():
    log = new_log()
    stage(log, "t")
    assert log.command(DropStage("t", NOW_MS)) == Concluded(Ended("t"))
    assert log.command(DropStage("t", NOW_MS)) == Concluded(Ended("t"))
    assert isinstance(stage(log, "t", 1), TransactionEndedError)
    assert log.machine.next_offset == 0
    assert log.machine.transactions.oldest_index() is None


def test_a_transaction_stored_in_part_is_not_dropped_and_takes_no_more():
    log = new_log()
    for sequence in range(2):
        stage(log, "t", sequence)
    store_again(log, "t")
    assert isinstance(log.command(DropStage("t", NOW_MS)), TransactionEndedError)
    assert isinstance(stage(log, "t", 2), TransactionEndedError)
    # A repetition of what is there changes nothing, and may be answered.
    assert isinstance(stage(log, "t", 1), Staging)


def test_entries_are_needed_until_their_transaction_ends():
    log = new_log()
    stage(log, "a")
    stage(log, "b")
    first, second = (staging.parts[0].entry_index for staging in log.machine.transactions.open.values())
    assert log.machine.transactions.oldest_index() == first
    store_again(log, "a")
    assert log.machine.transactions.oldest_index() == second


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (StageBatch("", batch(producer=1), 1), InvalidArgumentError),
        (StageBatch("x" * 65, batch(producer=1), 1), InvalidArgumentError),
        (StageBatch("a b", batch(producer=1), 1), InvalidArgumentError),
        (StageBatch("\u00e9", batch(producer=1), 1), InvalidArgumentError),
        (StageBatch("a\0b", batch(producer=1), 1), InvalidArgumentError),
        (StageBatch("t", b"no batch", 1), InvalidArgumentError),
        (StageBatch("t", batch(), 1), InvalidArgumentError),
        (StageBatch("t", batch(producer=1, keys=[b"k"]), 1), InvalidArgumentError),
        (StageBatch("t", bytes(published(batch(), 1, 0)), 1), InvalidArgumentError),
    ],
)
def test_invalid_stages_are_refused(command, error):
    log = new_log()
    assert isinstance(log.command(command), error)
    assert isinstance(log.machine.check(command), error)
    assert not log.machine.transactions.open


def test_stages_are_bounded(monkeypatch):
    monkeypatch.setattr(transactions, "OPEN_COUNT_MAX", 2)
    monkeypatch.setattr(transactions, "PART_COUNT_MAX", 2)
    log = new_log()
    for name in "ab":
        stage(log, name)
    assert isinstance(stage(log, "c"), OverloadedError)
    assert isinstance(stage(log, "a", 1), Staging)
    assert isinstance(stage(log, "a", 2), InvalidArgumentError)


def test_past_transactions_are_forgotten_one_day(monkeypatch):
    monkeypatch.setattr(transactions, "ENDED_COUNT_MAX", 2)
    log = new_log()
    for name in "abc":
        stage(log, name)
        log.command(DropStage(name, NOW_MS))
    assert list(log.machine.transactions.ended) == ["b", "c"]


@pytest.mark.parametrize("command", [StageBatch("t", batch(producer=1), 7), DropStage("t", 7)])
def test_commands_come_out_as_they_went_in(command):
    assert decode_command(encode_command(command)) == command


def test_a_stored_part_keeps_its_records_and_is_marked():
    before = batch(count=3, producer=4, epoch=2, sequence=1, priority=5)
    after = published(before, publisher_id("t"), 17)
    header = parse_header(after)
    assert (header.producer_id, header.producer_epoch, header.producer_sequence) == (publisher_id("t"), 0, 17)
    assert header.flags == 1
    assert after[64:] == before[64:]
    facts = describe(after)
    assert isinstance(facts, BatchFacts)
    assert (facts.is_transactional, facts.count, facts.priority) == (True, 3, 5)


@pytest.mark.parametrize("name", ["", "t", "x" * 64, "x" * 65, "a b", "\u00e9", "a\0b", "job-7/42"])
def test_each_transaction_id_that_can_be_staged_can_be_decided(name):
    """A stage that the metadata would not decide about would wait for ever."""
    refused = PartitionMachine(describe).check(StageBatch(name, batch(producer=1), 1))
    decision = DecideTransaction(name, "", 0, (), is_commit=False, begun_ms=0, owner="", now_ms=1)
    assert (refused is None) == (MetadataMachine().check(decision) is None)


class Partition(RuleBasedStateMachine):
    """Leaders that come and go: whatever they leave half done, readers see a transaction whole or not at all, once."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = PartitionMachine(describe)
        self.index = 0
        #: Proposed and not committed.
        self.tail: list[bytes] = []
        #: What the metadata would say: whether it was committed.
        self.decided: dict[str, bool] = {}
        self.names = list("abcd")
        #: The batches in the order of offsets: producer and sequence.
        self.log: list[tuple[int, int, int]] = []
        self.new_leader()

    def new_leader(self) -> None:
        self.leader = ProduceAdmission(self.machine)
        self.stored: dict[str, None] = {}
        partial = self.machine.transactions.partial
        if partial is not None:
            self.store_again(partial)

    def store_again(self, staging: Staging) -> None:
        self.stored[staging.transaction_id] = None
        for part, before in staging.rest():
            data = published(batch(count=part.record_count), publisher_id(staging.transaction_id), before)
            patch_base_offset(data, self.leader.place(part.record_count), TERM)
            self.tail.append(bytes(data))

    def propose(self, command: Command) -> None:
        if self.machine.check(command) is None:
            self.tail.append(encode_command(command))

    @rule(name=st.sampled_from("abcd"), sequence=st.integers(0, 3), count=st.integers(1, 3))
    def stage(self, name, sequence, count):
        # The leader refuses a decided one, so nothing is staged after the decision.
        if name not in self.decided and self.leader.next_offset == self.machine.end_offset:
            self.propose(StageBatch(name, batch(count=count, producer=7, sequence=sequence), 1))

    @rule(parts=st.integers(2, 4))
    @precondition(lambda self: len(self.names) < 12)
    def transact(self, parts):
        """All at once, so that leaders are often lost in the middle of a transaction."""
        name = f"{len(self.names)}"
        self.names.append(name)
        for sequence in range(parts):
            self.propose(StageBatch(name, batch(count=2, producer=7, sequence=sequence), 1))
        self.commit(len(self.tail))
        self.decided[name] = True
        self.follow()

    @rule(name=st.sampled_from("abcd"), is_commit=st.booleans())
    @precondition(lambda self: not self.tail)
    def decide(self, name, is_commit):
        self.decided.setdefault(name, is_commit)

    @rule()
    def follow(self):
        for name, staging in list(self.machine.transactions.open.items()):
            if name in self.stored or name not in self.decided:
                continue
            if self.decided[name]:
                self.store_again(staging)
            else:
                self.propose(DropStage(name, 1))

    @rule(count=st.integers(1, 2))
    def produce(self, count):
        offset = self.leader.place(count)
        self.tail.append(batch(offset, count=count))

    @rule(count=st.integers(1, 4))
    def commit(self, count):
        for data in self.tail[:count]:
            self.index += 1
            self.machine.apply(Entry(self.index, TERM, DATA, data))
            facts = describe(data)
            if facts is not None:
                self.log.append((facts.producer_id, facts.producer_sequence, facts.count))
        del self.tail[:count]

    @rule(lost=st.integers(0, 4))
    def change_leader(self, lost):
        """The next one has all that is committed, and some of the rest."""
        if lost:
            del self.tail[-lost:]
        self.commit(len(self.tail))
        self.new_leader()

    @rule()
    def restart(self):
        again = PartitionMachine(describe)
        again.restore(self.machine.snapshot())
        assert again.state_hash() == self.machine.state_hash()
        self.machine = again
        self.change_leader(2)

    @invariant()
    def shows_whole_transactions_once(self):
        end = 0
        seen: list[tuple[int, int, int]] = []
        for row in self.log:
            end += row[2]
            if end <= self.machine.next_offset:
                seen.append(row)
        for name in self.names:
            mine = [at for at, row in enumerate(seen) if row[0] == publisher_id(name)]
            over = self.machine.transactions.ended.get(name)
            assert len(mine) == (len(over.batches) if over is not None else 0)
            assert mine == list(range(mine[0], mine[0] + len(mine))) if mine else True
            assert not mine or self.decided[name], "an aborted transaction was seen"
        assert self.machine.index.count == self.machine.next_offset - self.machine.log_start


TestPartition = Partition.TestCase
TestPartition.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
