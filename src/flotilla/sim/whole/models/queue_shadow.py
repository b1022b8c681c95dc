"""A shadow of one partition's queue groups: every message, and its state in every group, in plain dictionaries.

The first replica that applies an entry updates the shadow, from the command and not from the machine's result. Every
replica that applies the same entry, or restores a snapshot of that index, must come to the same sums: what is settled,
how often it failed, what is dead and buried. So a missing attempt, a position that moves back or a lost ack is found at
once, on whichever replica it happens.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple
from zlib import crc32

from flotilla.codec.batch.view import BatchView
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.group_commands import GroupSettlement
from flotilla.partition.commands.partition_commands import (
    BuryDeaths,
    CancelRecords,
    ClaimPartition,
    CommitOffset,
    ConcludeStage,
    DeleteGroup,
    DeliverNow,
    DropStage,
    EndGroup,
    OpenGroup,
    ResetGroup,
    SettleRuns,
    StageBatch,
    StageSettlement,
    TrimTo,
    decode_command,
)
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Published
from flotilla.raft.messages import Entry
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.models.queue_transactions import NaiveAcks, NaiveStage, Registry, StageShadow
from flotilla.types.errors import FlotillaError, StaleGenerationError
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import GroupId, Index, NodeId, Offset
from flotilla.types.records import Record

#: The ends of a message.
ACKED: Final = "acked"
EXPIRED: Final = "expired"
DROPPED: Final = "dropped"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"
TRIMMED: Final = "trimmed"


class Message(NamedTuple):
    """The message at an offset."""

    #: What its producer knows it by.
    identity: Hashable
    key: bytes | None
    deliver_at_ms: int
    timestamp_ms: int
    ttl_ms: int
    max_deliveries: int


class Failures:
    """The failures of one message in one group: at which entries, and the backoff after each."""

    __slots__ = ("indexes", "not_before_ms")

    def __init__(self) -> None:
        self.indexes: list[Index] = []
        self.not_before_ms: list[int] = []


class GroupShadow:
    """One queue group."""

    def __init__(self, name: str, rules_of: Callable[[str], GroupRules]) -> None:
        self.name = name
        self._rules_of = rules_of
        #: Offsets in the order of deaths, and when each died.
        self.deaths: list[Offset] = []
        self.died_ms: list[int] = []
        self.buried: dict[int, None] = {}
        self.begin(0, 0)

    @property
    def rules(self) -> GroupRules:
        """In force now."""
        return self._rules_of(self.name)

    def begin(self, start: Offset, index: Index) -> None:
        """The group was opened or reset by this entry: nothing is settled, nothing has failed."""
        self.generation = index
        self.start = start
        self.floor = start
        #: By offset: how it ended, and at which entry.
        self.settled: dict[Offset, tuple[str, Index]] = {}
        self.failures: dict[Offset, Failures] = {}
        #: Attempts of all that is not settled.
        self.open_attempts = 0
        #: By offset: from which entry on, and up to which, a transaction holds it back.
        self.staged: dict[Offset, list[tuple[Index, Index | None]]] = {}

    def is_staged(self, offset: Offset, applied: Index) -> bool:
        """Whether a transaction holds it back, for a replica that has applied up to `applied`."""
        times = self.staged.get(offset, ())
        return any(begun <= applied and (ended is None or applied < ended) for begun, ended in times)

    def attempts(self, offset: Offset, applied: Index) -> int:
        """How often it had failed, for a replica that has applied up to `applied`."""
        failures = self.failures.get(offset)
        return 0 if failures is None else bisect_right(failures.indexes, applied)

    def not_before_ms(self, offset: Offset, applied: Index) -> int:
        attempts = self.attempts(offset, applied)
        return self.failures[offset].not_before_ms[attempts - 1] if attempts else 0

    def is_settled(self, offset: Offset, applied: Index) -> bool:
        ended = self.settled.get(offset)
        return offset < self.start or (ended is not None and ended[1] <= applied)

    def settle(self, offset: Offset, how: str, index: Index) -> bool:
        """False: it was settled before, and nothing changes."""
        if offset < self.start or offset in self.settled:
            return False
        self.settled[offset] = (how, index)
        failures = self.failures.get(offset)
        self.open_attempts -= 0 if failures is None else len(failures.indexes)
        while self.floor in self.settled:
            self.floor += 1
        return True

    def fail(self, offset: Offset, not_before_ms: int, index: Index) -> None:
        if offset < self.start or offset in self.settled:
            return
        failures = self.failures.setdefault(offset, Failures())
        failures.indexes.append(index)
        failures.not_before_ms.append(not_before_ms)
        self.open_attempts += 1

    def sums(self) -> tuple[object, ...]:
        above = len(self.settled) - (self.floor - self.start)
        return self.floor, above, self.open_attempts, len(self.deaths), len(self.deaths) - len(self.buried)


class Ways:
    """What a shadow has to be told about its partition."""

    #: Of its topic.
    topic_id: int = 0

    def rules_of(self, name: str) -> GroupRules:
        """Of a queue group, now."""
        raise NotImplementedError

    def holders(self) -> Iterable[str]:
        """Groups that hold retention, whether they have been opened or not."""
        raise NotImplementedError

    def identity_of(self, record: Record) -> tuple[Hashable, bool]:
        """What its producer knows it by, and whether no other record may have the same."""
        raise NotImplementedError

    def letter_in(self, record: Record) -> Hashable | None:
        """The death that a dead letter tells of; None: it is an ordinary message."""
        raise NotImplementedError

    def letter_of(self, group: GroupShadow, number: int) -> Hashable:
        """The same, of a death in a group of this partition."""
        raise NotImplementedError

    def died(self, group: GroupShadow) -> None:
        """One more message of the group."""

    def is_copied(self, letter: Hashable) -> bool:
        """Whether a letter that is stored may come to this partition again: one of the two topics was deleted."""
        return False

    def is_dead(self, letter: Hashable) -> bool:
        """Whether a message has died in any partition for this letter to be written."""
        return True


class QueueShadow:
    """One partition."""

    def __init__(
        self,
        group: GroupId,
        ways: Ways,
        letters: dict[Hashable, int],
        registry: Registry,
    ) -> None:
        """`letters`: the id of the topic that has a dead letter. All shadows share it and the registry."""
        self._ways = ways
        self.stages = StageShadow(group, registry)
        #: Records of a transaction that are stored and not visible yet.
        self._held: list[Record] = []
        self.letters = letters
        self.messages: list[Message] = []
        self.places: dict[Hashable, Offset] = {}
        #: Batches of producers that number them: (producer, epoch, sequence), and where they stand.
        self._sequences: dict[tuple[int, int, int], Offset] = {}
        #: By key, in order.
        self.by_key: dict[bytes, list[Offset]] = {}
        self.log_start: Offset = 0
        self.next_offset: Offset = 0
        self.groups: dict[str, GroupShadow] = {}
        self.positions: dict[str, Offset] = {}
        #: Of stream groups: the epoch under which a member has claimed the partition.
        self.fences: dict[str, int] = {}
        #: Of groups that were deleted.
        self._ended_fences: dict[str, int] = {}
        self._ends: dict[str, Index] = {}
        self.cancelled: dict[Offset, None] = {}
        self.newest: Index = 0
        #: By the index of the entry after which they are valid.
        self._sums: dict[Index, tuple[object, ...]] = {0: self.sums()}
        self._snapshots: dict[Index, int] = {}

    # What replicas do.

    def applied(self, node: NodeId, entry: Entry, result: object, machine: PartitionMachine) -> None:
        index = entry.index
        if index > self.newest:
            self.newest = index
            self._write(index, entry, result)
            self._sums[index] = self.sums()
        self._compare(node, index, machine, "equal states")

    def restored(self, node: NodeId, machine: PartitionMachine, data: bytes) -> None:
        if machine.applied not in self._sums:
            raise Violation("snapshot equals replay", f"node {node} restored a state behind entry {machine.applied}")
        self._compare(node, machine.applied, machine, "snapshot equals replay")
        if data:
            self.took_snapshot(node, machine.applied, data)
            if machine.snapshot() != data:
                raise Violation("snapshot equals replay", f"node {node} lost something while it restored")

    def wrote_snapshot(self, node: NodeId, taken: bytes, written: bytes) -> None:
        if written != taken:
            raise Violation("equal states", f"node {node} wrote another snapshot than it took")

    def took_snapshot(self, node: NodeId, applied: Index, data: bytes) -> None:
        digest = crc32(data)
        if self._snapshots.setdefault(applied, digest) != digest:
            raise Violation("equal states", f"node {node} has another snapshot behind entry {applied} than others")

    def _compare(self, node: NodeId, index: Index, machine: PartitionMachine, promise: str) -> None:
        known, found = self._sums.get(index), sums_of(machine)
        if known is None:
            raise Violation("applied once, in order", f"node {node} applied {index}, which others passed over")
        if known != found:
            raise Violation(promise, f"node {node} behind entry {index}: {_difference(known, found)}")

    def sums(self) -> tuple[object, ...]:
        """By name, so that they are compared without being sorted: there is a comparison for every entry."""
        groups = {name: group.sums() for name, group in self.groups.items()}
        ends = self.next_offset, self.next_offset + len(self._held), self.log_start
        return *ends, self.stages.sums(), self.positions.copy(), self.fences.copy(), groups

    # What entries say.

    def _write(self, index: Index, entry: Entry, result: object) -> None:
        if isinstance(result, FlotillaError):
            # Then it must have changed nothing.
            self._refuse(entry, result)
            return
        if isinstance(result, BatchFacts):
            self._check_sequence(result)
            self._append(BatchView(entry.data).records())
            return
        if isinstance(result, Published):
            self._publish(index, BatchView(entry.data))
            return
        command = decode_command(entry.data)
        match command:
            case OpenGroup():
                if command.group not in self.groups:
                    self.groups[command.group] = GroupShadow(command.group, self._ways.rules_of)
                    self._begin_group(command.group, command.offset, index)
            case ResetGroup():
                self._begin_group(command.group, command.offset, index)
            case SettleRuns():
                for settlement in command.groups:
                    self._settle(index, settlement, command.now_ms)
            case BuryDeaths():
                self._bury(command)
            case CancelRecords():
                for offset in command.offsets:
                    if offset >= self.log_start:
                        self.cancelled[offset] = None
                        for group in self.groups.values():
                            group.settle(offset, CANCELLED, index)
            case DeliverNow():
                self._deliver_now(command)
            case CommitOffset() | ClaimPartition():
                self._move_reader(command)
            case DeleteGroup() | EndGroup():
                if isinstance(command, EndGroup):
                    self._ends[command.group] = index
                self._ended_fences[command.group] = max(self.fences.get(command.group, 0), self._ended(command.group))
                for table in (self.groups, self.positions, self.fences):
                    table.pop(command.group, None)
            case TrimTo():
                self._trim(index, command)
            case StageBatch():
                self.stages.stage(command.transaction_id, command.batch)
            case StageSettlement():
                self._stage_acks(index, command)
            case ConcludeStage():
                self._unstage(index, self.stages.conclude(command.transaction_id), is_committed=True)
            case DropStage():
                self._unstage(index, self.stages.drop(command.transaction_id), is_committed=False)

    def _deliver_now(self, command: DeliverNow) -> None:
        group = self.groups.get(command.group)
        for offset in command.offsets:
            message = self.messages[offset]
            due_ms = min(message.deliver_at_ms, command.now_ms)
            self.messages[offset] = message._replace(deliver_at_ms=due_ms)
            failures = None if group is None else group.failures.get(offset)
            if failures is not None:
                failures.not_before_ms[-1] = min(failures.not_before_ms[-1], command.now_ms)

    def _refuse(self, entry: Entry, error: FlotillaError) -> None:
        """A member that owns its partition is not refused for its epoch."""
        if not isinstance(error, StaleGenerationError):
            return
        command = decode_command(entry.data)
        if isinstance(command, CommitOffset | ClaimPartition) and not self._is_late(command):
            raise Violation("owners are heard", f"{command} was answered with {error!r}")

    def _is_late(self, command: CommitOffset | ClaimPartition) -> bool:
        if isinstance(command, CommitOffset) and 0 < command.as_of < self._ends.get(command.group, 0):
            return True
        is_operator = isinstance(command, CommitOffset) and command.reset and not command.epoch
        fence = self.fences.get(command.group, 0)
        return not is_operator and (command.epoch < fence or 0 < command.epoch <= self._ended(command.group))

    def _ended(self, group: str) -> int:
        return self._ended_fences.get(group, 0)

    def _move_reader(self, command: CommitOffset | ClaimPartition) -> None:
        if self._is_late(command):
            fence = self.fences.get(command.group, self._ended(command.group))
            raise Violation("late commits are refused", f"{command} behind a claim of {fence}")
        if command.epoch:
            self.fences[command.group] = command.epoch
        if isinstance(command, CommitOffset):
            known = self.positions.get(command.group, 0)
            self.positions[command.group] = command.offset if command.reset else max(command.offset, known)

    # Transactions.

    def _publish(self, index: Index, view: BatchView) -> None:
        """A batch of a transaction is not visible before the last one is stored."""
        stage = self.stages.publish(view, self.next_offset + len(self._held))
        self._held += view.records()
        if stage is not None:
            held, self._held = self._held, []
            self._append(held)
            self._unstage(index, stage, is_committed=True)

    def _stage_acks(self, index: Index, command: StageSettlement) -> None:
        settlement = command.settlement
        group = self.groups[settlement.group]
        offsets = tuple([offset for first, end in settlement.acked for offset in range(first, end)])
        for offset in offsets:
            if offset in group.settled or group.is_staged(offset, index):
                raise Violation("staged is held back", f"message {offset} of {group.name} is staged, and was over")
            group.staged.setdefault(offset, []).append((index, None))
        acks = NaiveAcks(settlement.group, settlement.generation, offsets)
        self.stages.stage_acks(command.transaction_id, acks)

    def _unstage(self, index: Index, stage: NaiveStage | None, *, is_committed: bool) -> None:
        for acks in stage.acks if stage is not None else ():
            group = self.groups.get(acks.group)
            if group is None or group.generation != acks.generation:
                continue
            for offset in acks.offsets:
                begun, _ = group.staged[offset].pop()
                group.staged[offset].append((begun, index))
                if is_committed:
                    group.settle(offset, ACKED, index)

    # Groups and records.

    def _begin_group(self, name: str, offset: Offset, index: Index) -> None:
        group = self.groups[name]
        group.begin(max(offset, self.log_start), index)
        for cancelled in self.cancelled:
            group.settle(cancelled, CANCELLED, index)

    def _check_sequence(self, facts: BatchFacts) -> None:
        """A producer that numbers its batches stores each of them once."""
        if facts.producer_id:
            place = facts.producer_id, facts.producer_epoch, facts.producer_sequence
            if place in self._sequences:
                known = self._sequences[place]
                raise Violation("stored once", f"batch {place} stands at {known} and again at {facts.base_offset}")
            self._sequences[place] = facts.base_offset

    def _append(self, records: Iterable[Record]) -> None:
        for record in records:
            letter = self._ways.letter_in(record)
            if letter is None:
                self._append_message(record)
            elif letter in self.letters and not self._ways.is_copied(letter):
                raise Violation("dead-lettered once", f"{letter} is there twice")
            elif not self._ways.is_dead(letter):
                raise Violation("dead-lettered once", f"{letter} is in the dead-letter topic and never died")
            else:
                self.letters[letter] = self._ways.topic_id
                self.messages.append(Message(letter, record.key, record.deliver_at_ms, 0, 0, 0))
            self.next_offset += 1

    def _append_message(self, record: Record) -> None:
        identity, is_only = self._ways.identity_of(record)
        offset = self.next_offset
        if is_only and identity in self.places:
            raise Violation(
                "stored once", f"message {identity!r} stands at {self.places[identity]} and again at {offset}"
            )
        self.places.setdefault(identity, offset)
        self.messages.append(
            Message(
                identity,
                record.key,
                record.deliver_at_ms,
                record.timestamp_ms,
                record.ttl_ms,
                record.max_deliveries,
            )
        )
        if record.key is not None:
            self.by_key.setdefault(record.key, []).append(offset)

    def _settle(self, index: Index, settlement: GroupSettlement, now_ms: int) -> None:
        group = self.groups.get(settlement.group)
        if group is None or settlement.generation not in (0, group.generation):
            # Of leases that a reset has ended.
            return
        touched = [*settlement.acked, *settlement.expired, *settlement.dropped]
        touched += [(failed.first, failed.end) for failed in settlement.failed]
        touched += [(dead.first, dead.end) for dead in settlement.dead]
        for first, end in touched:
            for offset in range(first, end):
                if group.is_staged(offset, index) and offset not in group.settled:
                    raise Violation("staged is held back", f"message {offset} of {group.name} is staged, and ends")
        for how, runs in ((ACKED, settlement.acked), (EXPIRED, settlement.expired), (DROPPED, settlement.dropped)):
            for first, end in runs:
                for offset in range(first, end):
                    if group.settle(offset, how, index) and how == EXPIRED:
                        self._check_expiry(group, offset)
        for failed in settlement.failed:
            for offset in range(failed.first, failed.end):
                group.fail(offset, failed.not_before_ms, index)
                self._check_bound(group, offset)
        for dead in settlement.dead:
            for offset in range(dead.first, dead.end):
                if group.settle(offset, DEAD, index):
                    group.deaths.append(offset)
                    group.died_ms.append(now_ms)
                    self._ways.died(group)

    def _check_expiry(self, group: GroupShadow, offset: Offset) -> None:
        if not self.messages[offset].ttl_ms:
            raise Violation("nothing is forgotten", f"message {offset} expired in {group.name} and may live for ever")

    def _check_bound(self, group: GroupShadow, offset: Offset) -> None:
        """A message that has had its last attempt dies, and does not fail once more."""
        if offset in group.settled:
            return
        attempts = group.attempts(offset, self.newest)
        bound = self.messages[offset].max_deliveries or group.rules.max_deliveries
        if bound and attempts >= bound:
            raise Violation("attempts are counted", f"message {offset} lives after attempt {attempts} in {group.name}")

    def _bury(self, command: BuryDeaths) -> None:
        group = self.groups[command.group]
        for number in range(command.first_number, command.below_number):
            if number in group.buried:
                continue
            letter = self._ways.letter_of(group, number)
            if letter not in self.letters:
                raise Violation("dead-lettered once", f"{letter} is buried, and nowhere")
            group.buried[number] = None

    def _trim(self, index: Index, command: TrimTo) -> None:
        """A leader decides by the groups it knows; groups created since are not affected."""
        offset = min(
            [command.offset, *(group.floor for group in self.groups.values() if group.generation > command.known)]
        )
        absent = [name for name in self._ways.holders() if name not in self.groups]
        if absent and offset > self.log_start:
            raise Violation("holders keep the log", f"trimmed to {offset}, and {absent[0]} has not come yet")
        for group in self.groups.values():
            if group.rules.holds_retention and offset > group.floor:
                raise Violation("holders keep the log", f"trimmed to {offset}, and {group.name} needs {group.floor}")
            for trimmed in range(max(group.floor, group.start), offset):
                group.settle(trimmed, TRIMMED, index)
            group.floor = max(group.floor, offset)
        self.log_start = max(self.log_start, offset)
        self.cancelled = {kept: None for kept in self.cancelled if kept >= self.log_start}


def sums_of(machine: PartitionMachine) -> tuple[object, ...]:
    """The same sums, from the state of a replica."""
    groups = {
        name: (
            group.floor,
            group.settled.count,
            sum([(end - first) * failure.attempts for first, end, failure in group.failures]),
            group.next_death,
            group.dying_count,
        )
        for name, group in machine.groups.items()
    }
    stages = {
        name: (
            len(staging.parts),
            len(staging.offsets),
            sum([end - first for acks in staging.acks for first, end in acks.runs]),
        )
        for name, staging in machine.transactions.open.items()
    }
    positions = {name: position.offset for name, position in machine.positions.items()}
    ends = machine.next_offset, machine.end_offset, machine.log_start
    return *ends, stages, positions, machine.fences, groups


def _difference(known: tuple[object, ...], found: tuple[object, ...]) -> str:
    expected, actual = next(pair for pair in zip(known, found, strict=True) if pair[0] != pair[1])
    return f"{actual} where the log says {expected}"
