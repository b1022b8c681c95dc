"""The groups of one partition, of both kinds: groups with a committed offset, and queue groups; and cancelled messages.

Owns the effects of commands on groups. Each command has a rule, which returns or raises a FlotillaError and changes
nothing, and an effect, which is called when the rule has passed. A name belongs to a group of one kind at a time.

Cancelling a message settles it in every queue group, and in every group that is opened or reset later: so delivery
needs to look at settled messages only.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from flotilla.partition.commands.partition_commands import (
    AckedResult,
    BuryDeaths,
    CancelRecords,
    ChangeHolders,
    ClaimPartition,
    CommitOffset,
    DeleteGroup,
    DeliverNow,
    EndGroup,
    GroupSettlement,
    OpenGroup,
    ReserveTokens,
    ResetGroup,
    SettleRuns,
)
from flotilla.partition.offset_runs import Run, RunSet
from flotilla.partition.queries import Position
from flotilla.partition.state.batch_index import BatchIndex
from flotilla.partition.state.endings import CANCELLED, DROPPED, EXPIRED
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.group_ends import GroupEnds
from flotilla.partition.state.results import Result, ResultTable
from flotilla.types.errors import (
    GroupModeError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    OffsetOutOfRangeError,
    OverloadedError,
    StaleGenerationError,
    UnavailableError,
)
from flotilla.types.ids import Index, Offset
from flotilla.types.limits import (
    CANCEL_COUNT_MAX,
    DELIVER_COUNT_MAX,
    HOLDER_COUNT_MAX,
    MEMBER_LENGTH_MAX,
    REASON_BYTES_MAX,
    RESULT_BYTES_MAX,
)
from flotilla.types.operations.stream import NO_OFFSET
from flotilla.types.topics import COMMIT_METADATA_BYTES_MAX, GROUP_COUNT_MAX, PARTITION_COUNT_MAX, check_group_name

#: The snapshot of a group stores 64 bits.
_NUMBER_MAX = 2**63 - 1
#: Its sum with a time fits into 64 bits.
_TTL_MS_MAX = 2**62


class DueNow(NamedTuple):
    """The effect of a DeliverNow, for the leader."""

    #: All that are in the log, also those that waited for nothing.
    offsets: tuple[Offset, ...]
    #: Stretches that begin anew: time of delivery and first offset.
    stretches: tuple[tuple[int, Offset], ...]
    group: str


class Log(Protocol):
    """The bounds of the partition's log."""

    @property
    def applied(self) -> Index: ...

    @property
    def log_start(self) -> Offset: ...

    @property
    def next_offset(self) -> Offset: ...

    @property
    def results(self) -> ResultTable: ...

    @property
    def index(self) -> BatchIndex: ...


class GroupTable:
    def __init__(self, log: Log) -> None:
        self._log = log
        #: Groups with a committed offset.
        self.positions: dict[str, Position] = {}
        #: Of each stream group the highest epoch under which a member has claimed the partition. Never goes back.
        self.fences: dict[str, int] = {}
        #: The same of deleted groups, in the order of deletion. A group that gets the name later has higher epochs.
        self.ended_fences: dict[str, int] = {}
        #: Of groups of all kinds, from the cluster version on that remembers them.
        self.ends = GroupEnds()
        self.queues: dict[str, GroupState] = {}
        #: Messages that no queue group delivers, from the log's start on.
        self.cancelled = RunSet()

    def rules(self) -> dict[type[Any], Callable[[Any], None]]:
        """By command. Not a field: that would be a cycle, and keep the memory of a replaced table."""
        return {
            CommitOffset: self._check_commit,
            ClaimPartition: self._check_claim,
            DeleteGroup: self._check_delete,
            EndGroup: self._check_end,
            OpenGroup: self._check_open,
            SettleRuns: self._check_settle,
            BuryDeaths: self._check_bury,
            ResetGroup: self._check_reset,
            CancelRecords: self._check_cancel,
            DeliverNow: self._check_deliver,
            ReserveTokens: self._check_reserve,
            ChangeHolders: self._check_holders,
        }

    def effects(self) -> dict[type[Any], Callable[[Any], object]]:
        return {
            CommitOffset: self._commit_offset,
            ClaimPartition: self._claim,
            DeleteGroup: self._delete,
            EndGroup: self._end,
            OpenGroup: self._open,
            SettleRuns: self._settle,
            BuryDeaths: self._bury,
            ResetGroup: self._reset,
            CancelRecords: self._cancel,
            DeliverNow: self._deliver_now,
            ReserveTokens: self._reserve,
            ChangeHolders: self._change_holders,
        }

    def kinds(self) -> dict[str, str]:
        """Names to "queue" or "offset", in the order of names."""
        found = dict.fromkeys(self.positions, "offset") | dict.fromkeys(self.fences, "offset")
        return dict(sorted((found | dict.fromkeys(self.queues, "queue")).items()))

    def trim(self, log_start: Offset) -> None:
        """The log has removed everything below."""
        self.cancelled.discard(0, log_start)
        self._log.results.trim(log_start)
        for queue in self.queues.values():
            queue.totals.trimmed += queue.trim(log_start)

    def spared(self, offset: Offset, known: Index) -> Offset:
        """The offset to trim to, lowered for groups that were opened or reset after the entry `known`."""
        floors = [queue.floor for queue in self.queues.values() if queue.generation > known]
        return min([offset, *floors])

    def settle_acked(
        self, name: str, generation: Index, runs: tuple[Run, ...], results: tuple[AckedResult, ...] = ()
    ) -> None:
        """Acks of a committed transaction: void if the group was reset or deleted since the messages were leased."""
        queue = self.queues.get(name)
        if queue is not None and queue.generation == generation:
            settlement = GroupSettlement(name, runs, results=results)
            queue.totals.acked += _acknowledge(queue, settlement, self._log.results)

    # Rules.

    def check_unsettled(self, name: str, generation: Index, runs: tuple[Run, ...]) -> None:
        """Raises LeaseExpiredError if one of these messages is settled, or the group was reset since."""
        queue = self._queue(name)
        if queue.generation != generation:
            raise LeaseExpiredError(f"group {name!r} was reset since its messages were leased")
        for first, end in runs:
            _check_run(first, end, self._log.next_offset)
            if next(queue.unsettled(first, end), None) != (first, end):
                raise LeaseExpiredError(f"a message between {first} and {end - 1} has ended in group {name!r}")

    def _check_offset(self, offset: Offset) -> None:
        next_offset = self._log.next_offset
        if not 0 <= offset <= next_offset:
            raise OffsetOutOfRangeError(f"offset {offset} is not between 0 and {next_offset}")

    def _check_room(self, name: str) -> None:
        """Raises for a new group that the partition has no room for."""
        check_group_name(name)
        readers = self.positions.keys() | self.fences.keys()
        if len(readers) + len(self.queues) >= GROUP_COUNT_MAX:
            raise OverloadedError(f"a partition has at most {GROUP_COUNT_MAX} groups")

    def _queue(self, name: str) -> GroupState:
        queue = self.queues.get(name)
        if queue is not None:
            return queue
        if name in self.positions or name in self.fences:
            raise GroupModeError(f"group {name!r} commits offsets: it is no queue group")
        raise NotFoundError(f"there is no queue group {name!r}")

    def _check_commit(self, command: CommitOffset) -> None:
        name = command.group
        check_group_name(name)
        if len(command.metadata) > COMMIT_METADATA_BYTES_MAX:
            raise InvalidArgumentError(f"metadata of a commit has at most {COMMIT_METADATA_BYTES_MAX} bytes")
        self._check_offset(command.offset)
        self._check_reader(name, command.epoch)
        if 0 < command.as_of < self.ends.last(name):
            raise StaleGenerationError(
                f"group {name!r} was deleted since this reader read its position, or so long ago that it is forgotten"
            )
        # A reset without an epoch comes from an operator, not from a member.
        if command.epoch or not command.reset:
            self._check_epoch(name, command.epoch)

    def _check_claim(self, command: ClaimPartition) -> None:
        if not command.epoch:
            raise InvalidArgumentError("a partition is claimed under an epoch")
        check_group_name(command.group)
        self._check_reader(command.group, command.epoch)
        self._check_epoch(command.group, command.epoch)

    def _check_reader(self, name: str, epoch: int) -> None:
        if not 0 <= epoch <= _NUMBER_MAX:
            raise InvalidArgumentError(f"{epoch} is no epoch")
        if name in self.queues:
            raise GroupModeError(f"group {name!r} is a queue group: it settles messages and commits no offset")
        if name not in self.positions and name not in self.fences:
            self._check_room(name)

    def _check_epoch(self, name: str, epoch: int) -> None:
        fence = self.fences.get(name, 0)
        if epoch < fence:
            raise StaleGenerationError(f"a member of group {name!r} owns the partition since {fence}, not {epoch}")
        if 0 < epoch <= self.ended_fences.get(name, 0):
            raise StaleGenerationError(f"group {name!r} was deleted, and epoch {epoch} is one of before")

    def _check_delete(self, command: DeleteGroup) -> None:
        if not self._has(command.group):
            raise NotFoundError(f"there is no group {command.group!r}")
        self._check_buried(command.group)

    def _check_end(self, command: EndGroup) -> None:
        check_group_name(command.group)
        self._check_buried(command.group)

    def _has(self, name: str) -> bool:
        return name in self.positions or name in self.queues or name in self.fences

    def _check_buried(self, name: str) -> None:
        queue = self.queues.get(name)
        if queue is not None and queue.dying:
            raise UnavailableError(
                f"{queue.dying_count} dead messages of group {name!r} are not in its dead letters yet"
            )

    def _check_open(self, command: OpenGroup) -> None:
        self._check_offset(command.offset)
        if not 0 <= command.partition_count <= PARTITION_COUNT_MAX:
            raise InvalidArgumentError(f"a topic does not have {command.partition_count} partitions")
        if command.group in self.positions or command.group in self.fences:
            raise GroupModeError(f"group {command.group!r} commits offsets: it cannot be a queue group too")
        if command.group not in self.queues:
            self._check_room(command.group)

    def _check_reset(self, command: ResetGroup) -> None:
        self._queue(command.group)
        self._check_offset(command.offset)

    def _check_bury(self, command: BuryDeaths) -> None:
        queue = self._queue(command.group)
        if not 0 <= command.first_number <= command.below_number <= queue.next_death:
            raise InvalidArgumentError(f"group {command.group!r} has no death {command.below_number - 1}")

    def _check_reserve(self, command: ReserveTokens) -> None:
        self._queue(command.group)
        if not 0 <= command.tat_us <= _NUMBER_MAX:
            raise InvalidArgumentError(f"{command.tat_us} µs is no time")

    def _check_holders(self, command: ChangeHolders) -> None:
        holders = self._queue(command.group).holders
        for name in command.joined:
            if len(name) > MEMBER_LENGTH_MAX:
                raise InvalidArgumentError(f"the name of a member has at most {MEMBER_LENGTH_MAX} characters")
        named = {name for name in (*holders, *command.joined) if name}
        if len(named) > max(HOLDER_COUNT_MAX, len(holders)):
            raise OverloadedError(f"a group has at most {HOLDER_COUNT_MAX} members with names in a partition")

    def _check_cancel(self, command: CancelRecords) -> None:
        if len(command.offsets) > CANCEL_COUNT_MAX:
            raise InvalidArgumentError(f"too many messages to cancel: the limit is {CANCEL_COUNT_MAX}")
        self._check_stored(command.offsets)

    def _check_deliver(self, command: DeliverNow) -> None:
        if len(command.offsets) > DELIVER_COUNT_MAX:
            raise InvalidArgumentError(f"too many messages to deliver now: the limit is {DELIVER_COUNT_MAX}")
        if command.group:
            self._queue(command.group)
        self._check_stored(command.offsets)

    def _check_stored(self, offsets: tuple[Offset, ...]) -> None:
        for offset in offsets:
            if not 0 <= offset < self._log.next_offset:
                raise OffsetOutOfRangeError(f"there is no message at offset {offset}")

    def _check_settle(self, command: SettleRuns) -> None:
        """A settlement may name an unknown group: it can be deleted while the settlement is in flight."""
        next_offset = self._log.next_offset
        for settlement in command.groups:
            for runs in (settlement.acked, settlement.expired, settlement.dropped):
                for first, end in runs:
                    if not 0 <= first < end <= next_offset:
                        raise _no_run(first, end, next_offset)
            for failed in settlement.failed:
                _check_run(failed.first, failed.end, next_offset)
                _check_reason(failed.reason)
                if not 0 <= failed.not_before_ms <= _NUMBER_MAX:
                    raise InvalidArgumentError(f"{failed.not_before_ms} ms is no time")
            for dead in settlement.dead:
                _check_run(dead.first, dead.end, next_offset)
                _check_reason(dead.reason)
            check_results(settlement.results, next_offset)

    # Effects.

    def _commit_offset(self, command: CommitOffset) -> Position:
        """The group's position now: ahead of the command if it was already."""
        if command.epoch:
            self.fences[command.group] = command.epoch
        known = self.positions.get(command.group)
        if known is not None and command.offset < known.offset and not command.reset:
            return known
        position = Position(command.offset, command.now_ms, command.metadata)
        self.positions[command.group] = position
        return position

    def _claim(self, command: ClaimPartition) -> Offset:
        """The group's position, where the new owner begins."""
        self.fences[command.group] = command.epoch
        position = self.positions.get(command.group)
        return NO_OFFSET if position is None else position.offset

    def _end(self, command: EndGroup) -> bool:
        """Whether there was such a group."""
        is_there = self._has(command.group)
        self._delete(command)
        self.ends.note(command.group, self._log.applied)
        return is_there

    def _delete(self, command: DeleteGroup | EndGroup) -> Position | GroupState | None:
        """The deleted group; None: it never committed anything."""
        if command.group in self.queues:
            self._log.results.drop(command.group)
            return self.queues.pop(command.group)
        fence = self.fences.pop(command.group, 0)
        if fence:
            self._remember(command.group, fence)
        return self.positions.pop(command.group, None)

    def _remember(self, name: str, fence: int) -> None:
        ended = self.ended_fences
        ended.pop(name, None)
        ended[name] = fence
        if len(ended) > GROUP_COUNT_MAX:
            del ended[next(iter(ended))]

    def _open(self, command: OpenGroup) -> Offset:
        """The group's floor, also of a group that existed before."""
        queue = self.queues.get(command.group)
        if queue is None:
            start = max(command.offset, self._log.log_start)
            queue = GroupState(start, self._log.applied, command.partition_count, command.first_lease, command.now_ms)
            self.queues[command.group] = queue
            self._settle_cancelled(queue)
        return queue.floor

    def _reset(self, command: ResetGroup) -> Offset:
        """The group's new floor."""
        queue = self.queues[command.group]
        queue.reset(max(command.offset, self._log.log_start), self._log.applied, command.first_lease)
        queue.used_ms = max(queue.used_ms, command.now_ms)
        self._log.results.drop(command.group)
        self._settle_cancelled(queue)
        return queue.floor

    def _settle_cancelled(self, queue: GroupState) -> None:
        for first, end in self.cancelled.within(queue.start, self._log.next_offset):
            queue.totals.cancelled += queue.end(first, end, CANCELLED)

    def _settle(self, command: SettleRuns) -> int:
        """How many messages changed."""
        count = 0
        for settlement in command.groups:
            queue = self.queues.get(settlement.group)
            if queue is not None and settlement.generation in (0, queue.generation):
                count += _settle_queue(queue, settlement, command.now_ms, self._log.results)
                queue.used_ms = max(queue.used_ms, command.now_ms)
        return count

    def _bury(self, command: BuryDeaths) -> int:
        """How many were not buried before."""
        return self.queues[command.group].bury(command.below_number, command.first_number)

    def _reserve(self, command: ReserveTokens) -> None:
        self.queues[command.group].reserved_tat_us = command.tat_us

    def _change_holders(self, command: ChangeHolders) -> None:
        queue = self.queues[command.group]
        if queue.generation == command.generation:
            for name in command.left:
                queue.holders.pop(name, None)
            queue.holders.update(dict.fromkeys(command.joined))
            if command.joined or not command.left:
                queue.used_ms = max(queue.used_ms, command.now_ms)

    def _cancel(self, command: CancelRecords) -> tuple[Offset, ...]:
        """The offsets that are cancelled now: all that are still in the log."""
        log_start = self._log.log_start
        offsets = tuple(sorted({offset for offset in command.offsets if offset >= log_start}))
        runs = list(RunSet((offset, offset + 1) for offset in offsets))
        for first, end in runs:
            self.cancelled.add(first, end)
        for queue in self.queues.values():
            queue.totals.cancelled += _end_runs(queue, runs, CANCELLED)
        return offsets

    def _deliver_now(self, command: DeliverNow) -> DueNow:
        log = self._log
        offsets = tuple(sorted({offset for offset in command.offsets if offset >= log.log_start}))
        found = [stretch for offset in offsets for stretch in log.index.make_due(offset, command.now_ms)]
        if found:
            log.index.reopen(log.next_offset)
        if command.group:
            for offset in offsets:
                self.queues[command.group].retry_now(offset, command.now_ms)
        return DueNow(offsets, tuple(found), command.group)


def check_results(results: tuple[AckedResult, ...], next_offset: Offset) -> None:
    """Raises the error to refuse a settlement with."""
    for result in results:
        _check_run(result.offset, result.offset + 1, next_offset)
        if len(result.payload) > RESULT_BYTES_MAX or result.ttl_ms > _TTL_MS_MAX:
            raise InvalidArgumentError(f"a result has at most {RESULT_BYTES_MAX} bytes")


def _check_run(first: Offset, end: Offset, next_offset: Offset) -> None:
    if not 0 <= first < end <= next_offset:
        raise _no_run(first, end, next_offset)


def _no_run(first: Offset, end: Offset, next_offset: Offset) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(f"[{first}, {end}) is no run of messages below {next_offset}")


def _check_reason(reason: str) -> None:
    if len(reason.encode("utf-8")) > REASON_BYTES_MAX:
        raise InvalidArgumentError(f"a reason has at most {REASON_BYTES_MAX} bytes")


def _end_runs(queue: GroupState, runs: list[Run] | tuple[Run, ...], kind: int) -> int:
    count = 0
    for first, end in runs:
        count += queue.end(first, end, kind)
    return count


def _acknowledge(queue: GroupState, settlement: GroupSettlement, results: ResultTable) -> int:
    """Acks, with their results: a message that is settled already keeps what it has."""
    answers = [each for each in settlement.results if not queue.is_settled(each.offset)]
    acked = queue.acknowledge(settlement.acked)
    for offset, ttl_ms, payload in answers:
        if queue.is_settled(offset):
            results.put(settlement.group, offset, Result(payload, ttl_ms))
    return acked


def _settle_queue(queue: GroupState, settlement: GroupSettlement, now_ms: int, results: ResultTable) -> int:
    totals = queue.totals
    acked = _acknowledge(queue, settlement, results)
    expired = _end_runs(queue, settlement.expired, EXPIRED)
    dropped = _end_runs(queue, settlement.dropped, DROPPED)
    failed = sum([queue.fail(run.first, run.end, run.not_before_ms, run.reason) for run in settlement.failed])
    dead = sum([queue.die(run.first, run.end, run.reason, now_ms) for run in settlement.dead])
    totals.acked += acked
    totals.expired += expired
    totals.dropped += dropped
    totals.failed += failed
    totals.dead += dead
    return acked + expired + dropped + failed + dead
