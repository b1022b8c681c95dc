"""The state machine of one partition: its offsets, its producers, and all of its groups.

Deterministic and total. An entry is a record batch, whose facts are read by the function `describe`, or a command
(`commands`). An invalid command is answered with an error and changes nothing. The leader has checked a batch before it
assigned its offset (`produce_admission`): that it fits is an invariant and asserted, because refusing it here would
leave a gap before the batches after it. `group_table` has the effects of commands on groups, and `transactions` those
on transactions.

Invariants:
1. offsets are dense: a batch begins at end_offset, where the one before it ended;
2. log_start and next_offset never move back; log_start <= next_offset <= end_offset, and the last two differ only
   while a transaction is stored again in part;
3. a group's position never exceeds next_offset and moves back by reset only;
4. no index is applied twice; the applied index is part of the state;
5. the index of batches covers [log_start, next_offset).
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import Any, Protocol

from flotilla.partition.batch_facts import BatchFacts, Describe
from flotilla.partition.commands.partition_commands import (
    Command,
    ConcludeStage,
    ConfigureDedup,
    DropStage,
    GroupSettlement,
    HandOver,
    StageBatch,
    StageSettlement,
    StampTime,
    TrimTo,
    decode_command,
)
from flotilla.partition.offset_runs import RunSet
from flotilla.partition.queries import (
    DescribePartition,
    GroupPosition,
    ListGroups,
    ListPositions,
    PartitionFacts,
    Position,
    PositionFound,
    StateHash,
)
from flotilla.partition.state.batch_index import BatchIndex
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.group_table import GroupTable, check_results
from flotilla.partition.state.idempotency_keys import KeyTable
from flotilla.partition.state.producers import ProducerTable
from flotilla.partition.state.remains import dismantle
from flotilla.partition.state.results import ResultTable
from flotilla.partition.state.snapshot import Contents, Counters, decode_snapshot, encode, freeze
from flotilla.partition.state.stored_times import StoredTimes
from flotilla.partition.state.transactions import Concluded, StagedAcks, StagedTransactions, Staging
from flotilla.types.errors import FlotillaError, InvalidArgumentError, OffsetOutOfRangeError, UnknownEntryError
from flotilla.types.ids import Index, Offset
from flotilla.types.limits import DEDUP_HORIZON_MS
from flotilla.types.snapshot_data import SnapshotData
from flotilla.types.topics import SETTINGS

_ENTRIES = SETTINGS["dedup_window_entries"]
_WINDOW = SETTINGS["dedup_window_ms"]
_counters_of = attrgetter(*Counters._fields)
#: The head of a command stores 64 bits.
_TIME_MS_MAX = 2**63 - 1


class LoggedEntry(Protocol):
    """A committed entry, as far as the machine needs it."""

    @property
    def index(self) -> Index: ...

    @property
    def data(self) -> bytes | memoryview: ...


class PartitionMachine:
    """One partition. The bounds of the window hold until a ConfigureDedup changes them."""

    def __init__(
        self,
        describe: Describe,
        *,
        entries_max: int = _ENTRIES.default,
        window_ms: int = _WINDOW.default,
        horizon_ms: int = DEDUP_HORIZON_MS,
    ) -> None:
        """`horizon_ms` is the same at all replicas."""
        self._describe = describe
        self._first_bounds = (entries_max, window_ms, horizon_ms)
        self._reset()

    def _reset(self) -> None:
        #: The index of the newest entry whose effect the state holds.
        self.applied: Index = 0
        #: The first offset that readers can have. Moved by TrimTo.
        self.log_start: Offset = 0
        #: Records below are visible. Moved by every batch, and by the last one of a transaction for all of them.
        self.next_offset: Offset = 0
        #: Of the next record in the log.
        self.end_offset: Offset = 0
        self.max_time_ms = 0
        self.batches_total = 0
        self.bytes_total = 0
        #: Log time, the newest stamp. It never goes back, and no other command moves it (`leader/log_time`).
        self.clock_ms = 0
        self.producers = ProducerTable(*self._first_bounds)
        self.keys = KeyTable(self.producers.entries_max)
        self.stored = StoredTimes()
        #: Priorities and times of delivery of everything in the log.
        self.index = BatchIndex()
        self.transactions = StagedTransactions()
        #: Of acked messages of all queue groups.
        self.results = ResultTable()
        self._hand_over: tuple[Index, HandOver] | None = None
        self._set_groups(GroupTable(self))

    def _set_groups(self, groups: GroupTable) -> None:
        self._all_groups = groups
        #: For reading only: groups with a committed offset, fences of stream groups, queue groups, and cancelled
        #: messages.
        self.positions: dict[str, Position] = groups.positions
        self.fences: dict[str, int] = groups.fences
        self.groups: dict[str, GroupState] = groups.queues
        self.cancelled: RunSet = groups.cancelled
        self._rules: dict[type[Any], Callable[[Any], None]] = {
            StampTime: _accept,
            HandOver: _accept,
            TrimTo: self._check_trim,
            ConfigureDedup: _check_bounds,
            StageBatch: self._check_stage,
            StageSettlement: self._check_stage_settlement,
            ConcludeStage: self._check_conclude,
            DropStage: self._check_drop,
            **groups.rules(),
        }
        self._effects: dict[type[Any], Callable[[Any], object]] = {
            StampTime: self._stamp,
            HandOver: self._note_hand_over,
            TrimTo: self._trim_to,
            ConfigureDedup: self._configure_dedup,
            StageBatch: self._stage,
            StageSettlement: self._stage_settlement,
            ConcludeStage: self._conclude_stage,
            DropStage: self._drop_stage,
            **groups.effects(),
        }

    # The interface of a replica.

    def apply(self, entry: LoggedEntry) -> object:
        """The facts of the stored batch; or the result of the command's effect; or a FlotillaError.

        A batch of a transaction is answered with Published, which holds the batches that became visible. Raises
        UnknownEntryError for an entry of a later version.
        """
        index = entry.index
        assert index > self.applied, f"entry {index} was applied before ({self.applied})"
        self.applied = index
        facts = self._describe(entry.data)
        if facts is None:
            return self._apply_command(entry.data)
        base_offset = facts.base_offset
        assert base_offset == self.end_offset, f"a batch at {base_offset} where {self.end_offset} follows"
        self.batches_total += 1
        self.bytes_total += facts.size_bytes
        self.end_offset = base_offset + facts.count
        if facts.is_transactional:
            published = self.transactions.publish(facts, index)
            for shown in published.batches:
                self._make_visible(shown)
            self._settle_staged(published.acks)
            return published
        assert self.next_offset == base_offset, "a batch came between those of a transaction"
        if facts.producer_id:
            self.producers.record(
                facts.producer_id, facts.producer_epoch, facts.producer_sequence, facts.count, base_offset
            )
        if facts.idempotency_keys:
            self.keys.record(base_offset, facts.idempotency_keys)
        self._make_visible(facts)
        return facts

    def _make_visible(self, facts: BatchFacts) -> None:
        """The batch is visible from now on."""
        next_offset = facts.base_offset + facts.count
        self.index.append(facts.base_offset, next_offset, facts.priority, facts.deliver_at_ms)
        self.next_offset = next_offset
        if facts.max_time_ms > self.max_time_ms:
            self.max_time_ms = facts.max_time_ms

    def _apply_command(self, data: bytes | memoryview) -> object:
        try:
            command = decode_command(data)
            self._check(command)
        except UnknownEntryError:
            # Of a later version. Skipping it would make this state another one: the replica is cut off.
            raise
        except FlotillaError as error:
            return error.with_traceback(None)
        return self._effects[type(command)](command)

    def read(self, query: object) -> object:
        if isinstance(query, GroupPosition):
            return PositionFound(self.positions.get(query.group), self.applied)
        if isinstance(query, DescribePartition):
            return PartitionFacts(
                self.log_start, self.next_offset, self.max_time_ms, self.batches_total, self.bytes_total
            )
        if isinstance(query, ListPositions):
            return dict(sorted(self.positions.items()))
        if isinstance(query, ListGroups):
            return self._all_groups.kinds()
        if isinstance(query, StateHash):
            return self.state_hash()
        return InvalidArgumentError(f"a partition cannot be asked for {type(query).__name__}")

    def snapshot(self) -> bytes:
        return b"".join(self.freeze()())

    def freeze(self) -> Callable[[], Iterator[bytes]]:
        """The present state as a function that encodes it, piece by piece. Any thread may call that, later."""
        return partial(encode, freeze(self._contents()))

    def _contents(self) -> Contents:
        return Contents(
            counters=Counters(*_counters_of(self)),
            positions=self.positions,
            fences=self.fences,
            ended_fences=self._all_groups.ended_fences,
            ends=self._all_groups.ends,
            producers=self.producers,
            keys=self.keys,
            index=self.index,
            cancelled=self.cancelled,
            queues=self.groups,
            stored=self.stored,
            transactions=self.transactions,
            results=self.results,
        )

    def decode(self, data: SnapshotData) -> Contents | None:
        """The state of a snapshot, for `restore`. Depends on the bytes alone: any thread may call it.

        Raises CorruptionError when the bytes are no snapshot.
        """
        return decode_snapshot(data) if data else None

    def restore(self, data: SnapshotData, decoded: object = None) -> Iterator[None]:
        """Returns the old state, to be freed step by step.

        Raises CorruptionError and keeps the state when the bytes are no snapshot.
        """
        contents = decoded if isinstance(decoded, Contents) else self.decode(data)
        remains = dismantle(self._contents())
        if contents is None:
            self._reset()
        else:
            self._take_over(contents)
        return remains

    def _take_over(self, contents: Contents) -> None:
        for name, value in contents.counters._asdict().items():
            setattr(self, name, value)
        self.producers = contents.producers
        self.producers.horizon_ms = self._first_bounds[-1]
        self.keys = contents.keys
        self.index = contents.index
        self.stored = contents.stored
        self.transactions = contents.transactions
        self.results = contents.results
        self._hand_over = None
        groups = GroupTable(self)
        groups.positions = contents.positions
        groups.fences = contents.fences
        groups.ended_fences = contents.ended_fences
        groups.ends = contents.ends
        groups.queues = contents.queues
        groups.cancelled = contents.cancelled
        self._set_groups(groups)

    def check(self, command: Command) -> FlotillaError | None:
        """The error that applying the command would return now; None: it would be applied."""
        try:
            self._check(command)
        except FlotillaError as error:
            return error.with_traceback(None)
        return None

    def needed_from(self) -> Offset:
        """Storage below may be freed: the log's start, or the lowest message without its dead letter.

        A leader does not trim dying messages; but it may not know of a death in the log just before its TrimTo.
        """
        dying = [group.lowest_dying() for group in self.groups.values()]
        return min([self.log_start, *[offset for offset in dying if offset is not None]])

    def hand_over_at(self, index: Index) -> HandOver | None:
        """The hand-over of exactly this entry. It is no part of the state: a snapshot does not hold it."""
        found = self._hand_over
        return found[1] if found is not None and found[0] == index else None

    def state_hash(self) -> str:
        return sha256(self.snapshot()).hexdigest()

    # Rules of commands. Each returns or raises a FlotillaError.

    def _check(self, command: Command) -> None:
        if not 0 <= command.now_ms <= _TIME_MS_MAX:
            raise InvalidArgumentError(f"{command.now_ms} ms is no time")
        self._rules[type(command)](command)

    def _check_trim(self, command: TrimTo) -> None:
        if not 0 <= command.offset <= self.next_offset:
            raise OffsetOutOfRangeError(f"offset {command.offset} is not between 0 and {self.next_offset}")

    def _check_stage(self, command: StageBatch) -> None:
        self.transactions.check_stage(command.transaction_id, self._staged_facts(command))

    def _check_stage_settlement(self, command: StageSettlement) -> None:
        settlement = command.settlement
        acks = GroupSettlement(
            settlement.group, settlement.acked, generation=settlement.generation, results=settlement.results
        )
        if settlement != acks:
            raise InvalidArgumentError("a transaction acknowledges messages, and settles them in no other way")
        self._all_groups.check_unsettled(settlement.group, settlement.generation, settlement.acked)
        check_results(settlement.results, self.next_offset)
        self.transactions.check_acks(command.transaction_id, _staged_acks(settlement))

    def _check_conclude(self, command: ConcludeStage) -> None:
        self.transactions.check_conclude(command.transaction_id)

    def _check_drop(self, command: DropStage) -> None:
        self.transactions.check_drop(command.transaction_id)

    def _staged_facts(self, command: StageBatch) -> BatchFacts:
        facts = self._describe(command.batch)
        if facts is None or facts.is_transactional:
            raise InvalidArgumentError("a StageBatch holds no batch")
        return facts

    # Effects of commands that passed their rule.

    def _stamp(self, command: StampTime) -> None:
        if command.now_ms > self.clock_ms:
            self.clock_ms = command.now_ms
            self.stored.note(self.clock_ms, self.next_offset)
            self.results.stamp(self.clock_ms)
            keys = self.keys
            passed = self.producers.stamp(self.clock_ms, self.next_offset, keys.recorded, len(keys))
            # Keys beyond the count go by marks too: at least as many as the count stay.
            beyond = self.producers.old_mark(self.clock_ms, keys.recorded - keys.entries_max)
            for mark in (passed, beyond):
                if mark is not None:
                    keys.forget_below(mark.end, mark.keys)

    def _note_hand_over(self, command: HandOver) -> None:
        self._hand_over = None if command.is_void else (self.applied, command)

    def _stage(self, command: StageBatch) -> Staging:
        facts = self._staged_facts(command)
        return self.transactions.stage(command.transaction_id, self.applied, facts, command.now_ms, command.timeout_ms)

    def _stage_settlement(self, command: StageSettlement) -> Staging:
        acks = _staged_acks(command.settlement)
        return self.transactions.stage_acks(command.transaction_id, acks, command.now_ms, command.timeout_ms)

    def _conclude_stage(self, command: ConcludeStage) -> Concluded:
        concluded = self.transactions.conclude(command.transaction_id)
        self._settle_staged(concluded.acks)
        return concluded

    def _settle_staged(self, staged: tuple[StagedAcks, ...]) -> None:
        for acks in staged:
            self._all_groups.settle_acked(*acks)

    def _drop_stage(self, command: DropStage) -> Concluded:
        return self.transactions.drop(command.transaction_id)

    def _trim_to(self, command: TrimTo) -> Offset:
        """The log's start now: after the command's offset if it was already, or before it for a new group."""
        offset = command.offset if not command.known else self._all_groups.spared(command.offset, command.known)
        if offset > self.log_start:
            self.log_start = offset
            self.index.trim(offset)
            self.stored.forget_below(offset)
            self._all_groups.trim(offset)
        return self.log_start

    def _configure_dedup(self, command: ConfigureDedup) -> None:
        self.producers.configure(command.entries_max, command.window_ms)
        self.keys.configure(command.entries_max)


def _staged_acks(settlement: GroupSettlement) -> StagedAcks:
    return StagedAcks(settlement.group, settlement.generation, settlement.acked, settlement.results)


def _accept(_: Command) -> None:
    """The rule of a command that only carries the time."""


def _check_bounds(command: ConfigureDedup) -> None:
    _ENTRIES.check(command.entries_max)
    _WINDOW.check(command.window_ms)
