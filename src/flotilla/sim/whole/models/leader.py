"""The leaders of partitions at real brokers: every lease, outcome and answer is told to the checkers as it happens.

Each class does what the one that it extends does, and reports. The state machine that a leader is made with says which
partition it is.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from flotilla.broker.partition.transactions import PartitionTransactions
from flotilla.broker.ports import Cancel, Done
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.broker.queue.rate_limit import TOKEN_PARTITION
from flotilla.broker.queue.requests import QueueRequests
from flotilla.broker.queue.takers import ReadResult, Room, Taker
from flotilla.codec.batch.view import BatchView
from flotilla.partition.commands.partition_commands import StageSettlement as StageSettlementCommand
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.key_order import KeysOf
from flotilla.partition.leader.outcome import LastAttemptOf
from flotilla.partition.leader.poll_filter import PollFilter
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.machine import PartitionMachine
from flotilla.sim.whole.models.partition import WatchedPartition
from flotilla.types.errors import FlotillaError
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Index, Offset, Term
from flotilla.types.operations import Reply
from flotilla.types.operations.queue import ACK, RELEASE, Delivery, LeaseRange, MessageResult, Settle, Settled
from flotilla.types.operations.transactions import (
    Stage,
    Staged,
    StageSettlement,
    TransactionOutcome,
    TransactionShown,
)


class WatchedLeader(QueueLeader):
    def __init__(
        self,
        machine: PartitionMachine,
        term: Term,
        now_ms: int,
        random: Random,
        grace_ms: int,
        rules_of: Callable[[str], GroupRules],
        term_start: Index = 0,
    ) -> None:
        super().__init__(machine, term, now_ms, random, grace_ms, rules_of, term_start)
        assert isinstance(machine, WatchedPartition)
        self.watch = machine.watch
        self._checker = machine.watch.delivery
        self.at = self._checker.begin(machine.node, term)
        self.watch.check(self._checker.inherited, self.at, self.inherited, self._now_ms, machine.applied)

    def poll(
        self,
        group: str,
        member: str,
        max_messages: int,
        visibility_ms: int,
        now_ms: int,
        keys_of: KeysOf | None = None,
        poll_filter: PollFilter | None = None,
    ) -> list[LeasedMessages]:
        leases = super().poll(group, member, max_messages, visibility_ms, now_ms, keys_of, poll_filter)
        if leases:
            self.watch.check(self._leased, group, member, leases, visibility_ms, keys_of is not None)
        return leases

    def _leased(
        self, group: str, member: str, leases: list[LeasedMessages], visibility_ms: int, is_ordered: bool
    ) -> None:
        now_ms, rules = self._now_ms, self._rules_of(group)
        deadline_ms = now_ms + min(visibility_ms or rules.visibility_ms, rules.lease_ms_max)
        applied = self._machine.applied
        messages = self.watch.shadow.messages
        for leased in leases:
            self._checker.leased(self.at, group, member, leased, deadline_ms, now_ms, applied, is_ordered=is_ordered)
            for offset in range(leased.first, leased.end):
                self.watch.ages.happens(messages[offset].deliver_at_ms, f"message {offset} is delivered")

    def release_unsent(self, group: str, leases: Sequence[LeasedMessages], now_ms: int) -> None:
        super().release_unsent(group, leases, now_ms)
        self.watch.check(self._checker.returned, self.at, group, leases)

    def expire(self, group: str, first: Offset, end: Offset, now_ms: int) -> None:
        super().expire(group, first, end, now_ms)
        self.watch.check(self._expired, group, first, end)

    def _expired(self, group: str, first: Offset, end: Offset) -> None:
        self._checker.returned(self.at, group, [LeasedMessages(0, first, end, 0)])
        for offset in range(first, end):
            message = self.watch.shadow.messages[offset]
            self.watch.ages.happens(message.timestamp_ms + message.ttl_ms, f"message {offset} expires")

    def settle(
        self,
        group: str,
        kind: int,
        ranges: Sequence[LeaseRange],
        reason: str,
        delay_ms: int,
        now_ms: int,
        last_attempt_of: LastAttemptOf | None = None,
        members: Sequence[str] = (),
        results: Sequence[MessageResult] = (),
    ) -> list[LeaseRange]:
        refused = super().settle(group, kind, ranges, reason, delay_ms, now_ms, last_attempt_of, members, results)
        self.watch.check(self._settled, group, ranges, refused, members)
        return refused

    def _settled(
        self, group: str, ranges: Sequence[LeaseRange], refused: Sequence[LeaseRange], members: Sequence[str]
    ) -> None:
        accepted = accepted_of(ranges, refused)
        self._checker.settled(self.at, group, [one for one in accepted if one.lease_id], self._now_ms)
        # By members, who need not know their leases.
        for one in [one for one in accepted if not one.lease_id]:
            lease = self.at.live.get((group, one.first))
            if lease is not None and lease.member in members:
                self.at.end(group, one.first)

    def stage(
        self,
        transaction_id: str,
        group: str,
        ranges: Sequence[LeaseRange],
        now_ms: int,
        timeout_ms: int = 0,
        results: Sequence[MessageResult] = (),
    ) -> tuple[StageSettlementCommand | None, list[LeaseRange]]:
        command, refused = super().stage(transaction_id, group, ranges, now_ms, timeout_ms, results)
        if command is not None:
            self.watch.check(self._settled, group, ranges, refused, ())
        return command, refused

    def extend(
        self, group: str, member: str, ranges: Sequence[LeaseRange], visibility_ms: int, now_ms: int
    ) -> list[LeaseRange]:
        refused = super().extend(group, member, ranges, visibility_ms, now_ms)
        self.watch.check(self._extended, group, member, ranges, refused, visibility_ms)
        return refused

    def _extended(
        self,
        group: str,
        member: str,
        ranges: Sequence[LeaseRange],
        refused: Sequence[LeaseRange],
        visibility_ms: int,
    ) -> None:
        named = [one for one in ranges if one.lease_id]
        accepted = accepted_of(named, refused)
        lasts_ms = visibility_ms or self._rules_of(group).visibility_ms
        self._checker.extended(self.at, group, member, accepted, lasts_ms, self._now_ms)
        if any(self.is_earlier(one.lease_id) for one in accepted):
            self.watch.note("lease re-presented to a new leader")

    def present(self, group: str, member: str, term: Term, now_ms: int) -> None:
        super().present(group, member, term, now_ms)
        if term == self.term:
            self.watch.check(self._checker.presented, self.at, group, member)

    def take_tokens(self, group: str, wanted: int, now_ms: int) -> int:
        taken = super().take_tokens(group, wanted, now_ms)
        if taken:
            self.spent(group, taken, now_ms)
        return taken

    def spent(self, group: str, tokens: int, now_ms: int) -> None:
        """Tokens of a rate limit, for messages of this partition or of another one."""
        rules = self.watch.rules_of(group)
        self.watch.check(self._checker.delivered, self.at, group, tokens, rules, now_ms, self.watch.now_us)

    def leave(self, group: str, member: str, now_ms: int) -> bool:
        had_any = super().leave(group, member, now_ms)
        self.watch.check(self._checker.left, self.at, group, member)
        return had_any

    def release_member(self, member: str, now_ms: int, away_ms: int) -> bool:
        had_any = super().release_member(member, now_ms, away_ms)
        for group in self.groups():
            if self._rules_of(group).lost_ms <= away_ms:
                self.watch.check(self._checker.left, self.at, group, member)
        return had_any


class WatchedQueue(PartitionQueue):
    def _read(self, group: str, leases: list[LeasedMessages], room: Room, now_ms: int) -> ReadResult:
        read = super()._read(group, leases, room, now_ms)
        kept = (*read.left, *read.expired)
        count = sum([one.end - one.first for one in leases]) - sum([one.end - one.first for one in kept])
        leader = self.leader
        assert isinstance(leader, WatchedLeader)
        if count and self.number == TOKEN_PARTITION:
            leader.spent(group, count, now_ms)
        return read

    def take_auto(
        self,
        taker: Taker,
        max_messages: int,
        max_bytes: int,
        deliver: Callable[[list[Delivery] | FlotillaError], None],
    ) -> int:
        leader = self.leader
        assert isinstance(leader, WatchedLeader)

        def delivered(deliveries: list[Delivery] | FlotillaError) -> None:
            if not isinstance(deliveries, FlotillaError):
                for one in deliveries:
                    end = one.first + one.count
                    leader.watch.check(leader.watch.delivery.delivered_once, leader.at, taker.group, one.first, end)
            deliver(deliveries)

        return super().take_auto(taker, max_messages, max_bytes, delivered)


class WatchedRequests(QueueRequests):
    def settle(self, request: Settle, done: Done) -> None:
        leader = self._queue.leader
        assert isinstance(leader, WatchedLeader)
        watch = leader.watch
        state = self._queue.machine.groups.get(request.group)
        generation = 0 if state is None else state.generation

        def answered(reply: Reply | FlotillaError) -> None:
            if isinstance(reply, Settled) and request.kind != RELEASE and not request.members:
                accepted = accepted_of(request.leases, reply.expired)
                check = watch.delivery.answered_settled
                watch.check(check, request.group, request.kind, accepted, generation)
                # A member takes this for the end of the message, as if it had been accepted.
                watch.check(check, request.group, ACK, reply.settled, generation)
            done(reply)

        super().settle(request, answered)


class WatchedTransactions(PartitionTransactions):
    @property
    def _watch(self) -> Any:
        assert isinstance(self._machine, WatchedPartition)
        return self._machine.watch

    def stage(self, request: Stage, done: Done) -> None:
        watch = self._watch
        header = BatchView(request.batch).header
        named = request.transaction_id, watch.group, header.producer_id, header.producer_sequence

        def answered(reply: Reply | FlotillaError) -> None:
            if isinstance(reply, Staged):
                watch.check(watch.registry.answered_staged, *named)
            done(reply)

        super().stage(request, answered)

    def stage_settlement(self, request: StageSettlement, queues: QueueRequests, done: Done) -> None:
        watch = self._watch
        offsets = [offset for one in request.leases for offset in range(one.first, one.end)]
        named = request.transaction_id, watch.group, request.group, offsets

        def answered(reply: Reply | FlotillaError) -> None:
            if isinstance(reply, Staged):
                watch.check(watch.registry.answered_acks_staged, *named)
            done(reply)

        super().stage_settlement(request, queues, answered)

    def outcome(self, request: TransactionOutcome, done: Done) -> Cancel | None:
        watch = self._watch

        def answered(reply: Reply | FlotillaError) -> None:
            if isinstance(reply, TransactionShown):
                watch.check(watch.shadow.stages.answered_outcome, request.transaction_id, reply)
            done(reply)

        return super().outcome(request, answered)


def accepted_of(ranges: Sequence[LeaseRange], refused: Sequence[LeaseRange]) -> list[LeaseRange]:
    """One for each message that was not refused."""
    left = {(each.lease_id, offset): None for each in ranges for offset in range(each.first, each.end)}
    for each in refused:
        for offset in range(each.first, each.end):
            left.pop((each.lease_id, offset), None)
    return [LeaseRange(lease_id, offset, offset + 1) for lease_id, offset in left]
