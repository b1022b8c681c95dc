"""The admission of batches by the leader of a partition: a batch gets its offset, or is known already.

Lives on the leader only, for one term. It begins when everything in the leader's log has been applied, so that the
machine knows all there is. From then on every batch passes through here in the order of the log: so offsets are dense,
although they are assigned before anything is committed. Idempotency keys are compared with those stored and those in
flight. When leadership ends everything here is dropped; the next leader learns from its own log which batches survived.

A batch that is sent again while its first copy is in flight joins that copy: the caller gets the token of the first
one, and answers both from it. An applied batch needs no report: the machine's end offset says which batches are still
in flight.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.state.idempotency_keys import PendingKeys, digests_of
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.producers import NEW, SEQUENCE_MASK, Duplicate, New, SequenceCheck, begin_epoch, gap
from flotilla.types.errors import FlotillaError, InvalidArgumentError, OverloadedError
from flotilla.types.ids import Offset
from flotilla.types.limits import DEDUP_HORIZON_MS


@dataclass(slots=True)
class Assigned:
    """Propose the batch now, with this base offset; nothing may be admitted in between."""

    base_offset: Offset


@dataclass(slots=True)
class DuplicateInFlight:
    """The same batch is in flight: answer with the result of `token`."""

    token: object
    first_offset: Offset


@dataclass(slots=True)
class KnownKeys:
    """Refused: records at these positions of the batch have keys that were stored before.

    The producer leaves them out and sends the rest again, with the same first sequence.
    """

    positions: tuple[int, ...]
    #: The offset of the first record with the same key, one for each position.
    offsets: tuple[Offset, ...]
    #: None: all of them are stored. Otherwise some are in flight: the answer must wait for the result of this token,
    #: because the producer takes them for stored.
    token: object | None = None


Admission: TypeAlias = Assigned | Duplicate | DuplicateInFlight | KnownKeys | FlotillaError


@dataclass(slots=True)
class _InFlight:
    """A batch of an idempotent producer that was proposed and is not known to be applied."""

    producer_id: int
    epoch: int
    sequence: int
    count: int
    base_offset: Offset
    token: object


class ProduceAdmission:
    """Assigns the offsets of one partition."""

    def __init__(self, machine: PartitionMachine) -> None:
        self._machine = machine
        #: Of the next batch to be admitted; ahead of the machine's by the batches in flight.
        self.next_offset: Offset = machine.end_offset
        #: Idempotent batches in flight in the order of offsets, and the same by producer.
        self._in_flight: deque[_InFlight] = deque()
        self._by_producer: dict[int, deque[_InFlight]] = {}
        self._keys = PendingKeys(machine.keys)
        self._is_over = False

    def admit(self, facts: BatchFacts, token: object) -> Admission:
        """Checks a batch as it came in; its own base_offset means nothing yet.

        `token` is what the caller gets back when the batch is repeated while it is in flight.
        """
        assert not self._is_over, "a batch is admitted after leadership has ended"
        base_offset = self.next_offset
        if facts.producer_id:
            if self._in_flight:
                self._drop_applied()
            found = self._check_sequence(facts.producer_id, facts)
            if not isinstance(found, New):
                return found
            if self._machine.producers.is_full(facts.producer_id):
                return _full("producers and batches")
        if facts.idempotency_keys:
            refused = self._admit_keys(facts, token)
            if refused is not None:
                return refused
        if facts.producer_id:
            self._begin(facts, token)
        self.next_offset = base_offset + facts.count
        return Assigned(base_offset)

    def _begin(self, facts: BatchFacts, token: object) -> None:
        """An idempotent batch is in flight from now on."""
        producer_id = facts.producer_id
        batch = _InFlight(
            producer_id, facts.producer_epoch, facts.producer_sequence, facts.count, self.next_offset, token
        )
        self._in_flight.append(batch)
        batches = self._by_producer.get(producer_id)
        if batches is None:
            self._by_producer[producer_id] = deque((batch,))
        else:
            batches.append(batch)

    def _admit_keys(self, facts: BatchFacts, token: object) -> Admission | None:
        """Why the batch is not admitted. None: all its keys are new, and in flight from now on."""
        digests = digests_of(facts.idempotency_keys)
        present = [digest for digest in digests if digest]
        if len(set(present)) != len(present):
            return InvalidArgumentError("two records of one batch have the same idempotency key")
        known = self._keys.find(digests, self._machine.end_offset)
        if known is None:
            if self._machine.keys.is_full():
                return _full("idempotency keys")
            self._keys.begin(self.next_offset, digests, token)
            return None
        first = known.offsets[0]
        is_whole = known.offsets == list(range(first, first + facts.count))
        # A producer with sequences would take its sequence for used: KnownKeys says that it is not.
        if is_whole and not facts.producer_id:
            return Duplicate(first) if known.token is None else DuplicateInFlight(known.token, first)
        return KnownKeys(tuple(known.positions), tuple(known.offsets), known.token)

    def place(self, count: int) -> Offset:
        """The offset of the next batch of a transaction: by the machine's state it is new."""
        assert not self._is_over, "a batch is admitted after leadership has ended"
        base_offset = self.next_offset
        self.next_offset = base_offset + count
        return base_offset

    def retract(self, base_offset: Offset) -> None:
        """Undoes the last admission: the batch could not be proposed."""
        assert self._machine.end_offset <= base_offset < self.next_offset
        self.next_offset = base_offset
        if self._in_flight and self._in_flight[-1].base_offset >= base_offset:
            batch = self._in_flight.pop()
            assert batch.base_offset == base_offset, "only the last batch can be retracted"
            batches = self._by_producer[batch.producer_id]
            batches.pop()
            if not batches:
                del self._by_producer[batch.producer_id]
        self._keys.retract(base_offset)

    def end(self) -> None:
        """Leadership is over: the next leader decides about the batches in flight."""
        self._is_over = True
        self._in_flight.clear()
        self._by_producer.clear()
        self._keys.clear()

    def wants_stamp(self, now_ms: int) -> bool:
        """Whether to propose a StampTime, so that producers and keys can expire. Idle partitions need none."""
        machine = self._machine
        return machine.producers.wants_stamp(now_ms, machine.next_offset, len(machine.keys))

    def _drop_applied(self) -> None:
        applied = self._machine.end_offset
        in_flight = self._in_flight
        while in_flight and in_flight[0].base_offset < applied:
            producer_id = in_flight.popleft().producer_id
            batches = self._by_producer[producer_id]
            batches.popleft()
            if not batches:
                del self._by_producer[producer_id]

    def _check_sequence(self, producer_id: int, facts: BatchFacts) -> SequenceCheck | DuplicateInFlight:
        batches = self._by_producer.get(producer_id)
        epoch = facts.producer_epoch
        sequence = facts.producer_sequence
        if batches is None:
            return self._machine.producers.check(producer_id, epoch, sequence, facts.count)
        newest = batches[-1]
        if epoch != newest.epoch:
            return begin_epoch(producer_id, newest.epoch, epoch, sequence)
        expected = (newest.sequence + newest.count) & SEQUENCE_MASK
        if sequence == expected:
            return NEW
        repeated = _find(batches, epoch, expected, sequence)
        if repeated is not None:
            into = (sequence - repeated.sequence) & SEQUENCE_MASK
            if into + facts.count <= repeated.count:
                return DuplicateInFlight(repeated.token, repeated.base_offset + into)
        # Not in flight, so it is stored or out of sequence. The machine does not know of batches in flight, and
        # takes the one after its last for new.
        stored = self._machine.producers.check(producer_id, epoch, sequence, facts.count)
        return gap(producer_id, expected, sequence) if stored is NEW else stored


def _full(what: str) -> OverloadedError:
    """Forgetting one would mean to store its repetition again."""
    minutes = DEDUP_HORIZON_MS // 60_000
    return OverloadedError(f"the partition remembers all the {what} of the last {minutes} minutes that it has room for")


def _find(batches: deque[_InFlight], epoch: int, expected: int, sequence: int) -> _InFlight | None:
    """The last batch of this epoch that begins at `sequence` or before."""

    def place(batch: _InFlight) -> int:
        # The distance to the expected sequence, as a negative number, so that it ascends. Older epochs come first.
        return -((expected - batch.sequence) & SEQUENCE_MASK) if batch.epoch == epoch else -SEQUENCE_MASK - 1

    at = bisect_right(batches, -((expected - sequence) & SEQUENCE_MASK), key=place) - 1
    return batches[at] if at >= 0 and batches[at].epoch == epoch else None
