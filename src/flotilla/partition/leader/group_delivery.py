"""The delivery of one queue group at the leader of a partition, for one term: polls, leases and their outcomes.

An unsettled message is at any time in exactly one of these places:

    delayed    its time of delivery has not come (`delays`, shared by all groups);
    ready      after the cursor of its priority, or among the messages that came back (`ready_messages`);
    taken      everything else, as runs in one map with their place (`places`): leased, settling, staged, retrying, or
               blocked by another message of its key.

The map holds one place for each message by its nature. This module sees to it that a taken message is neither
delivered nor listed as ready. Nothing here is replicated: for a new leader every message is ready that is neither
settled nor staged nor waiting for a time.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

from flotilla.partition.commands.hand_over import HeldLease
from flotilla.partition.leader.delays import Delays
from flotilla.partition.leader.delivery_limits import DeliveryLimits
from flotilla.partition.leader.due_cursor import DUE_LIMIT, DueCursor
from flotilla.partition.leader.holders import UNNAMED, Holders
from flotilla.partition.leader.key_order import KeyOrder, KeysOf, choose_in_key_order
from flotilla.partition.leader.leases import EARLIER, EARLIER_LEASE, OWN, STALE, Lease, LeasedRun, LeaseIds, LeaseTable
from flotilla.partition.leader.outcome import STAGE, Outcome
from flotilla.partition.leader.places import (
    ACKING,
    BLOCKED,
    DROPPING,
    EXPIRING,
    FAILING,
    KILLING,
    LEASED,
    RETRYING,
    STAGED,
)
from flotilla.partition.leader.poll_filter import PollFilter, choose_matching
from flotilla.partition.leader.rate_limit import RateLimit
from flotilla.partition.leader.ready_messages import Chosen, ReadyMessages
from flotilla.partition.leader.retries import Retries
from flotilla.partition.leader.run_lists import by_offset, refused_of
from flotilla.partition.leader.settlement_outbox import Piece, SettlementOutbox
from flotilla.partition.leader.turns import Turns
from flotilla.partition.offset_runs import Run, RunMap, RunSet, filled
from flotilla.partition.state import endings
from flotilla.partition.state.group import Failure, GroupState
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.filters import NO_FILTER, MessageFilter
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Offset
from flotilla.types.limits import LOSS_COUNT_MAX
from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE, LeaseRange

#: Of a message that has not failed.
_NO_FAILURE: Final = Failure(0, 0, "")
#: Not an outcome, but passed like one to `_free`: a member presents a lease of an earlier leader.
_PRESENT: Final = 0
#: How a message ends by these outcomes. A cancelled one is settled without effect.
_ENDS_OF: Final = {
    ACK: (endings.ACKED, endings.CANCELLED),
    REJECT: (endings.DEAD, endings.DROPPED, endings.CANCELLED),
    FAIL: endings.KINDS,
}
#: A member has these messages, or their outcome is decided.
_NOT_FREE: Final = frozenset((LEASED, ACKING, KILLING, EXPIRING, DROPPING, STAGED))

#: Leases that expire and retries that come due in one call; the rest waits for the next call.
_EXPIRE_LIMIT: Final = 4_096
#: When to poll again after a reservation of tokens that was lost on its way.
_RESERVATION_MS: Final = 1_000


class LeasedMessages(NamedTuple):
    """Consecutive messages under one lease, all at the same attempt."""

    #: 0: delivered at most once, there is nothing to settle.
    lease_id: int
    first: Offset
    end: Offset
    #: 1 at the first delivery.
    attempt: int


class GroupDelivery:
    """Lives until the group is reset or deleted: the next one knows none of its leases."""

    def __init__(
        self,
        name: str,
        machine: PartitionMachine,
        delays: Delays,
        ids: LeaseIds,
        random: Random,
        *,
        now_ms: int,
        opens_ms: int | None,
        earlier_end: Offset,
    ) -> None:
        """Members of earlier leaders may hold messages below `earlier_end`."""
        self.name = name
        self.state: GroupState = machine.groups[name]
        self.generation = self.state.generation
        #: Delivery begins then, but for fresh messages: until then members present leases of the last leader. None:
        #: there are none.
        self._opens_ms = opens_ms
        self._is_open = opens_ms is None or opens_ms <= now_ms
        self.holders = Holders(name, self.state, now_ms, is_awaiting=not self._is_open)
        if not self._is_open and not self.holders.awaited:
            self._opens_ms = now_ms
            self._is_open = True
        self._earlier_end = earlier_end
        self._machine = machine
        self._delays = delays
        self._random = random
        self.taken: RunMap[int] = RunMap()
        self.ready = ReadyMessages(machine.index, self.state, self.taken)
        #: Until delivery begins: messages that no earlier leader can have leased.
        self._fresh: ReadyMessages | None = None
        if not self._is_open:
            self._fresh = ReadyMessages(machine.index, self.state, self.taken, earlier_end)
        self.leases = LeaseTable(ids)
        self.outbox = SettlementOutbox()
        #: Messages whose failure is in the outbox or in flight.
        self._failing = RunSet()
        self.rate_limit = RateLimit(self.state)
        self.limits = DeliveryLimits()
        #: How often unsettled messages came back because their member was lost.
        self._losses: RunMap[int] = RunMap()
        #: None before the first ordered poll.
        self._keys: KeyOrder | None = None
        #: Messages that were cancelled or trimmed before the keys were last swept.
        self._swept = 0
        self._polls = 0
        self.retries = Retries(self.taken)
        #: When the token will be there that the last poll lacked.
        self._token_ms: int | None = None
        self._turns = Turns(self.leases)
        #: The time of this group's valid entry among the leader's timers.
        self.timer_ms: int | None = None
        for first, end, failure in self.state.failures:
            if failure.not_before_ms > now_ms:
                self.retries.add(first, end, failure.not_before_ms)
        for first, end, _ in machine.transactions.staged_acks(name, self.generation, 0, machine.next_offset):
            self.taken.set(first, end, STAGED)
        self.due = DueCursor(machine, delays, self.state, self.ready)

    # Polls.

    def take(
        self,
        member: str,
        max_messages: int,
        deadline_ms: int,
        now_ms: int,
        keys_of: KeysOf | None = None,
        poll_filter: PollFilter | None = None,
    ) -> list[LeasedMessages]:
        """Leases up to `max_messages` messages, all under one new lease."""
        self.leases.see(member, now_ms, NO_FILTER if poll_filter is None else poll_filter.wanted)
        chosen = self._choose(max_messages, now_ms, keys_of, poll_filter)
        if not chosen:
            return []
        runs = by_offset(chosen)
        for first, end in runs:
            self.taken.set(first, end, LEASED)
        lease_id = self.leases.give(member, runs, deadline_ms, now_ms)
        return self._leased_messages(lease_id, chosen)

    def _choose(
        self, max_messages: int, now_ms: int, keys_of: KeysOf | None, poll_filter: PollFilter | None
    ) -> list[Chosen]:
        # A poll that skips messages may need all that are due.
        wanted = max_messages if keys_of is None and poll_filter is None else DUE_LIMIT
        ready = self._offered(now_ms, wanted)
        if ready is self._fresh and keys_of is not None:
            # A message of the same key may be leased from the last leader.
            return []
        if self.rate_limit.is_limited and not ready.has_any():
            return []
        count_max = self.rate_limit.available(now_ms, max_messages)
        if not count_max:
            # A token in the bucket means that the reservation is missing: its commit wakes the group earlier.
            self._token_ms = now_ms + (self.rate_limit.next_token_ms(now_ms) or _RESERVATION_MS)
            return []
        if keys_of is not None:
            assert poll_filter is None
            chosen = self._choose_ordered(count_max, keys_of)
        else:
            if poll_filter is None:
                chosen = ready.choose(count_max, self._polls)
            else:
                chosen = choose_matching(ready, poll_filter, count_max, self._polls, self._delays.now_ms)
            if self._keys is not None:
                for first, end, _ in chosen:
                    self._keys.unknown.add(first, end)
        if chosen:
            self._polls += 1
            self.rate_limit.take(_count(chosen), now_ms)
        return chosen

    def stands_by(self, member: str, now_ms: int) -> bool:
        """Whether only another member may get messages. Before delivery begins it is not known who holds some."""
        return (self._fresh is not None and not self._open(now_ms)) or self._turns.stands_by(member, now_ms)

    def _leased_messages(self, lease_id: int, chosen: list[Chosen]) -> list[LeasedMessages]:
        if not self.state.failures:
            return [LeasedMessages(lease_id, first, end, 1) for first, end, _ in chosen]
        return [
            LeasedMessages(lease_id, low, high, attempts + 1)
            for first, end, _ in chosen
            for low, high, attempts in self.state.by_attempts(first, end)
        ]

    def has_ready(self, now_ms: int) -> bool:
        """Whether there is anything to deliver, apart from rate limits and pauses."""
        return self._offered(now_ms, DUE_LIMIT).has_any()

    def best_priority(self, now_ms: int) -> int:
        """The highest priority of what `has_ready` finds; -1: there is nothing."""
        return self._offered(now_ms, DUE_LIMIT).best_priority()

    def has_unseen(self, wanted: MessageFilter) -> bool:
        """Whether there are ready messages that polls with this filter have not looked at."""
        return (self._fresh or self.ready).branch(wanted).has_any()

    def has_unseen_keys(self) -> bool:
        """The same for ordered polls."""
        return self._fresh is None and self._keys is not None and self._keys.has_unseen(self.ready)

    def blocked_keys(self, limit: int) -> tuple[list[tuple[bytes, Offset, int]], int, int]:
        """As KeyOrder.most_blocked, and how many messages are blocked in all."""
        return ([], 0, 0) if self._keys is None else (*self._keys.most_blocked(limit), self._keys.blocked_count)

    def _offered(self, now_ms: int, wanted: int) -> ReadyMessages:
        """The messages that may be delivered now: before delivery has begun, only fresh ones without a delay.

        After that, at least `wanted` messages that came due are ready, if there are as many.
        """
        if self._fresh is not None and not self._open(now_ms):
            return self._fresh
        if self.due.is_behind and not self.state.is_full:
            self.due.read(wanted)
        if self._keys is not None:
            self._sweep_keys(self._keys)
        return self.ready

    def _open(self, now_ms: int) -> bool:
        """Whether the time to present leases of the last leader is over."""
        self._is_open = self._opens_ms is None or self._opens_ms <= now_ms
        if self._is_open:
            self._fresh = None
            self.holders.stop_waiting()
        return self._is_open

    def presented(self, member: str, now_ms: int) -> None:
        """The member has presented all its leases: delivery begins when all have that can have any."""
        self.holders.presented(member)
        if not self._is_open and not self.holders.awaited:
            self._opens_ms = now_ms
            self._open(now_ms)

    def has_leases(self, holder: str) -> bool:
        members = self.leases.members
        if holder != UNNAMED:
            return holder in members and bool(members[holder].leases)
        return any(member.leases and not self.holders.is_known(name) for name, member in members.items())

    def _put(self, first: Offset, end: Offset) -> None:
        """Messages that were taken are ready again, unless their time of delivery has not come."""
        self.ready.put(first, end, self._delays.now_ms)
        if self._fresh is not None and end > self._earlier_end:
            self._fresh.put(max(first, self._earlier_end), end, self._delays.now_ms)

    def _withdraw(self, first: Offset, end: Offset) -> None:
        """Messages are taken that no poll has chosen."""
        self.ready.withdraw(first, end)
        if self._fresh is not None:
            self._fresh.withdraw(first, end)

    # Order by key.

    def _choose_ordered(self, count_max: int, keys_of: KeysOf) -> list[Chosen]:
        keys = self._keys
        if keys is None:
            keys = self._keys = KeyOrder()
            for first, end, _ in self.taken:
                keys.unknown.add(first, end)
        keys.learn_unknown(self.taken, keys_of)
        return choose_in_key_order(
            self.ready,
            keys,
            self.taken,
            keys_of,
            count_max,
            self._polls,
            self._delays.now_ms,
            self._machine.next_offset,
        )

    def _sweep_keys(self, keys: KeyOrder) -> None:
        """Cancelled and trimmed messages keep no key busy."""
        settled = self.state.totals.cancelled + self.state.totals.trimmed
        if settled != self._swept:
            self._swept = settled
            self._free_keys(keys.sweep(self.state.is_settled, self._is_blocked))

    def _is_blocked(self, offset: Offset) -> bool:
        return self.taken.get(offset) == BLOCKED and not self.state.is_settled(offset)

    def _free_keys(self, offsets: Iterable[Offset]) -> None:
        for offset in offsets:
            self.taken.remove(offset, offset + 1)
            self._put(offset, offset + 1)

    # Outcomes.

    def ranges_of(self, run: LeaseRange, member: str, *, is_earlier: bool) -> list[LeaseRange]:
        """The parts of a run without a lease id, under the ids of the member's leases; 0 where it has none.

        With `is_earlier`, messages that it does not hold here and that an earlier leader could know get EARLIER_LEASE.
        """
        found: list[LeaseRange] = []
        earlier_end = self._earlier_end if is_earlier and self._opens_ms is not None else 0
        at = run.first
        for low, high, lease_id in (*self.leases.leased_to(member, run.first, run.end), (run.end, run.end, 0)):
            border = max(at, min(low, earlier_end))
            if at < border:
                found.append(LeaseRange(EARLIER_LEASE, at, border))
            if border < low:
                found.append(LeaseRange(0, border, low))
            if low < high:
                found.append(LeaseRange(lease_id, low, high))
            at = high
        return found

    def settle(self, ranges: Sequence[LeaseRange], outcome: Outcome) -> list[LeaseRange]:
        """Returns the refused ranges."""
        refused: list[LeaseRange] = []
        for lease_id, first, end in ranges:
            lease = self.leases.find(lease_id)
            at = first
            if lease is not None:
                for low, high, deadline_ms in self.leases.take(lease, first, end):
                    if at < low:
                        refused += self._settle_late(lease_id, at, low, outcome)
                    self._end(low, high, outcome, lease, deadline_ms)
                    at = high
            if at < end:
                refused += self._settle_late(lease_id, at, end, outcome)
        return refused

    def settled_of(self, ranges: LeaseRange, kind: int) -> list[LeaseRange]:
        """The parts that are settled in the log, without those that are known to have ended otherwise."""
        lease_id, first, end = ranges
        known, log_start = self.state.endings, self._machine.log_start
        found: list[LeaseRange] = []
        for part in refused_of(lease_id, first, end, self.state.unsettled(first, end)):
            other = known.otherwise(max(part.first, log_start), part.end, _ENDS_OF[kind])
            found += refused_of(lease_id, part.first, part.end, other)
        return found

    def _settle_late(self, lease_id: int, first: Offset, end: Offset, outcome: Outcome) -> list[LeaseRange]:
        """The lease is not here, or not any more: its outcome counts while the messages are free.

        Of a lease that has ended here only an ack counts: a failure was counted when it expired, and none when its
        member was lost.
        """
        origin = self._origin_of(lease_id)
        free: list[Run] = []
        if origin == EARLIER or (origin == OWN and outcome.kind in (ACK, STAGE)):
            free = self._free(first, end, outcome.kind)
        for low, high in free:
            self._withdraw(low, high)
            if self._keys is not None:
                # Their keys are busy until the outcome has committed.
                self._keys.unknown.add(low, high)
            self._end(low, high, outcome, None, 0)
        return refused_of(lease_id, first, end, free)

    def _origin_of(self, lease_id: int) -> int:
        origin = self.leases.origin_of(lease_id)
        if origin == EARLIER:
            # A group that was opened or reset in this term has no leases of earlier leaders. One of before, and one of
            # a group that had the name, is never taken for its own.
            is_known = lease_id >= self.state.first_lease or lease_id == EARLIER_LEASE
            return EARLIER if is_known and self._opens_ms is not None else STALE
        return origin

    def _free(self, first: Offset, end: Offset, kind: int) -> list[Run]:
        """The parts of [first, end) that are in the log, unsettled, and neither leased nor about to be settled.

        A retrying message has failed under that lease: it neither fails nor is released once more.
        """
        found: list[Run] = []
        for low, high in self.state.unsettled(first, min(end, self._machine.next_offset)):
            for taken_first, taken_end, place in self.taken.within(low, high):
                if (
                    place in _NOT_FREE
                    or (place == FAILING and kind != ACK)
                    or (place >= RETRYING and kind in (FAIL, RELEASE))
                ):
                    if low < taken_first:
                        found.append((low, taken_first))
                    low = taken_end
            if low < high:
                found.append((low, high))
        return found

    def _end(self, first: Offset, end: Offset, outcome: Outcome, lease: Lease | None, deadline_ms: int) -> None:
        if outcome.kind == ACK:
            self._settle_as(Piece(ACKING, first, end, lease, deadline_ms, results=outcome.results_of(first, end)))
        elif outcome.kind == STAGE:
            self.taken.set(first, end, STAGED)
            outcome.staged.append(Piece(STAGED, first, end, lease, deadline_ms))
        elif outcome.kind == FAIL:
            self._fail(first, end, outcome, lease, deadline_ms)
        elif outcome.kind == REJECT:
            self._kill(first, end, outcome, lease, deadline_ms)
        else:
            assert outcome.kind == RELEASE
            self.taken.remove(first, end)
            # A member that presents its lease to a new leader may hold it before the retry of its last failure is due.
            self._place(first, end, outcome.now_ms, outcome.now_ms + max(outcome.delay_ms, 0))

    def _settle_as(self, piece: Piece) -> None:
        if piece.kind == FAILING:
            self._failing.add(piece.first, piece.end)
        self.taken.set(piece.first, piece.end, piece.kind)
        self.outbox.add(piece)

    def _fail(self, first: Offset, end: Offset, outcome: Outcome, lease: Lease | None, deadline_ms: int) -> None:
        self.taken.remove(first, end)
        is_unasked, reason = outcome.is_unasked, outcome.reason
        for low, high, attempts in self.state.by_attempts(first, end):
            for piece_first, piece_end, is_last in self.limits.split(low, high, attempts + 1, outcome):
                if is_last:
                    self._kill(piece_first, piece_end, outcome, lease, deadline_ms)
                    continue
                not_before_ms = outcome.now_ms + outcome.retry_delay_ms(attempts + 1, self._random)
                self._settle_as(
                    Piece(FAILING, piece_first, piece_end, lease, deadline_ms, is_unasked, not_before_ms, reason)
                )

    def _kill(self, first: Offset, end: Offset, outcome: Outcome, lease: Lease | None, deadline_ms: int) -> None:
        kind = KILLING if outcome.rules.dead_letters else DROPPING
        self._settle_as(Piece(kind, first, end, lease, deadline_ms, outcome.is_unasked, 0, outcome.reason))

    # Transactions.

    def stage(
        self, ranges: Sequence[LeaseRange], rules: GroupRules, now_ms: int
    ) -> tuple[list[Piece], list[LeaseRange]]:
        """Ends leases for a transaction: the messages are not delivered before its decision.

        Returns all of them as pieces in the order of offsets; or none, and the refused ranges.
        """
        outcome = Outcome(STAGE, now_ms, rules)
        refused = self.settle(ranges, outcome)
        if refused:
            self.refuse(outcome.staged, now_ms)
            return [], refused
        return sorted(outcome.staged, key=_first_of), []

    def unstage(self, runs: Iterable[Run], now_ms: int, *, is_committed: bool) -> None:
        """The transaction has ended: the messages are acked, or free again."""
        if is_committed:
            self.commit([Piece(ACKING, first, end) for first, end in runs], now_ms)
            return
        for first, end in runs:
            for low, high, place in list(self.taken.within(first, end)):
                if place == STAGED:
                    self.taken.remove(low, high)
                    self._place(low, high, now_ms)

    # Bounds and deadlines.

    def limit_deliveries(self, first: Offset, end: Offset, max_deliveries: int) -> None:
        for low, high in self.state.unsettled(first, end):
            self.limits.set(low, high, max_deliveries)

    def extend(
        self, member: str, ranges: Sequence[LeaseRange], visibility_ms: int, now_ms: int, lease_ms_max: int
    ) -> list[LeaseRange]:
        """Returns the refused ranges."""
        refused: list[LeaseRange] = []
        self.leases.see(member, now_ms)
        self.holders.see(member, now_ms)
        for lease_id, first, end in ranges:
            lease = self.leases.find(lease_id)
            at = first
            if lease is not None:
                deadline_ms = min(now_ms + visibility_ms, lease.given_ms + lease_ms_max)
                if deadline_ms <= now_ms:
                    # The lease has reached its longest time: the member must hear of it.
                    refused.append(LeaseRange(lease_id, first, end))
                    continue
                for low, high, _ in self.leases.extend(lease, first, end, deadline_ms):
                    if at < low:
                        refused += self._adopt(lease_id, member, (at, low), deadline_ms, now_ms)
                    at = high
            if at < end:
                deadline_ms = now_ms + min(visibility_ms, lease_ms_max)
                refused += self._adopt(lease_id, member, (at, end), deadline_ms, now_ms)
        return refused

    def _adopt(self, lease_id: int, member: str, run: Run, deadline_ms: int, now_ms: int) -> list[LeaseRange]:
        first, end = run
        if self._origin_of(lease_id) != EARLIER:
            return refused_of(lease_id, first, end, [])
        free = self._free(first, end, _PRESENT)
        for low, high in free:
            self._withdraw(low, high)
            self.taken.set(low, high, LEASED)
            if lease_id == EARLIER_LEASE:
                self.leases.give(member, ((low, high),), deadline_ms, now_ms)
            else:
                self.leases.adopt(lease_id, member, (low, high), deadline_ms, now_ms)
            if self._keys is not None:
                self._keys.unknown.add(low, high)
        return refused_of(lease_id, first, end, free)

    def inherit(self, leases: Iterable[HeldLease], now_ms: int) -> None:
        """Takes over the leases that the last leader handed over."""
        for held in leases:
            for run in held.runs:
                for low, high in self._free(run.first, run.end, _PRESENT):
                    self._withdraw(low, high)
                    self.taken.set(low, high, LEASED)
                    self.leases.inherit(held, run._replace(first=low, end=high), now_ms)

    @property
    def is_open(self) -> bool:
        """Whether all messages may be delivered. Otherwise members may still present leases of the last leader."""
        return self._is_open

    def release_unsent(self, leases: Iterable[LeasedMessages]) -> None:
        """Undoes leases that were not sent."""
        for lease in leases:
            for first, end, _ in self._undo_lease(lease.lease_id, lease.first, lease.end):
                self.taken.remove(first, end)
                self._put(first, end)

    def expire(self, first: Offset, end: Offset) -> None:
        """Settles messages that were leased just now and found older than their time to live."""
        found = self.leases.lease_at(first)
        if found is not None:
            for low, high, _ in self._undo_lease(found[0].lease_id, first, end):
                self._settle_as(Piece(EXPIRING, low, high, is_unasked=True))

    def _undo_lease(self, lease_id: int, first: Offset, end: Offset) -> list[LeasedRun]:
        lease = self.leases.find(lease_id)
        if lease is None:
            return []
        taken = self.leases.take(lease, first, end)
        self.rate_limit.refund(sum([high - low for low, high, _ in taken]))
        return taken

    def leave(self, member: str, rules: GroupRules, now_ms: int) -> bool:
        """The member is closed: what it still holds is free. Returns whether it held anything."""
        outcome = Outcome(RELEASE, now_ms, rules, delay_ms=0)
        taken = self.leases.drop_member(member)
        self.holders.lost(member)
        self.presented(member, now_ms)
        for first, end, _ in taken:
            self._end(first, end, outcome, None, 0)
        return bool(taken)

    def release_member(self, member: str, outcome: Outcome) -> bool:
        """Its connection is lost: its messages are free, and those that were lost too often before have failed.

        Returns whether it had any.
        """
        taken = self.leases.drop_member(member)
        self.holders.lost(member)
        for first, end, _ in taken:
            for low, high, losses in filled(self._losses, first, end, 0):
                if losses >= LOSS_COUNT_MAX:
                    self._fail(low, high, outcome, None, 0)
                    continue
                self._losses.set(low, high, losses + 1)
                self.taken.remove(low, high)
                self._place(low, high, outcome.now_ms)
        return bool(taken)

    # Time.

    def advance(self, outcome: Outcome) -> bool:
        """Expires leases with this outcome, and makes due retries ready. Returns whether anything became ready."""
        now_ms = outcome.now_ms
        for first, end, _ in self.leases.expire(now_ms, _EXPIRE_LIMIT):
            self._fail(first, end, outcome, None, 0)
        is_ready = False
        for low, high in self.retries.pop_due(now_ms, _EXPIRE_LIMIT):
            self._put(low, high)
            is_ready = True
        if self._token_ms is not None and self._token_ms <= now_ms:
            self._token_ms = None
            is_ready = True
        if self._turns.advance(now_ms):
            is_ready = True
        if not self._is_open and self._open(now_ms):
            is_ready = True
        return is_ready

    def next_event_ms(self) -> int | None:
        times = [self.leases.next_wake_ms(), self._token_ms, self._turns.succession_ms, self.retries.next_ms()]
        if not self._is_open:
            times.append(self._opens_ms)
        return min([time_ms for time_ms in times if time_ms is not None], default=None)

    def retry_now(self, offsets: Iterable[Offset]) -> None:
        """Messages wait no longer for their next attempt."""
        for offset in offsets:
            if self.retries.end(offset):
                self._put(offset, offset + 1)

    # The log.

    def commit(self, pieces: Iterable[Piece], now_ms: int) -> None:
        """The log has applied them."""
        for piece in pieces:
            if piece.kind == FAILING:
                self._failing.discard(piece.first, piece.end)
                for first, end, place in list(self.taken.within(piece.first, piece.end)):
                    # A message that was acked late, while its failure was in flight, is about to be settled as acked.
                    if place == FAILING:
                        self.taken.remove(first, end)
                        self._place(first, end, now_ms)
                continue
            # They are settled, whatever their place is.
            self.taken.remove(piece.first, piece.end)
            if self.limits.count:
                self.limits.remove(piece.first, piece.end)
            if self._losses.count:
                self._losses.remove(piece.first, piece.end)
            if self._keys is not None:
                self._free_keys(self._keys.end(piece.first, piece.end, self._is_blocked))

    def refuse(self, pieces: Iterable[Piece], now_ms: int) -> None:
        """The log will never apply them."""
        for piece in pieces:
            if piece.kind == FAILING:
                self._failing.discard(piece.first, piece.end)
            for first, end, place in list(self.taken.within(piece.first, piece.end)):
                if piece.is_unasked and (place == piece.kind or (place == ACKING and piece.kind == FAILING)):
                    # Also messages that were acked late meanwhile: that ack may be refused as well.
                    if piece.kind == FAILING:
                        self._failing.add(first, end)
                    self.outbox.add(piece._replace(first=first, end=end))
                elif place != piece.kind:
                    continue
                elif piece.lease is not None:
                    self.taken.set(first, end, LEASED)
                    self.leases.restore(piece.lease, (first, end, piece.deadline_ms), now_ms)
                    if not self.holders.is_known(UNNAMED):
                        # It may have been forgotten since: then it joins again.
                        self.holders.admits(piece.lease.member, now_ms)
                else:
                    self._put_back(first, end, now_ms)

    def _put_back(self, first: Offset, end: Offset, now_ms: int) -> None:
        """A late outcome is void: the messages are where they were, which may be failing."""
        self.taken.remove(first, end)
        for low, high in list(self._failing.within(first, end)):
            self.taken.set(low, high, FAILING)
        for low, high in list(self._failing.gaps(first, end)):
            self._place(low, high, now_ms)

    def _place(self, first: Offset, end: Offset, now_ms: int, until_ms: int = 0) -> None:
        """Free messages become ready, or wait for their next attempt, or for `until_ms` if that is later."""
        for low, high in list(self.state.unsettled(first, end)):
            for piece_first, piece_end, failure in filled(self.state.failures, low, high, _NO_FAILURE):
                due_ms = max(until_ms, failure.not_before_ms)
                if due_ms > now_ms:
                    self.retries.add(piece_first, piece_end, due_ms)
                else:
                    self._put(piece_first, piece_end)


class GroupView(NamedTuple):
    """One group with all that `explain` needs to read. Callers do not keep it."""

    delivery: GroupDelivery
    machine: PartitionMachine
    delays: Delays
    rules: GroupRules
    now_ms: int


def _first_of(piece: Piece) -> Offset:
    return piece.first


def _count(chosen: Iterable[Chosen]) -> int:
    return sum([end - first for first, end, _ in chosen])
