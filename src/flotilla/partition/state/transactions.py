"""The transactions of a partition: staged batches and acks, and the results of past transactions.

A staged batch has an entry in the log but no offset; only its index is kept here. When the transaction is committed,
the leader stores each batch again, as an ordinary one with an offset, in the order of staging and with nothing in
between. None of them is visible before the last is stored (`held`): the partition shows its part whole, at one entry of
the log. Which parts are stored again is part of the state, so a new leader goes on where the last one stopped, and
nothing is stored twice.

Acks of a queue group's messages can be staged as well: they are settled at the same entry, or never. Until then no
leader delivers the messages, because the staged acks are part of the state.

A transaction that has ended is remembered for a while: a repeated request gets the offsets of its batches, and later
stages are refused. The decision to commit is not made here (metadata/transactions).

Invariants: a staged batch is in one stage, once, and so is a message whose ack is staged; at most one stage is stored
again in part; `held` is empty unless there is one.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
from typing import Final, NamedTuple

from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.group_commands import AckedResult
from flotilla.partition.offset_runs import Run, RunMap
from flotilla.partition.state.results import OVERHEAD_BYTES
from flotilla.types.errors import InvalidArgumentError, LeaseExpiredError, OverloadedError, TransactionEndedError
from flotilla.types.ids import Index, Offset
from flotilla.types.limits import MIB
from flotilla.types.operations.owners import check_transaction_id

#: Bounds the open transactions of one partition, and what one of them may stage there.
OPEN_COUNT_MAX: Final = 1_000
PART_COUNT_MAX: Final = 10_000
STAGED_BYTES_MAX: Final = 256 * MIB
STAGED_ACK_RUN_COUNT_MAX: Final = 10_000
#: Results of acks, of all open transactions together.
STAGED_RESULT_BYTES_MAX: Final = 16 * MIB
#: Bounds the memory of ended transactions; the oldest are forgotten first.
ENDED_COUNT_MAX: Final = 10_000
ENDED_PART_COUNT_MAX: Final = 100_000
#: Not set in the producer ids of clients.
_PRODUCER_BIT: Final = 1 << 63


class Part(NamedTuple):
    """One staged batch."""

    #: The entry that holds its bytes.
    entry_index: Index
    record_count: int
    size_bytes: int
    #: As its client numbered it. A repetition has the same.
    producer_id: int
    producer_sequence: int


class StagedAcks(NamedTuple):
    """Messages of one queue group that are acked when the transaction is committed."""

    group: str
    #: GroupState.generation when they were leased. A reset makes the acks void.
    generation: Index
    runs: tuple[Run, ...]
    #: Kept when the transaction commits.
    results: tuple[AckedResult, ...] = ()


class VisibleBatch(NamedTuple):
    """A batch of a committed transaction, with its offset."""

    producer_id: int
    producer_sequence: int
    base_offset: Offset


@dataclass(slots=True)
class Staging:
    """A transaction that has not ended in this partition."""

    transaction_id: str
    first_staged_ms: int
    #: The longest one that a stage of it asked for; 0: the default.
    timeout_ms: int = 0
    parts: list[Part] = field(default_factory=list)
    #: First offsets of the parts that are stored again, in their order.
    offsets: list[Offset] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0
    #: Producer and sequence of each part.
    names: dict[tuple[int, int], None] = field(default_factory=dict)
    acks: list[StagedAcks] = field(default_factory=list)
    ack_run_count: int = 0

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self.names[part.producer_id, part.producer_sequence] = None
        self.count += part.record_count
        self.size_bytes += part.size_bytes

    def add_acks(self, acks: StagedAcks) -> None:
        self.acks.append(acks)
        self.ack_run_count += len(acks.runs)

    def has(self, facts: BatchFacts) -> bool:
        """Whether the same batch was staged before."""
        return (facts.producer_id, facts.producer_sequence) in self.names

    def rest(self) -> list[tuple[Part, int]]:
        """The parts that are not stored again, in order, each with the count of the transaction's records before it."""
        before = accumulate([part.record_count for part in self.parts], initial=0)
        return list(zip(self.parts, before, strict=False))[len(self.offsets) :]


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that is over in this partition. With neither batches nor acks: it was dropped."""

    transaction_id: str
    batches: tuple[VisibleBatch, ...] = ()
    #: Messages that it acked.
    acked_count: int = 0

    @property
    def is_committed(self) -> bool:
        return bool(self.batches) or self.acked_count > 0


@dataclass(frozen=True, slots=True)
class Published:
    """A batch of a transaction was stored again. `batches` became visible: all of the transaction, or none yet."""

    transaction_id: str
    batches: tuple[BatchFacts, ...] = ()
    #: Settled with the last batch.
    acks: tuple[StagedAcks, ...] = ()


@dataclass(frozen=True, slots=True)
class Concluded:
    """A transaction ended without storing a batch: it was dropped, or had acks only."""

    ended: Ended
    #: Settled now, or void: then the messages are free again.
    acks: tuple[StagedAcks, ...] = ()

    @property
    def transaction_id(self) -> str:
        return self.ended.transaction_id


def publisher_id(transaction_id: str) -> int:
    """The producer id under which batches of the transaction are stored again; the same for every leader."""
    digest = blake2b(transaction_id.encode(), digest_size=8).digest()
    return _PRODUCER_BIT | int.from_bytes(digest, "little") >> 1


class StagedTransactions:
    """The transactions of one partition."""

    __slots__ = ("_acks", "_by_publisher", "_ended_parts", "_result_bytes", "ended", "held", "held_index", "open")

    def __init__(self) -> None:
        #: In the order of their first stage.
        self.open: dict[str, Staging] = {}
        #: In the order of their end.
        self.ended: OrderedDict[str, Ended] = OrderedDict()
        #: Stored again and not visible yet, and the entry of the first of them.
        self.held: list[BatchFacts] = []
        self.held_index: Index = 0
        self._by_publisher: dict[int, Staging] = {}
        #: By group and generation: the messages whose acks are staged, with their transaction.
        self._acks: dict[tuple[str, Index], RunMap[str]] = {}
        self._ended_parts = 0
        #: Of staged acks, each with its overhead.
        self._result_bytes = 0

    def put(self, staging: Iterable[Staging], ended: Iterable[Ended]) -> None:
        """Restores from a snapshot."""
        for known in staging:
            self.open[known.transaction_id] = known
            self._by_publisher[publisher_id(known.transaction_id)] = known
            for acks in known.acks:
                self._index_acks(known.transaction_id, acks)
        for over in ended:
            self._remember(over)

    @property
    def partial(self) -> Staging | None:
        """The transaction that is stored again in part. No other batch may be stored before the rest of it."""
        return self._by_publisher[self.held[0].producer_id] if self.held else None

    def oldest_index(self) -> Index | None:
        """The first entry whose staged batch is still needed."""
        return min([staging.parts[0].entry_index for staging in self.open.values() if staging.parts], default=None)

    def staged_acks(
        self, group: str, generation: Index, first: Offset, end: Offset
    ) -> list[tuple[Offset, Offset, str]]:
        """The parts of [first, end) whose acks are staged, each with its transaction."""
        known = self._acks.get((group, generation))
        return [] if known is None else list(known.within(first, end))

    # Staging.

    def check_stage(self, transaction_id: str, facts: BatchFacts) -> None:
        """Raises the error to refuse the batch with."""
        check_transaction_id(transaction_id)
        if not facts.producer_id:
            raise InvalidArgumentError("a staged batch is named by its producer and sequence, and has none")
        if facts.idempotency_keys:
            raise InvalidArgumentError("records of a transaction have no idempotency keys: it happens once as a whole")
        staging = self.open.get(transaction_id)
        if staging is None:
            self._check_new(transaction_id)
        elif not staging.has(facts):
            if staging.offsets:
                raise TransactionEndedError(f"transaction {transaction_id} was committed")
            if len(staging.parts) >= PART_COUNT_MAX or staging.size_bytes + facts.size_bytes > STAGED_BYTES_MAX:
                raise InvalidArgumentError(
                    f"a transaction stages up to {PART_COUNT_MAX} batches and {STAGED_BYTES_MAX} bytes in a partition"
                )

    def _check_new(self, transaction_id: str) -> None:
        if transaction_id in self.ended:
            raise TransactionEndedError(f"transaction {transaction_id} is over")
        if len(self.open) >= OPEN_COUNT_MAX:
            raise OverloadedError(f"{OPEN_COUNT_MAX} transactions wait in this partition")
        if publisher_id(transaction_id) in self._by_publisher:
            raise InvalidArgumentError("the transaction's id collides with another one: choose another")

    def stage(self, transaction_id: str, index: Index, facts: BatchFacts, now_ms: int, timeout_ms: int = 0) -> Staging:
        """A checked batch is in the log, perhaps not for the first time."""
        staging = self._open(transaction_id, now_ms, timeout_ms)
        if not staging.has(facts):
            staging.add(Part(index, facts.count, facts.size_bytes, facts.producer_id, facts.producer_sequence))
        return staging

    def _open(self, transaction_id: str, now_ms: int, timeout_ms: int) -> Staging:
        staging = self.open.get(transaction_id)
        if staging is None:
            staging = Staging(transaction_id, now_ms)
            self.open[transaction_id] = staging
            self._by_publisher[publisher_id(transaction_id)] = staging
        staging.timeout_ms = max(staging.timeout_ms, timeout_ms)
        return staging

    def check_acks(self, transaction_id: str, acks: StagedAcks) -> None:
        """Raises the error to refuse the acks with. Whether their messages are settled is checked by `group_table`."""
        check_transaction_id(transaction_id)
        if not acks.runs:
            raise InvalidArgumentError("no ack is staged")
        staging = self.open.get(transaction_id)
        if staging is None:
            self._check_new(transaction_id)
        elif staging.offsets:
            raise TransactionEndedError(f"transaction {transaction_id} was committed")
        elif staging.ack_run_count + len(acks.runs) > STAGED_ACK_RUN_COUNT_MAX:
            raise InvalidArgumentError(
                f"a transaction acknowledges up to {STAGED_ACK_RUN_COUNT_MAX} runs of messages in a partition"
            )
        if acks.results and self._result_bytes + _result_bytes(acks) > STAGED_RESULT_BYTES_MAX:
            raise OverloadedError(f"transactions of this partition stage results of {STAGED_RESULT_BYTES_MAX} bytes")
        above = 0
        for first, end in acks.runs:
            if first < above:
                raise InvalidArgumentError("runs of acks are in the order of offsets, and apart")
            above = end
            for low, _, other in self.staged_acks(acks.group, acks.generation, first, end):
                raise LeaseExpiredError(f"the ack of message {low} is staged by transaction {other}")

    def stage_acks(self, transaction_id: str, acks: StagedAcks, now_ms: int, timeout_ms: int = 0) -> Staging:
        """The acks were checked."""
        staging = self._open(transaction_id, now_ms, timeout_ms)
        staging.add_acks(acks)
        self._index_acks(transaction_id, acks)
        return staging

    def _index_acks(self, transaction_id: str, acks: StagedAcks) -> None:
        known = self._acks.setdefault((acks.group, acks.generation), RunMap())
        for first, end in acks.runs:
            known.set(first, end, transaction_id)
        self._result_bytes += _result_bytes(acks)

    # Ends.

    def publish(self, facts: BatchFacts, index: Index) -> Published:
        """A part is stored again. The leader has made sure that it is the next one."""
        staging = self._by_publisher[facts.producer_id]
        part = staging.parts[len(staging.offsets)]
        assert part.record_count == facts.count, "a batch of a transaction was stored out of order"
        assert not self.held or self.held[0].producer_id == facts.producer_id, "two transactions are mixed"
        if not self.held:
            self.held_index = index
        self.held.append(_visible(facts))
        staging.offsets.append(facts.base_offset)
        if len(staging.offsets) < len(staging.parts):
            return Published(staging.transaction_id)
        batches = tuple(self.held)
        self.held = []
        self.held_index = 0
        shown = [
            VisibleBatch(part.producer_id, part.producer_sequence, offset)
            for part, offset in zip(staging.parts, staging.offsets, strict=True)
        ]
        self._end(Ended(staging.transaction_id, tuple(shown), _acked_count(staging)))
        return Published(staging.transaction_id, batches, tuple(staging.acks))

    def check_conclude(self, transaction_id: str) -> None:
        """Raises the error to refuse a ConcludeStage with."""
        staging = self.open.get(transaction_id)
        if staging is not None and staging.parts:
            raise InvalidArgumentError(f"transaction {transaction_id} ends with the last of its batches")
        if staging is None and transaction_id not in self.ended:
            raise TransactionEndedError(f"nothing is staged here for transaction {transaction_id}")

    def conclude(self, transaction_id: str) -> Concluded:
        """Ends a committed transaction with acks only. One that is over stays as it ended."""
        staging = self.open.get(transaction_id)
        if staging is None:
            return Concluded(self.ended[transaction_id])
        ended = Ended(transaction_id, (), _acked_count(staging))
        self._end(ended)
        return Concluded(ended, tuple(staging.acks))

    def check_drop(self, transaction_id: str) -> None:
        """Raises the error to refuse a DropStage with."""
        staging = self.open.get(transaction_id)
        if staging is not None and staging.offsets:
            raise TransactionEndedError(f"transaction {transaction_id} was committed")

    def drop(self, transaction_id: str) -> Concluded:
        """Drops the stage. A transaction that is over stays as it ended."""
        if transaction_id in self.ended:
            return Concluded(self.ended[transaction_id])
        staging = self.open.get(transaction_id)
        ended = Ended(transaction_id)
        self._end(ended)
        return Concluded(ended, () if staging is None else tuple(staging.acks))

    def _end(self, ended: Ended) -> None:
        staging = self.open.pop(ended.transaction_id, None)
        if staging is not None:
            del self._by_publisher[publisher_id(ended.transaction_id)]
            for acks in staging.acks:
                known = self._acks[acks.group, acks.generation]
                for first, end in acks.runs:
                    known.remove(first, end)
                if not known:
                    del self._acks[acks.group, acks.generation]
                self._result_bytes -= _result_bytes(acks)
        self._remember(ended)

    def _remember(self, ended: Ended) -> None:
        self.ended[ended.transaction_id] = ended
        self._ended_parts += len(ended.batches)
        while len(self.ended) > ENDED_COUNT_MAX or (self._ended_parts > ENDED_PART_COUNT_MAX and len(self.ended) > 1):
            _, oldest = self.ended.popitem(last=False)
            self._ended_parts -= len(oldest.batches)


def _result_bytes(acks: StagedAcks) -> int:
    return sum([len(result.payload) + OVERHEAD_BYTES for result in acks.results])


def _acked_count(staging: Staging) -> int:
    return sum([end - first for acks in staging.acks for first, end in acks.runs])


def _visible(facts: BatchFacts) -> BatchFacts:
    """The facts that are needed when the batch becomes visible."""
    return replace(facts, producer_epoch=0, idempotency_keys=())
