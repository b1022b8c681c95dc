"""Operations on the queue groups of one partition, other than polls: settle, extend, describe, reset, explain.

Only the leader answers. Settlements are answered when they have committed, by the settlement log; changes of groups by
their own command; descriptions from memory, and the history of a message from the log. A method is named like its
operation, and answers by `done` or raises a FlotillaError before it has answered.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flotilla.broker.ports import Cancel, Done
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.broker.queue.history import HistoryReader
from flotilla.broker.queue.polls import check_member
from flotilla.broker.queue.rate_limit import TAKE_MAX
from flotilla.partition.commands import partition_commands as commands
from flotilla.partition.explain.explanation import describe_group, explain_message, oldest_unsettled
from flotilla.partition.explain.history import MessageHistory
from flotilla.partition.explain.waiting import blocked_keys, delayed_messages, due_times
from flotilla.partition.leader.holders import UNNAMED
from flotilla.partition.offset_runs import RunSet
from flotilla.partition.state.idempotency_keys import digests_of
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    NotLoadedError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    OverloadedError,
    StaleGenerationError,
    StorageFailedError,
    group_in_use,
    later_version_needed,
)
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.ids import Offset
from flotilla.types.limits import CANCEL_COUNT_MAX, RESULT_BYTES_MAX, RESULT_REQUEST_BYTES_MAX, RESULT_WAIT_COUNT_MAX
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations import PartitionTrimmed, Reply, TrimPartition
from flotilla.types.operations.group_expiry import (
    STEP_DELETE,
    STEP_HOLD,
    STEP_RELEASE,
    STEPS,
    ExpireGroup,
    GroupUse,
)
from flotilla.types.operations.queue import (
    ACK,
    BY_BACKOFF,
    FAIL,
    OFFSET_KIND,
    QUEUE_KIND,
    REJECT,
    RELEASE,
    CancelRecords,
    DeleteGroup,
    DescribeGroup,
    ExplainMessage,
    Explanation,
    Extend,
    GroupDescription,
    GroupList,
    GroupReset,
    LeaseRange,
    ListGroups,
    MessageResult,
    ReadResults,
    RecordsCancelled,
    ResetGroup,
    Settle,
    Settled,
    TakeTokens,
    TokensGranted,
)
from flotilla.types.operations.transactions import StageSettlement
from flotilla.types.operations.waiting import (
    BLOCKED_KEYS_SHOWN_MAX,
    DELAYED_SHOWN_MAX,
    DeliveredNow,
    DeliverNow,
    ListBlockedKeys,
    ListDelayed,
    ReadDueTimes,
)
from flotilla.types.topics import check_group_name
from flotilla.types.version import DELAYS_ENDED, GROUP_ENDS_STORED

#: Histories read at once: each takes a slice of every turn of the loop.
HISTORIES_MAX = 4

_HELD_BACK = "the topic's retention has passed it; it stays because the group owes it"
_KINDS = (ACK, RELEASE, FAIL, REJECT)
_VISIBILITY = GROUP_SETTINGS["visibility_ms"]
#: Why messages cannot be read now.
_UNREADABLE = (CorruptionError, NotLoadedError, StorageFailedError)


class QueueRequests:
    """The requests of one partition, for one term of its leader."""

    def __init__(self, queue: PartitionQueue, explain: Callable[[object], FlotillaError]) -> None:
        self._queue = queue
        self._explain = explain
        #: In flight.
        self._histories: dict[HistoryReader, None] = {}

    # Settling.

    def settle(self, request: Settle, done: Done) -> None:
        if request.kind not in _KINDS:
            raise InvalidArgumentError(f"{request.kind} is not an outcome of a lease")
        if request.delay_ms != BY_BACKOFF:
            self._check_delay(request.delay_ms)
        if request.members and len(request.members) != len(request.leases):
            raise InvalidArgumentError("name a member for every run or for none")
        queue = self._queue
        self._check(request.group, request.leases)
        _check_results(request.leases, request.results, request.kind)
        expired = queue.settle(
            request.group,
            request.kind,
            request.leases,
            request.reason,
            request.delay_ms,
            request.members,
            request.results,
        )
        if request.kind == RELEASE:
            done(Settled(expired))
            return

        def answered(error: FlotillaError | None) -> None:
            if error is None:
                done(Settled(expired, queue.leader.settled_of(request.group, request.kind, expired) if expired else []))
            else:
                done(self._explain(error))

        # Also when all of it is refused: an earlier attempt of this request may be on its way into the log.

        queue.settlements.push(answered)

    def settlement_to_stage(self, request: StageSettlement, timeout_ms: int) -> commands.StageSettlement | None:
        """The command to propose; the caller passes its result to `staged`. None: it is in the log already."""
        queue = self._queue
        if not request.leases:
            raise InvalidArgumentError("name at least one message to acknowledge")
        self._check(request.group, request.leases)
        _check_results(request.leases, request.results)
        command, expired = queue.leader.stage(
            request.transaction_id, request.group, request.leases, queue.now_ms(), timeout_ms, request.results
        )
        if expired:
            first = expired[0].first
            raise LeaseExpiredError(
                f"the lease of message {first} has expired: another consumer has it, or it was settled"
            )
        return command

    def staged(self, command: commands.StageSettlement, result: object) -> None:
        """The result of the command. If the outcome is unknown, the term is over, and this leader with it."""
        if not self._queue.is_ended and not isinstance(result, OutcomeUnknownError):
            self._queue.leader.staged(command, is_refused=isinstance(result, FlotillaError))
            self._queue.changed(command.settlement.group)

    def extend(self, request: Extend, done: Done) -> None:
        _VISIBILITY.check(request.visibility_ms)
        queue = self._queue
        self._check(request.group, request.leases)
        leader = queue.leader
        is_named = bool(request.presented_term) or leader.is_holder(request.group, request.member)
        if is_named:
            check_member(request.member)

        def serve() -> None:
            queue.check_serving()
            self._extend(request, done)

        def admitted(error: FlotillaError | None) -> None:
            if error is None:
                queue.loads.run(serve, lambda reason: done(self._explain(reason)))
            else:
                done(self._explain(error))

        if any(leader.is_earlier(lease.lease_id) for lease in request.leases):
            # It gets leases of this leader by that: its name is in the log before.
            queue.admit(request.group, request.member if is_named else UNNAMED, admitted)
        else:
            self._extend(request, done)

    def _extend(self, request: Extend, done: Done) -> None:
        queue, leader = self._queue, self._queue.leader
        queue.recall_limits(request.group, request.leases)
        expired = leader.extend(request.group, request.member, request.leases, request.visibility_ms, queue.now_ms())
        if request.presented_term:
            leader.present(request.group, request.member, request.presented_term, queue.now_ms())
        queue.changed(request.group)
        done(Settled(expired, term=leader.term))

    def _check_delay(self, delay_ms: int) -> None:
        delay_max_ms = self._queue.topic.settings.delay_max_ms
        if not 0 <= delay_ms <= delay_max_ms:
            raise InvalidArgumentError(
                f"delay_ms is 0 to {delay_max_ms} (topic setting delay_max_ms), or {BY_BACKOFF} for the group's backoff"
            )

    def _check(self, group: str, leases: list[LeaseRange]) -> None:
        self._check_open(group)
        next_offset = self._queue.machine.next_offset
        for lease_id, first, end in leases:
            if not 0 <= first < end <= next_offset or lease_id < 0:
                raise InvalidArgumentError(f"offsets {first} to {end - 1} were never leased under lease {lease_id}")

    def _check_open(self, group: str) -> None:
        if not self._queue.leader.has_group(group):
            raise NotFoundError(f"there is no queue group {group!r} in this partition")

    def take_tokens(self, request: TakeTokens, done: Done) -> None:
        """The leader of another partition of the topic asks; this partition keeps the rate limits."""
        if not 1 <= request.tokens <= TAKE_MAX:
            raise InvalidArgumentError(f"tokens = {request.tokens}: expected 1 to {TAKE_MAX}")
        self._queue.unused.check_free(request.group)
        if self._queue.leader.has_group(request.group):
            self._grant_tokens(request, done)
            return

        def opened(error: FlotillaError | None) -> None:
            if error is None:
                self._grant_tokens(request, done)
            else:
                done(self._explain(error))

        # The group was never polled here. It is opened all the same, because its limit is kept here.
        self._queue.open(request.group, request.start, opened)

    def _grant_tokens(self, request: TakeTokens, done: Done) -> None:
        queue = self._queue
        granted = queue.leader.take_tokens(request.group, request.tokens, queue.now_ms())
        queue.changed(request.group)
        done(TokensGranted(granted, 0 if granted else queue.retry_after_ms(request.group)))

    # Messages.

    def cancel_records(self, request: CancelRecords, done: Done) -> None:
        """By offset or by idempotency key; an unknown key cancels nothing."""
        if len(request.offsets) + len(request.keys) > CANCEL_COUNT_MAX:
            raise InvalidArgumentError(f"too many messages to cancel: the limit is {CANCEL_COUNT_MAX}")
        by_key = (self._queue.machine.keys.get(digest) for digest in digests_of(request.keys))
        offsets = sorted({*request.offsets, *(offset for offset in by_key if offset is not None)})
        if not offsets:
            done(RecordsCancelled([]))
            return
        command = commands.CancelRecords(tuple(offsets), self._queue.now_ms())
        self._propose(command, done, lambda cancelled: RecordsCancelled(list(cancelled)))

    def trim_partition(self, request: TrimPartition, done: Done) -> None:
        """Of all groups, those that hold retention and those that are new to this leader included."""
        self._propose(commands.TrimTo(request.offset, self._queue.now_ms()), done, PartitionTrimmed, frees_space=True)

    def read_results(self, request: ReadResults, done: Done) -> Cancel | None:
        """Of messages that have ended, or when one does. A group that is not open yet has ended none."""
        check_group_name(request.group)
        if not 0 < len(request.offsets) <= RESULT_WAIT_COUNT_MAX:
            raise InvalidArgumentError(f"a request asks for the results of 1 to {RESULT_WAIT_COUNT_MAX} messages")
        return self._queue.result_reads.read(request, done)

    def explain_message(self, request: ExplainMessage, done: Done) -> Cancel | None:
        """From memory; or with the history from the log, which is read for a few requests at a time."""
        self._check_open(request.group)
        next_offset = self._queue.machine.next_offset
        if not 0 <= request.offset < next_offset:
            raise OffsetOutOfRangeError(f"offset {request.offset} is not between 0 and {next_offset}")
        if not request.has_history:
            done(self._explained(request, None))
            return None
        if len(self._histories) >= HISTORIES_MAX:
            raise OverloadedError(f"too many message histories at once: the limit is {HISTORIES_MAX}")

        def finished(error: FlotillaError | None) -> None:
            self._histories.pop(reader, None)
            if error is not None:
                done(self._explain(error))
            else:
                self._queue.loads.run(answer, lambda reason: done(self._explain(reason)))

        def answer() -> None:
            done(self._explained(request, reader.past))

        def cancel() -> None:
            self._histories.pop(reader, None)
            reader.give_up()

        reader = HistoryReader(self._queue, request.group, request.offset, finished)
        if reader.begin():
            return None
        self._histories[reader] = None
        return cancel

    def _explained(self, request: ExplainMessage, past: MessageHistory | None) -> Explanation:
        """Raises NotFoundError: the group may have been deleted while the log was read."""
        queue = self._queue
        is_there = request.offset >= queue.machine.log_start
        if is_there:
            # Like a lease of an earlier leader: its max_deliveries may not have been read here yet.
            queue.recall_limits(request.group, [LeaseRange(0, request.offset, request.offset + 1)])
        token_ms = queue.retry_after_ms(request.group)
        headers_of = queue.reader.headers if is_there else None
        explanation = explain_message(
            queue.leader, request.group, request.offset, queue.now_ms(), token_ms, past, headers_of
        )
        obstacle = queue.dead_letters.obstacle(request.group, request.offset)
        if obstacle:
            explanation.next = f"its dead letter is tried again: {obstacle}"
        if self._is_held_back(request):
            explanation.history.append(_HELD_BACK)
        if request.has_record and is_there:
            explanation.batch = bytes(queue.reader.piece(request.offset))
        return explanation

    def _is_held_back(self, request: ExplainMessage) -> bool:
        queue = self._queue
        held_back = queue.held_back
        if request.group not in held_back.messages or request.offset >= held_back.below:
            return False
        return not queue.machine.groups[request.group].is_settled(request.offset)

    # Groups.

    def list_groups(self, _: ListGroups, done: Done) -> None:
        found = dict.fromkeys(self._queue.machine.positions, OFFSET_KIND)
        found.update(dict.fromkeys(self._queue.leader.groups(), QUEUE_KIND))
        done(GroupList(dict(sorted(found.items()))))

    def describe_group(self, request: DescribeGroup, done: Done) -> None:
        if not self._queue.leader.has_group(request.group) and request.group in self._queue.machine.positions:
            done(self._describe_position(request.group))
            return
        self._check_open(request.group)
        done(self._describe(request.group))

    def read_due_times(self, request: ReadDueTimes, done: Done) -> None:
        queue = self._queue
        if request.group:
            self._check_open(request.group)
        queue.catch_up()
        done(due_times(queue.leader, queue.machine, request.group, queue.now_ms()))

    def list_delayed(self, request: ListDelayed, done: Done) -> None:
        queue = self._queue
        if request.group:
            self._check_open(request.group)
        queue.catch_up()
        bounded = replace(request, limit=min(request.limit, DELAYED_SHOWN_MAX))
        done(delayed_messages(queue.leader, queue.machine, bounded, queue.now_ms()))

    def deliver_now(self, request: DeliverNow, done: Done) -> None:
        version = self._queue.cluster_version()
        if version < DELAYS_ENDED:
            raise later_version_needed("making a delayed message due", DELAYS_ENDED, version)
        command = commands.DeliverNow(tuple(request.offsets), self._queue.now_ms(), request.group)
        self._propose(command, done, lambda due: DeliveredNow(list(due.offsets)))

    def list_blocked_keys(self, request: ListBlockedKeys, done: Done) -> None:
        self._check_open(request.group)
        self._queue.catch_up()
        limit = min(request.limit, BLOCKED_KEYS_SHOWN_MAX)
        done(blocked_keys(self._queue.leader, request.group, limit, self._queue.now_ms()))

    def _describe_position(self, group: str) -> GroupDescription:
        queue, machine = self._queue, self._queue.machine
        offset = machine.positions[group].offset
        lag = machine.next_offset - max(offset, machine.log_start)
        age_ms = self._age_ms(offset) if lag > 0 else 0
        ends = (offset, machine.next_offset, machine.log_start)
        held_back, unused_ms = queue.held_back.messages.get(group, 0), self._unused_ms(group)
        return GroupDescription(OFFSET_KIND, *ends, max(lag, 0), age_ms, held_back=held_back, unused_ms=unused_ms)

    def _describe(self, group: str) -> GroupDescription:
        queue = self._queue
        description = self._count(group)
        description.unburied = queue.dead_letters.refused_count(group)
        description.held_back = queue.held_back.messages.get(group, 0)
        description.unused_ms = self._unused_ms(group)
        live = dict.fromkeys(queue.live_members(group))
        for member in description.members:
            member.is_live = member.name in live
        if description.lag > 0:
            description.oldest_age_ms = self._oldest_age_ms(group)
        return description

    def _count(self, group: str) -> GroupDescription:
        """Without what has to be looked up elsewhere."""
        self._queue.catch_up()
        return describe_group(self._queue.leader, group, self._queue.now_ms())

    def _unused_ms(self, group: str) -> int:
        after_ms = self._queue.rules(group).expires_after_ms
        return (self._queue.unused.unused_ms(group, after_ms) or 0) if after_ms else 0

    def _oldest_age_ms(self, group: str) -> int:
        """How long ago the oldest unsettled message became deliverable."""
        queue = self._queue
        offset, due_ms = oldest_unsettled(queue.leader, group, queue.now_ms())
        ages_ms = [] if offset is None else [self._age_ms(offset)]
        if due_ms:
            ages_ms.append(queue.now_ms() - due_ms)
        return max(ages_ms, default=0)

    def _age_ms(self, offset: Offset) -> int:
        """The age of a message, or of the oldest later one that is still stored. Raises CorruptionError."""
        queue = self._queue
        time_ms = queue.reader.time_ms(max(offset, queue.machine.log_start))
        return max(queue.now_ms() - time_ms, 0)

    def measure(self, group: str) -> GroupDescription | None:
        """The same for a scrape; None: the group is gone, or its messages cannot be read now."""
        try:
            if self._queue.leader.has_group(group):
                return self._describe(group)
            return self._describe_position(group) if group in self._queue.machine.positions else None
        except _UNREADABLE:
            return None

    def count(self, group: str) -> GroupDescription | None:
        """What `measure` finds without reading messages; None: the group is gone, or cannot be counted now."""
        try:
            return self._count(group) if self._queue.leader.has_group(group) else None
        except _UNREADABLE:
            return None

    def reset_group(self, request: ResetGroup, done: Done) -> None:
        queue = self._queue
        group = request.group
        to_offset = queue.offset_of(request.start)
        is_queue = queue.leader.has_group(group)
        from_offset = queue.machine.groups[group].floor if is_queue else self._position_of(request)
        moved = GroupReset(from_offset, to_offset)
        if request.is_dry_run:
            done(moved)
            return
        queue.unused.check_free(group)
        if is_queue:
            self._reset_queue(group, moved, done)
        else:
            command = commands.CommitOffset(group, to_offset, queue.now_ms(), True, b"", request.epoch)
            self._propose(command, done, lambda _: moved)

    def _reset_queue(self, group: str, moved: GroupReset, done: Done) -> None:
        queue = self._queue

        def answered(answer: Reply | FlotillaError) -> None:
            queue.leader.end_reset(group)
            queue.changed(group)
            done(answer)

        command = commands.ResetGroup(group, moved.to_offset, queue.now_ms(), queue.leader.begin_reset(group))
        try:
            self._propose(command, answered, lambda _: moved)
        except FlotillaError:
            queue.leader.end_reset(group)
            raise

    def _position_of(self, request: ResetGroup) -> Offset:
        """The position of a group that commits offsets: the oldest message before its first commit."""
        machine = self._queue.machine
        position = machine.positions.get(request.group)
        if not request.epoch:
            if request.group in machine.fences:
                raise StaleGenerationError(f"group {request.group!r} is a stream group: moving it needs an epoch")
            if position is None:
                raise NotFoundError(f"there is no group {request.group!r} in this partition")
        return machine.log_start if position is None else position.offset

    def delete_group(self, request: DeleteGroup, done: Done) -> None:
        live = self._queue.live_members(request.group)
        if live and not request.is_forced:
            raise group_in_use(request.group, live)
        group, now_ms = request.group, self._queue.now_ms()
        if not self._remembers_ends():
            self._propose(commands.DeleteGroup(group, now_ms), done, lambda _: DoneReply())
            return
        missing = NotFoundError(f"there is no group {group!r}")
        # Readers may be about to commit where the group is not known yet.
        self._propose(
            commands.EndGroup(group, now_ms), done, lambda is_there: DoneReply() if is_there else self._explain(missing)
        )

    def _remembers_ends(self) -> bool:
        """Whether partitions store when groups were deleted: not before all nodes can read that."""
        return self._queue.cluster_version() >= GROUP_ENDS_STORED

    def expire_group(self, request: ExpireGroup, done: Done) -> None:
        unused, group = self._queue.unused, request.group
        after_ms = self._queue.rules(group).expires_after_ms
        if request.step not in STEPS:
            raise InvalidArgumentError(f"{request.step} is no step of deleting an unused group")
        if request.step == STEP_RELEASE:
            unused.release(group)
        elif request.step == STEP_HOLD:
            done(unused.hold(group, after_ms))
            return
        found = unused.look(group, after_ms)
        is_deletion = request.step == STEP_DELETE and found.is_held
        remembers = self._remembers_ends()
        if is_deletion and (found.is_known or remembers) and unused.may_delete(group, after_ms):
            made = commands.EndGroup if remembers else commands.DeleteGroup
            command = made(group, self._queue.now_ms())
            self._propose(command, done, lambda _: GroupUse(is_held=found.is_held))
        else:
            done(found)

    def _propose(
        self,
        command: commands.Command,
        done: Done,
        translate: Callable[[Any], Reply | FlotillaError],
        *,
        frees_space: bool = False,
    ) -> None:
        def answered(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(self._explain(result))
                return
            if not self._queue.is_ended:
                # Other messages may be ready or due next, and others have ended.
                self._queue.changed()
                self._queue.result_reads.look()
            done(translate(result))

        self._queue.propose(command, answered, frees_space=frees_space)


def _check_results(leases: list[LeaseRange], results: list[MessageResult], kind: int = ACK) -> None:
    """Raises InvalidArgumentError."""
    if not results:
        return
    if kind != ACK:
        raise InvalidArgumentError("only an acked message has a result")
    offsets = [result.offset for result in results]
    leased = RunSet((run.first, run.end) for run in leases)
    if len(set(offsets)) != len(offsets) or not all(map(leased.contains, offsets)):
        raise InvalidArgumentError("a result is of a message that the request settles, and of each one at most")
    if len(offsets) > RESULT_WAIT_COUNT_MAX:
        raise InvalidArgumentError(f"a request carries at most {RESULT_WAIT_COUNT_MAX} results")
    sizes = [len(result.payload) for result in results]
    if max(sizes) > RESULT_BYTES_MAX or sum(sizes) > RESULT_REQUEST_BYTES_MAX:
        raise InvalidArgumentError(
            f"a result has at most {RESULT_BYTES_MAX} bytes, and those of one request {RESULT_REQUEST_BYTES_MAX}"
        )
