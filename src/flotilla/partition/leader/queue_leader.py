"""The queue groups of a partition at its leader, for one term: their memory beside the replicated state.

Begins when everything in the leader's log has been applied, and ends with the leadership. A poll costs no entry in the
log. Settlements of all groups are gathered in outboxes; the owner of this object proposes them and reports what became
of them. The replicated state is read, never written.

Groups are created at their first use: an unused group costs nothing. A group that was reset or deleted since is a new
one here, which knows none of its leases. Timers of all groups are one heap.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Final

from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.hand_over import HANDED_RUNS_MAX, HandOver, HeldGroup
from flotilla.partition.commands.holders import ChangeHolders
from flotilla.partition.commands.partition_commands import (
    GroupSettlement,
    ReserveTokens,
    SettleRuns,
    StageSettlement,
)
from flotilla.partition.leader.delays import Delays
from flotilla.partition.leader.group_delivery import GroupDelivery, GroupView, LeasedMessages
from flotilla.partition.leader.key_order import KeysOf
from flotilla.partition.leader.lease_runs import restored, runs_of, under_leases
from flotilla.partition.leader.leases import NUMBER_BITS, LeaseIds
from flotilla.partition.leader.outcome import CONSUMER_LOST, LEASE_EXPIRED, LastAttemptOf, Outcome
from flotilla.partition.leader.poll_filter import PollFilter
from flotilla.partition.leader.settlement_outbox import Piece, settlement_of
from flotilla.partition.state.batch_index import Stretch
from flotilla.partition.state.group import Death
from flotilla.partition.state.group_table import DueNow
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import StagedAcks
from flotilla.types.dead_letters import cut_reason
from flotilla.types.errors import NotFoundError, UnavailableError
from flotilla.types.filters import NO_FILTER
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Index, Offset, Term
from flotilla.types.limits import MIB
from flotilla.types.operations.queue import ACK, BY_BACKOFF, FAIL, LeaseRange, MessageResult

#: With the longest reasons, a command of this size is far below the bound of an entry.
_PIECES_MAX: Final = 8_192
#: Results of one command, up to one request more.
_RESULTS_BYTES_MAX: Final = 4 * MIB
#: Stretches that came due, before the leader checks which of them all groups have read.
_DUE_KEPT: Final = 4_096


class QueueLeader:
    """All queue groups of one partition at its leader."""

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
        """`term_start`: the index of the first entry of the term; 0: no leases are taken over."""
        self._machine = machine
        self._random = random
        self._rules_of = rules_of
        self._ids = LeaseIds(term)
        #: Groups that later entries open or reset have no leases from earlier terms.
        self._began = machine.applied
        self._began_ms = now_ms
        #: What the last leader handed over, if it leased nothing after that: nothing was logged between its last word
        #: and this term, and it leases again only after another entry has committed.
        handed = machine.hand_over_at(term_start - 1)
        self._opens_ms = now_ms + (grace_ms if handed is None else 0)
        self._is_handed_over = False
        #: No earlier leader can have leased messages from here on.
        self._earlier_end = machine.next_offset
        #: The newest time of any call.
        self._now_ms = now_ms
        self.delays = Delays(machine.index, machine.log_start, now_ms)
        self._due_checked_at = _DUE_KEPT
        self._groups: dict[str, GroupDelivery] = {}
        #: (time, group); of a group only the entry of its `timer_ms` is valid.
        self._timers: list[tuple[int, str]] = []
        #: Groups with resets on their way, and how many.
        self._resetting: dict[str, int] = {}
        #: Groups with something in their outbox, and groups that may want tokens.
        self.posting: dict[str, GroupDelivery] = {}
        self._token_seekers: dict[str, GroupDelivery] = {}
        #: Groups with a change of their holders to propose.
        self._changing: dict[str, GroupDelivery] = {}
        #: Groups that have more due messages to read: `advance` lets one of them go on.
        self._reading: dict[str, GroupDelivery] = {}
        #: Commands that were taken, until `committed` or `failed`.
        self._in_flight: list[tuple[SettleRuns, list[tuple[GroupDelivery, list[Piece]]]]] = []
        self._staging: list[tuple[StageSettlement, GroupDelivery, list[Piece]]] = []
        #: The leases that this leader began with.
        self.inherited: tuple[HeldGroup, ...] = ()
        if handed is not None:
            self._inherit(handed)

    def _inherit(self, handed: HandOver) -> None:
        self.inherited = handed.groups
        for name, generation, leases in handed.groups:
            found = self._find(name)
            if found is not None and found.generation == generation:
                found.inherit(leases, self._now_ms)
                self._watch(found)

    # Groups.

    def groups(self) -> list[str]:
        """The queue groups of the partition, in the order of names."""
        return sorted(self._machine.groups)

    def has_group(self, group: str) -> bool:
        """False: propose an OpenGroup first. All other methods need an open group."""
        return group in self._machine.groups

    def _find(self, name: str) -> GroupDelivery | None:
        """None when there is no such group."""
        state = self._machine.groups.get(name)
        group = self._groups.get(name)
        if group is not None and group.state is state and group.generation == state.generation:
            return group
        if group is not None:
            del self._groups[name]
            self.posting.pop(name, None)
            self._token_seekers.pop(name, None)
            self._changing.pop(name, None)
            self._reading.pop(name, None)
        if state is None:
            return None
        group = GroupDelivery(
            name,
            self._machine,
            self.delays,
            self._ids,
            self._random,
            now_ms=self._now_ms,
            opens_ms=self._opens_ms if state.generation <= self._began else None,
            earlier_end=self._earlier_end,
        )
        self._groups[name] = group
        self._watch(group)
        return group

    def _get(self, name: str) -> GroupDelivery:
        """Raises NotFoundError."""
        group = self._find(name)
        if group is None:
            raise NotFoundError(f"there is no queue group {name!r}")
        return group

    def _watch(self, group: GroupDelivery) -> None:
        """To be called after each change of a group: notes its timer, its outbox and whether it has more to read."""
        event_ms = group.next_event_ms()
        if event_ms is not None and (group.timer_ms is None or event_ms < group.timer_ms):
            group.timer_ms = event_ms
            heappush(self._timers, (event_ms, group.name))
        if group.outbox:
            self.posting[group.name] = group
        if group.due.is_reading:
            self._reading[group.name] = group
        if group.holders.has_change:
            self._changing[group.name] = group

    def _clock(self, now_ms: int) -> int:
        """The time of this call, which never goes back, whatever the machine's clock does."""
        self._now_ms = max(now_ms, self._now_ms)
        return self._now_ms

    # Lives of groups.

    @property
    def first_lease(self) -> int:
        """For an OpenGroup that is proposed now: lease ids below are of earlier groups of the name."""
        return self._ids.next_id

    def begin_reset(self, group: str) -> int:
        """For a ResetGroup that is proposed now: lease ids below are of before. Nothing is leased until `end_reset`."""
        self._resetting[group] = self._resetting.get(group, 0) + 1
        return self._ids.next_id

    def end_reset(self, group: str) -> None:
        """The command was applied or refused."""
        self._resetting[group] -= 1
        if not self._resetting[group]:
            del self._resetting[group]

    # The end of the term, as planned.

    def hand_over(self, now_ms: int) -> HandOver | None:
        """All leases, for the next leader. Nothing is leased from now on, until `take_back`.

        Everything that was in the outbox must have been proposed before this. None: the leases are too many, or some
        may be unknown here, because the grace period is not over; then the next leader has one, too.
        """
        now_ms = self._clock(now_ms)
        groups = [(name, found) for name in list(self._groups) if (found := self._find(name)) is not None]
        if self.posting or (now_ms < self._opens_ms and self._has_closed_groups()):
            return None
        held = [HeldGroup(name, found.generation, found.leases.held(now_ms)) for name, found in groups]
        # These are staged when the next leader begins, or the log refused them and they are leased again.
        held += [restored(found, pieces, now_ms) for _, found, pieces in self._staging]
        if sum(len(lease.runs) for group in held for lease in group.leases) > HANDED_RUNS_MAX:
            return None
        self._is_handed_over = True
        return HandOver(now_ms, tuple([group for group in held if group.leases]))

    def _has_closed_groups(self) -> bool:
        """Whether members of a group may hold leases that they have not presented yet."""
        for name, state in self._machine.groups.items():
            known = self._groups.get(name)
            if state.generation <= self._began and (bool(state.holders) if known is None else not known.is_open):
                return True
        return False

    def take_back(self) -> None:
        """Leadership stays here after all, and an entry after the hand-over has committed: that is void."""
        self._is_handed_over = False

    @property
    def is_handed_over(self) -> bool:
        return self._is_handed_over

    # Members that may hold leases.

    def admits(self, group: str, holder: str, now_ms: int) -> bool:
        """Whether leases may be given to the member of this name; UNNAMED: to those that present none.

        Otherwise its name is in the log soon: propose `take_holder_changes`. Raises NotFoundError.
        """
        now_ms = self._clock(now_ms)
        found = self._get(group)
        is_admitted = self._is_handed_over or found.holders.admits(holder, now_ms)
        self._watch(found)
        return is_admitted

    def is_holder(self, group: str, member: str) -> bool:
        found = self._find(group)
        return found is not None and found.holders.is_known(member)

    def take_holder_changes(self, now_ms: int) -> list[ChangeHolders]:
        """Commands to be proposed now. Report the end of each by `holders_changed`."""
        if not self._changing or self._is_handed_over:
            return []
        groups = list(self._changing.values())
        self._changing.clear()
        changes = [group.holders.take_change(now_ms, group.has_leases) for group in groups]
        return [change for change in changes if change is not None]

    def holders_changed(self, command: ChangeHolders) -> None:
        """The command was applied, or refused for good."""
        found = self._find(command.group)
        if found is not None:
            found.holders.decided(command)
            self._watch(found)

    def present(self, group: str, member: str, term: Term, now_ms: int) -> None:
        """The member has presented all its leases to the leader of this term, and takes none of earlier terms."""
        now_ms = self._clock(now_ms)
        found = self._find(group)
        if found is not None and term == self._ids.term:
            found.presented(member, now_ms)
            self._watch(found)

    @property
    def term(self) -> Term:
        return self._ids.term

    # Delivery.

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
        """Leases up to `max_messages` messages, all under one lease; with `keys_of` in key order.

        visibility_ms 0: the group's. Returns nothing while the group is paused or has no tokens, and in its grace
        period nothing that an earlier leader can have leased. Raises NotFoundError. For at-most-once delivery, ack the
        messages and deliver them when that has committed.
        """
        assert max_messages > 0
        now_ms = self._clock(now_ms)
        found = self._get(group)
        rules = self._rules_of(group)
        if rules.paused or self._is_handed_over or group in self._resetting:
            found.leases.see(member, now_ms, NO_FILTER if poll_filter is None else poll_filter.wanted)
            return []
        if self.stands_by(group, member, now_ms):
            found.leases.see(member, now_ms, NO_FILTER if poll_filter is None else poll_filter.wanted)
            return []
        lasts_ms = min(visibility_ms or rules.visibility_ms, rules.lease_ms_max)
        self._limit(found, rules, now_ms)
        leases = found.take(member, max_messages, now_ms + lasts_ms, now_ms, keys_of, poll_filter)
        self._watch(found)
        return leases

    def stands_by(self, group: str, member: str, now_ms: int) -> bool:
        """Whether the group has a single active member in this partition, and it is another one."""
        found = self._find(group)
        if found is None or not self._rules_of(group).single_active:
            return False
        is_standby = found.stands_by(member, self._clock(now_ms))
        self._watch(found)
        return is_standby

    def _limit(self, group: GroupDelivery, rules: GroupRules, now_ms: int) -> None:
        group.rate_limit.configure(rules.rate_limit_per_minute, rules.rate_limit_burst, now_ms)
        if rules.rate_limit_per_minute:
            self._token_seekers[group.name] = group

    def release_unsent(self, group: str, leases: Sequence[LeasedMessages], now_ms: int) -> None:
        """Undoes leases of the last `poll` that were not sent: no attempt counts, and tokens are returned."""
        self._clock(now_ms)
        found = self._find(group)
        if found is not None:
            found.release_unsent(leases)

    def expire(self, group: str, first: Offset, end: Offset, now_ms: int) -> None:
        """Settles leases of the last `poll` as expired: older than their time to live. Tokens are returned."""
        self._clock(now_ms)
        found = self._find(group)
        if found is not None:
            found.expire(first, end)
            self._watch(found)

    def is_earlier(self, lease_id: int) -> bool:
        """Whether the lease is one of an earlier leader."""
        return lease_id >> NUMBER_BITS < self._ids.term

    def limit_deliveries(self, group: str, first: Offset, end: Offset, max_deliveries: int) -> None:
        """Sets the bound of leased messages whose record has one of its own: leases that expire need it."""
        found = self._find(group)
        if found is not None:
            found.limit_deliveries(first, end, max_deliveries)

    def has_ready(self, group: str, now_ms: int) -> bool:
        """Whether a poll would get anything now. False also for an unknown group, or one that has to read first."""
        now_ms = self._clock(now_ms)
        found = self._find(group)
        if found is None:
            return False
        rules = self._rules_of(group)
        if rules.paused or not self._has_ready(found, now_ms):
            return False
        self._limit(found, rules, now_ms)
        return found.rate_limit.available(now_ms, 1) > 0

    def best_priority(self, group: str, now_ms: int) -> int:
        """The highest priority of ready messages, apart from rate limits and pauses; -1: none, or no such group."""
        now_ms = self._clock(now_ms)
        found = self._find(group)
        return found.best_priority(now_ms) if found is not None and self._has_ready(found, now_ms) else -1

    def _has_ready(self, group: GroupDelivery, now_ms: int) -> bool:
        is_ready = group.has_ready(now_ms)
        # It may have more to read: then `next_event_ms` is now.
        self._watch(group)
        return is_ready

    def has_unseen(self, group: str, poll_filter: PollFilter) -> bool:
        """Whether there are ready messages that polls with this filter have not looked at."""
        found = self._find(group)
        return found is not None and found.has_unseen(poll_filter.wanted)

    def has_unseen_keys(self, group: str) -> bool:
        """Whether another ordered poll may find more, though the last one has found nothing."""
        found = self._find(group)
        return found is not None and found.has_unseen_keys()

    def retry_after_ms(self, group: str, now_ms: int) -> int:
        """Until the rate limit has a token; 0: it has, or there is no limit."""
        found = self._find(group)
        return 0 if found is None else found.rate_limit.next_token_ms(self._clock(now_ms))

    def take_tokens(self, group: str, wanted: int, now_ms: int) -> int:
        """Spends tokens of the rate limit for messages of other partitions. Returns how many. Raises NotFoundError."""
        now_ms = self._clock(now_ms)
        found = self._get(group)
        rules = self._rules_of(group)
        if rules.rate_limit_per_minute:
            self._token_seekers[group] = found
        found.rate_limit.configure(rules.rate_limit_per_minute, rules.rate_limit_burst, now_ms)
        taken = found.rate_limit.available(now_ms, wanted)
        found.rate_limit.take(taken, now_ms)
        return taken

    # Outcomes.

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
        """Settles leases; returns the refused ranges. All but a RELEASE is in the outbox: answer when it has committed.

        Without `last_attempt_of`, the bounds of `limit_deliveries` and of the group hold. With `members`, one for each
        of `ranges`, a lease id of 0 stands for the leases of the member. `results` are those of acked messages.
        """
        now_ms = self._clock(now_ms)
        found = self._find(group)
        if found is None:
            return list(ranges)
        rules = self._rules_of(group)
        if members:
            # A late ack counts at any time. A late failure counts until leases of the last leader have expired: after
            # that the expiry was counted.
            is_earlier = kind == ACK or now_ms < self._began_ms + rules.visibility_ms
            ranges = under_leases(found, ranges, members, is_earlier=is_earlier)
        outcome = Outcome(kind, now_ms, rules, cut_reason(reason), delay_ms, last_attempt_of)
        if results:
            outcome.results = {each.offset: Outcome.logged(each, rules.result_ttl_ms) for each in results}
        refused = found.settle(ranges, outcome)
        self._watch(found)
        return refused

    def settled_of(self, group: str, kind: int, ranges: Sequence[LeaseRange]) -> list[LeaseRange]:
        """The parts of these ranges that the log has settled for good, as this outcome settles them."""
        found = self._find(group)
        return [] if found is None else [part for one in ranges for part in found.settled_of(one, kind)]

    def stage(
        self,
        transaction_id: str,
        group: str,
        ranges: Sequence[LeaseRange],
        now_ms: int,
        timeout_ms: int = 0,
        results: Sequence[MessageResult] = (),
    ) -> tuple[StageSettlement | None, list[LeaseRange]]:
        """Ends leases for a transaction, whose decision settles the messages: all of them, or none.

        Propose the command, and report by `staged` what became of it. None without refused ranges: all of it was
        staged before. Raises NotFoundError, and UnavailableError while an earlier request is in flight.
        """
        now_ms = self._clock(now_ms)
        found = self._get(group)
        if any(known.transaction_id == transaction_id and other is found for known, other, _ in self._staging):
            raise UnavailableError(f"acks of transaction {transaction_id} are being staged")
        if all(self._has_staged(transaction_id, found, one) for one in ranges):
            return None, []
        rules = self._rules_of(group)
        pieces, refused = found.stage(ranges, rules, now_ms)
        self._watch(found)
        if refused:
            return None, refused
        kept = tuple([Outcome.logged(each, rules.result_ttl_ms) for each in results])
        settlement = GroupSettlement(group, runs_of(pieces), generation=found.generation, results=kept)
        command = StageSettlement(transaction_id, settlement, now_ms, timeout_ms)
        self._staging.append((command, found, pieces))
        return command, []

    def _has_staged(self, transaction_id: str, group: GroupDelivery, ranges: LeaseRange) -> bool:
        staged = self._machine.transactions.staged_acks(group.name, group.generation, ranges.first, ranges.end)
        known = [high - low for low, high, other in staged if other == transaction_id]
        return sum(known) == ranges.end - ranges.first

    def staged(self, command: StageSettlement, *, is_refused: bool) -> None:
        """The command of `stage` was applied; or refused for good: its messages are leased again."""
        at = next(at for at, (known, _, _) in enumerate(self._staging) if known is command)
        _, group, pieces = self._staging.pop(at)
        if is_refused:
            group.refuse(pieces, self._now_ms)
            self._watch_known(group)

    def unstage(self, acks: StagedAcks, *, is_committed: bool) -> None:
        """A transaction has ended in the log: its messages are acked, or free again."""
        found = self._find(acks.group)
        if found is not None and found.generation == acks.generation:
            found.unstage(acks.runs, self._now_ms, is_committed=is_committed)
            self._watch(found)

    def extend(
        self, group: str, member: str, ranges: Sequence[LeaseRange], visibility_ms: int, now_ms: int
    ) -> list[LeaseRange]:
        """Extends leases to visibility_ms from now, and adopts leases of earlier terms. Returns the refused ranges."""
        now_ms = self._clock(now_ms)
        found = self._find(group)
        if found is None:
            return list(ranges)
        rules = self._rules_of(group)
        ranges = under_leases(
            found, ranges, [member] * len(ranges), is_earlier=now_ms < self._began_ms + rules.visibility_ms
        )
        refused = found.extend(member, ranges, visibility_ms or rules.visibility_ms, now_ms, rules.lease_ms_max)
        self._watch(found)
        return refused

    def lost_ms_of(self, member: str) -> list[int]:
        """How long the groups of a member give it to come back when its connection is lost."""
        return [self._rules_of(name).lost_ms for name, group in self._groups.items() if member in group.leases.members]

    def release_member(self, member: str, now_ms: int, away_ms: int) -> bool:
        """The connection of a consumer is lost for `away_ms`: its leases end in the groups that wait no longer.

        Returns whether it had any there, or may have been the active member of one.
        """
        now_ms = self._clock(now_ms)
        had_any = False
        for name in list(self._groups):
            outcome = self._unasked(name, CONSUMER_LOST, now_ms)
            found = self._find(name)
            if found is None or outcome.rules.lost_ms > away_ms:
                continue
            # Another member may have its turn now.
            had_turn = outcome.rules.single_active and member in found.leases.members
            if found.release_member(member, outcome) or had_turn:
                had_any = True
            self._watch(found)
        return had_any

    def leave(self, group: str, member: str, now_ms: int) -> bool:
        """A consumer is closed: it is no member any more, and its leases end uncounted. Returns whether it had any."""
        now_ms = self._clock(now_ms)
        found = self._find(group)
        if found is None:
            return False
        had_any = found.leave(member, self._rules_of(group), now_ms)
        self._watch(found)
        return had_any

    def live_members(self, group: str, now_ms: int) -> list[str]:
        """Members that hold messages or have been heard of a short time ago."""
        found = self._find(group)
        return [] if found is None else found.leases.live(self._clock(now_ms))

    def _unasked(self, group: str, reason: str, now_ms: int) -> Outcome:
        return Outcome(FAIL, now_ms, self._rules_of(group), reason, BY_BACKOFF, is_unasked=True)

    # Time.

    def advance(self, now_ms: int) -> bool:
        """Expires leases and makes due messages ready, a bounded number of each. Returns whether any became ready.

        It may fill the outbox, too.
        """
        now_ms = self._clock(now_ms)
        is_ready = self.delays.advance(now_ms, self._machine.log_start)
        if self._reading and self._read_on():
            is_ready = True
        if len(self.delays) > self._due_checked_at:
            self._forget_due()
        due: list[GroupDelivery] = []
        while self._timers and self._timers[0][0] <= now_ms:
            time_ms, name = heappop(self._timers)
            found = self._find(name)
            if found is not None and found.timer_ms == time_ms:
                found.timer_ms = None
                due.append(found)
        for found in due:
            if found.advance(self._unasked(found.name, LEASE_EXPIRED, now_ms)):
                is_ready = True
            self._watch(found)
        return is_ready

    def _read_on(self) -> bool:
        """Lets the group read on that has waited longest. Returns whether anything became ready."""
        name, group = next(iter(self._reading.items()))
        del self._reading[name]
        if self._find(name) is not group:
            return False
        is_ready = group.due.read()
        self._watch(group)
        return is_ready

    def _forget_due(self) -> None:
        """Drops due stretches that every group has read."""
        positions = [group.due.positions for group in self._groups.values()]
        self.delays.forget(positions, self._machine.log_start)
        self._due_checked_at = max(_DUE_KEPT, 2 * len(self.delays))

    def next_event_ms(self, now_ms: int) -> int | None:
        """The time to call `advance` again, never before now; None: not before another call.

        Now: one call has done as much as it may, and there is more.
        """
        if self._reading:
            return now_ms
        times = [self._timers[0][0]] if self._timers else []
        due_ms = self.delays.next_due_ms()
        if due_ms is not None:
            times.append(due_ms)
        return max(now_ms, min(times)) if times else None

    # The log.

    def take_outbox(self, now_ms: int) -> SettleRuns | None:
        """The next command to propose. Commands are bounded: take until None comes."""
        self._clock(now_ms)
        settlements: list[GroupSettlement] = []
        parts: list[tuple[GroupDelivery, list[Piece]]] = []
        room = _PIECES_MAX
        bytes_room = _RESULTS_BYTES_MAX
        for group in list(self.posting.values()):
            pieces = group.outbox.take(room, bytes_room)
            room -= len(pieces)
            bytes_room -= sum([piece.results_bytes for piece in pieces if piece.results])
            settlements.append(settlement_of(group.name, group.generation, pieces))
            parts.append((group, pieces))
            if not group.outbox:
                del self.posting[group.name]
            if not room or bytes_room <= 0:
                break
        if not parts:
            return None
        command = SettleRuns(now_ms, tuple(settlements))
        self._in_flight.append((command, parts))
        return command

    def committed(self, command: SettleRuns) -> None:
        """A command of the outbox was applied to the machine."""
        for group, pieces in self._pop(command):
            group.commit(pieces, self._now_ms)
            self._watch_known(group)

    def failed(self, command: SettleRuns) -> None:
        """A command of the outbox was refused for good: messages that members settled are leased again."""
        for group, pieces in self._pop(command):
            group.refuse(pieces, self._now_ms)
            self._watch_known(group)

    def _pop(self, command: SettleRuns) -> list[tuple[GroupDelivery, list[Piece]]]:
        for at, (known, parts) in enumerate(self._in_flight):
            if known is command:
                del self._in_flight[at]
                return parts
        raise AssertionError("a command that is not in flight")

    def _watch_known(self, group: GroupDelivery) -> None:
        """`_watch`, unless the group was reset or deleted since."""
        if self._groups.get(group.name) is group:
            self._watch(group)

    def take_reservations(self, now_ms: int) -> list[ReserveTokens]:
        """Commands that reserve tokens for groups, to be proposed now. Groups read the reservation from the state."""
        if not self._token_seekers:
            return []
        wanted = []
        for name, group in self._token_seekers.items():
            tat_us = group.rate_limit.wanted_reservation(now_ms)
            if tat_us is not None:
                wanted.append(ReserveTokens(name, tat_us, now_ms))
        self._token_seekers.clear()
        return wanted

    def applied(self, facts: BatchFacts) -> None:
        """A batch was applied to the machine."""
        if facts.deliver_at_ms:
            stretch = self._machine.index.stretch_at(facts.base_offset)
            if stretch is not None:
                end = facts.base_offset + facts.count
                self.delays.add(Stretch(stretch.deliver_at_ms, facts.base_offset, end, stretch.priority))

    def due_now(self, changed: DueNow) -> None:
        """A DeliverNow was applied to the machine."""
        self.delays.hasten(changed.stretches)
        found = self._find(changed.group)
        if found is not None:
            found.retry_now(changed.offsets)
            self._watch(found)

    def deaths(self, group: str, limit: int, from_number: int = 0) -> list[Death]:
        """The oldest dead messages without a dead letter, from that number on.

        The caller writes the letters, and then proposes BuryDeaths.
        """
        state = self._machine.groups.get(group)
        return [] if state is None else state.deaths(limit, from_number)

    def inspect(self, group: str, now_ms: int, *, reads_due: bool = False) -> GroupView:
        """The group as `explain` reads it. Raises NotFoundError.

        Without `reads_due`, messages that came due since the last `advance` still count as delayed.
        """
        found = self._get(group)
        now_ms = self._clock(now_ms)
        if reads_due:
            self._has_ready(found, now_ms)
        return GroupView(found, self._machine, self.delays, self._rules_of(group), now_ms)
