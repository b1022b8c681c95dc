"""A leader and its machine against a naive model: repetitions, lost leaders, snapshots at any moment."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import CommitOffset, StampTime, TrimTo, encode_command
from flotilla.partition.leader.produce_admission import Assigned, DuplicateInFlight, ProduceAdmission
from flotilla.partition.queries import Position
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.producers import Duplicate
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import OutOfWindowError, ProducerFencedError, SequenceGapError
from tests.unit.partition.batches import TERM, batch, describe, facts
from tests.unit.partition.naive import NaivePartition, Stored

ENTRIES_MAX = 5
WINDOW_MS = 2_560
HORIZON_MS = 160

PRODUCERS = st.integers(1, 8)
COUNTS = st.integers(1, 3)
GROUPS = st.sampled_from(["a", "b"])
ERRORS = {SequenceGapError: "gap", ProducerFencedError: "fenced", OutOfWindowError: "out of window"}


def named(found):
    if isinstance(found, Assigned):
        return "new", -1
    if isinstance(found, Duplicate):
        return "duplicate", found.first_offset
    if isinstance(found, DuplicateInFlight):
        return "in flight", found.first_offset
    return ERRORS[type(found)], -1


def new_machine() -> PartitionMachine:
    return PartitionMachine(describe, entries_max=ENTRIES_MAX, window_ms=WINDOW_MS, horizon_ms=HORIZON_MS)


class Partition(RuleBasedStateMachine):
    """Entries are proposed at the end of `tail` and committed from its front, as in a log."""

    def __init__(self) -> None:
        super().__init__()
        #: A function that encodes an earlier state, and the bytes of that state.
        self.frozen = None
        self.machine = new_machine()
        #: The same entries, but never restored from a snapshot.
        self.twin = new_machine()
        self.leader = ProduceAdmission(self.machine)
        self.naive = NaivePartition(ENTRIES_MAX, WINDOW_MS, HORIZON_MS)
        self.index = 0
        self.now_ms = 0
        #: Proposed and not committed: the bytes, and what the model does with them.
        self.tail: list[tuple[bytes, Stored | StampTime | CommitOffset | TrimTo]] = []
        self.sent: list[Stored] = []
        self.positions: dict[str, int] = {}
        self.log_start = 0

    # Producers.

    @rule(producer=PRODUCERS, count=COUNTS, is_new_epoch=st.integers(0, 9).map(lambda number: number == 0))
    def send_next(self, producer, count, is_new_epoch):
        mine = [sent for sent in self.sent if sent.producer == producer]
        if not mine:
            self.admit(producer, 0, 0, count)
        elif is_new_epoch:
            self.admit(producer, mine[-1].epoch + 1, 0, count)
        else:
            self.admit(producer, mine[-1].epoch, mine[-1].end, count)

    @rule(data=st.data())
    @precondition(lambda self: self.sent)
    def repeat(self, data):
        """Any batch that was ever sent, wherever it is by now, mostly as it was."""
        again = data.draw(st.sampled_from(self.sent[-12:]))
        cut = data.draw(st.sampled_from([0, 0, 0, 1]))
        longer = data.draw(st.sampled_from([0, 0, 0, 1]))
        count = max(again.count - cut, 1) + longer
        self.admit(again.producer, again.epoch, again.sequence + min(cut, again.count - 1), count)

    @rule(producer=PRODUCERS, epoch=st.integers(0, 2), sequence=st.integers(0, 12), count=COUNTS)
    def send_anything(self, producer, epoch, sequence, count):
        self.admit(producer, epoch, sequence, count)

    @rule(count=COUNTS)
    def send_without_protection(self, count):
        self.admit(0, 0, 0, count)

    def admit(self, producer, epoch, sequence, count, *, is_refused=False):
        offset = self.leader.next_offset
        expected = self.naive.admit(producer, epoch, sequence, count) if producer else ("new", -1)
        sent = Stored(producer, epoch, sequence, count, offset)
        found = self.leader.admit(facts(count, producer, epoch, sequence), sent)
        assert named(found) == expected
        if isinstance(found, DuplicateInFlight):
            assert found.token in self.naive.in_flight
            assert found.token.offset <= found.first_offset < found.token.offset + found.token.count
        if not isinstance(found, Assigned):
            assert self.leader.next_offset == offset
            return
        assert found.base_offset == offset
        if is_refused:
            self.leader.retract(offset)
            assert self.leader.next_offset == offset
            return
        data = batch(offset, count=count, producer=producer, epoch=epoch, sequence=sequence)
        self.tail.append((data, sent))
        self.naive.in_flight.append(sent)
        self.sent.append(sent)

    @rule(producer=st.integers(0, 8), count=COUNTS)
    def send_into_a_full_queue(self, producer, count):
        """Consensus takes no more proposals: the batch is taken back, and leaves no trace."""
        mine = [sent for sent in self.sent if sent.producer == producer]
        sequence = mine[-1].end if mine and producer else 0
        self.admit(producer, mine[-1].epoch if mine else 0, sequence, count, is_refused=True)

    # Commands.

    @rule(later_ms=st.sampled_from([0, 5, 100, 1_000, WINDOW_MS]))
    def stamp(self, later_ms):
        self.now_ms += later_ms
        self.propose(StampTime(self.now_ms))

    @rule(group=GROUPS, share=st.integers(0, 4), reset=st.booleans())
    def commit_offset(self, group, share, reset):
        self.propose(CommitOffset(group, self.machine.next_offset * share // 4, self.now_ms, reset))

    @rule(share=st.integers(0, 4))
    def trim(self, share):
        self.propose(TrimTo(self.machine.next_offset * share // 4, self.now_ms))

    def propose(self, command):
        assert self.machine.check(command) is None
        self.tail.append((encode_command(command), command))

    # The log.

    @rule(count=st.integers(1, 6))
    @precondition(lambda self: self.tail)
    def commit(self, count):
        for _ in range(min(count, len(self.tail))):
            self.apply_first()

    @rule(data=st.data())
    def change_leader(self, data):
        """The next leader has some of the entries in flight, applies them, and begins."""
        kept = data.draw(st.integers(0, len(self.tail)))
        self.leader.end()
        for _ in range(kept):
            self.apply_first()
        self.tail.clear()
        self.naive.in_flight.clear()
        self.sent = [sent for sent in self.sent if not sent.producer or sent.offset < self.machine.next_offset]
        self.leader = ProduceAdmission(self.machine)

    @rule()
    def restore(self):
        data = self.machine.snapshot()
        self.machine.restore(data)
        assert self.machine.snapshot() == data

    @rule()
    def freeze(self):
        self.frozen = (self.machine.freeze(), self.machine.snapshot())

    @invariant()
    def a_view_stays_as_it_was(self):
        if self.frozen is not None:
            encode, data = self.frozen
            assert b"".join(encode()) == data

    def apply_first(self):
        data, what = self.tail.pop(0)
        self.index += 1
        reply = self.machine.apply(Entry(self.index, TERM, DATA, data))
        assert self.twin.apply(Entry(self.index, TERM, DATA, memoryview(data))) == reply
        if isinstance(what, Stored):
            assert isinstance(reply, BatchFacts)
            assert reply.base_offset == what.offset
            assert self.naive.in_flight.pop(0) is what
            self.naive.store(what)
            return
        if isinstance(what, StampTime):
            self.naive.stamp(what.now_ms)
        elif isinstance(what, CommitOffset):
            stands = self.positions.get(what.group, 0)
            self.positions[what.group] = what.offset if what.reset else max(stands, what.offset)
            assert isinstance(reply, Position)
            assert reply.offset == self.positions[what.group]
        elif isinstance(what, TrimTo):
            self.log_start = max(self.log_start, what.offset)
            assert reply == self.log_start

    # What always holds.

    @invariant()
    def both_copies_are_equal(self):
        assert self.machine.snapshot() == self.twin.snapshot()
        assert self.machine.state_hash() == self.twin.state_hash()

    @invariant()
    def the_model_agrees(self):
        machine = self.machine
        assert machine.next_offset == self.naive.next_offset
        assert machine.log_start == self.log_start
        assert {name: position.offset for name, position in machine.positions.items()} == self.positions
        assert list(machine.producers.ring) == [batch.producer for batch in self.naive.window]
        assert list(machine.producers.idle) == [batch.producer for batch in self.naive.idle]
        assert [mark[:2] for mark in machine.producers.marks] == self.naive.marks
        assert self.leader.next_offset == machine.next_offset + sum(batch.count for batch in self.naive.in_flight)


Partition.TestCase.settings = settings(max_examples=100, stateful_step_count=60)
test_a_partition_is_what_the_model_says = Partition.TestCase
