"""The checker of deliveries and settlements, against the shadow and against each other.

Every lease, every outcome and every answer of a leader is reported here as it happens. A leader is judged by what it
has applied: one that was deposed without knowing it may lease a message that its successor has settled, but never one
that it has seen settled itself, and never the same message twice at a time.
"""

from collections.abc import Callable, Iterable
from typing import Final

from flotilla.partition.commands.hand_over import HeldGroup
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.clock import EPOCH_MS
from flotilla.sim.whole.models.queue_leases import HandoverChecker, LiveLease, TermShadow
from flotilla.sim.whole.models.queue_shadow import GroupShadow, QueueShadow
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Index, NodeId, Offset, Term
from flotilla.types.operations.queue import ACK, FAIL, REJECT, LeaseRange

_MINUTE_US: Final = 60_000_000
#: More is no drift.
_ERROR_MS_MAX: Final = 20_000
#: Times are passed in whole milliseconds.
_ROUNDING_US: Final = 2_000


class RateShadow:
    """Deliveries of a rate-limited group against simulated time; tokens and clocks of nodes are not trusted."""

    __slots__ = ("_arrival_us", "limit")

    def __init__(self) -> None:
        self._arrival_us = 0
        self.limit: tuple[int, int] = (0, 0)

    def delivered(self, group: str, count: int, rules: GroupRules, now_us: int, slack_us: int) -> None:
        limit = rules.rate_limit_per_minute, rules.rate_limit_burst
        if limit != self.limit:
            # The limit was changed; debt under the previous one does not count.
            self.limit = limit
            self._arrival_us = now_us
        if not rules.rate_limit_per_minute:
            return
        self._arrival_us = max(self._arrival_us, now_us) + count * _MINUTE_US // rules.rate_limit_per_minute
        latest_us = now_us + rules.rate_limit_burst * _MINUTE_US // rules.rate_limit_per_minute
        if self._arrival_us > latest_us + slack_us + _ROUNDING_US:
            excess = (self._arrival_us - latest_us) * rules.rate_limit_per_minute // _MINUTE_US + 1
            raise Violation("rate is kept", f"{group} got about {excess} message(s) more than its limit of {limit}")


class DeliveryChecker:
    """All leaders of the topic, one after the other and side by side."""

    def __init__(self, shadow: QueueShadow, now_us: Callable[[], int]) -> None:
        """`now_us` is the world's time."""
        self._shadow = shadow
        self._now_us = now_us
        self._handover = HandoverChecker()
        #: How far the times of leaders were from the world's: tokens come by cluster time, which drifts.
        self._errors_ms = (0, 0)
        self._rates: dict[str, RateShadow] = {}
        #: Delivered at most once, by group and offset.
        self._once: set[tuple[str, Offset]] = set()
        #: Failures answered to members as counted attempts.
        self._reported_failures: dict[tuple[str, Offset, Index], int] = {}

    def begin(self, node: NodeId, term: Term) -> TermShadow:
        shadow = TermShadow(node, term, self._now_us())
        self._handover.begin(shadow)
        return shadow

    def inherited(self, at: TermShadow, handed: Iterable[HeldGroup], now_ms: int, applied: Index) -> None:
        """A new leader goes on with these leases."""
        for name, generation, leases in handed:
            group = self._shadow.groups.get(name)
            if group is None or group.generation != generation:
                continue
            for held in leases:
                for run in held.runs:
                    for offset in range(run.first, run.end):
                        if not group.is_settled(offset, applied) and not group.is_staged(offset, applied):
                            lease = LiveLease(
                                held.lease_id,
                                held.member,
                                now_ms - held.age_ms,
                                now_ms + run.left_ms,
                                generation,
                                self._now_us() - held.age_ms * 1_000,
                            )
                            self._handover.inherited(at, name, offset, lease)

    # Leases.

    def leased(
        self,
        at: TermShadow,
        name: str,
        member: str,
        leased: LeasedMessages,
        deadline_ms: int,
        now_ms: int,
        applied: Index,
        *,
        is_ordered: bool,
    ) -> None:
        group = self._shadow.groups.get(name)
        if group is None or applied < group.generation:
            # It does not know of the reset yet, and the shadow does not keep what was before it.
            return
        for offset in range(leased.first, leased.end):
            where = f"node {at.node} in term {at.term} gave message {offset} of {name}"
            holder = at.holder(group, offset, now_ms)
            if holder is not None:
                raise Violation("one live lease", f"{where} to {member} while {holder.member} has it")
            if group.is_settled(offset, applied):
                raise Violation("settled stays settled", f"{where} to {member}: {group.settled.get(offset)}")
            if group.is_staged(offset, applied):
                raise Violation("staged is held back", f"{where} to {member}, and a transaction has it")
            attempts = group.attempts(offset, applied)
            if leased.attempt != attempts + 1:
                raise Violation("attempts are counted", f"{where} as attempt {leased.attempt} after {attempts}")
            due_ms = max(self._shadow.messages[offset].deliver_at_ms, group.not_before_ms(offset, applied))
            if now_ms < due_ms:
                raise Violation("never early", f"{where} {due_ms - now_ms} ms before its time")
            if is_ordered:
                self._check_order(group, offset, applied, where)
            self._handover.leased(at, group, offset, member, self._now_us())
            at.live[name, offset] = LiveLease(
                leased.lease_id, member, now_ms, deadline_ms, group.generation, self._now_us()
            )

    def _check_order(self, group: GroupShadow, offset: Offset, applied: Index, where: str) -> None:
        key = self._shadow.messages[offset].key
        for earlier in self._shadow.by_key[key] if key is not None else ():
            if earlier >= offset:
                break
            if not group.is_settled(earlier, applied):
                raise Violation("order by key", f"{where} before {earlier} of the same key was done")

    def returned(self, at: TermShadow, name: str, runs: Iterable[LeasedMessages]) -> None:
        """Leased and not sent after all."""
        for run in runs:
            for offset in range(run.first, run.end):
                at.live.pop((name, offset), None)

    def delivered(self, at: TermShadow, name: str, count: int, rules: GroupRules, now_ms: int, now_us: int) -> None:
        """`count` messages leave for a member, by a leader whose time is `now_ms`."""
        error_ms = max(min(now_ms - EPOCH_MS - now_us // 1000, _ERROR_MS_MAX), -_ERROR_MS_MAX)
        self._errors_ms = (min(self._errors_ms[0], error_ms), max(self._errors_ms[1], error_ms))
        spread_ms = self._errors_ms[1] - self._errors_ms[0]
        slack_us = 2 * spread_ms * 1000
        self._rates.setdefault(name, RateShadow()).delivered(name, count, rules, now_us, slack_us)

    def delivered_once(self, at: TermShadow, name: str, first: Offset, end: Offset) -> None:
        """They leave for a member with at-most-once delivery."""
        for offset in range(first, end):
            group = self._shadow.groups.get(name)
            if group is not None and offset not in group.settled:
                # Settled, cancelled or trimmed meanwhile: it is not delivered again in any case.
                raise Violation("at most once", f"message {offset} of {name} leaves before it is settled")
            if (name, offset) in self._once:
                raise Violation("at most once", f"node {at.node} sends message {offset} of {name} a second time")
            self._once.add((name, offset))

    def presented(self, at: TermShadow, name: str, member: str) -> None:
        """The member has presented all its leases to this leader."""
        self._handover.presented(at, name, member)

    # Outcomes.

    def settled(self, at: TermShadow, name: str, accepted: Iterable[LeaseRange], now_ms: int) -> None:
        """A leader accepts a member's outcome for these."""
        group = self._shadow.groups.get(name)
        if group is None:
            return
        for held in accepted:
            for offset in range(held.first, held.end):
                holder = at.holder(group, offset, now_ms)
                if holder is not None and holder.lease_id != held.lease_id:
                    raise Violation(
                        "only the holder settles",
                        f"node {at.node} let lease {held.lease_id} end message {offset} of {name}, "
                        f"which {holder.member} has under {holder.lease_id}",
                    )
                at.end(name, offset)

    def extended(
        self, at: TermShadow, name: str, member: str, accepted: Iterable[LeaseRange], visibility_ms: int, now_ms: int
    ) -> None:
        group = self._shadow.groups.get(name)
        if group is None:
            return
        lease_ms_max = group.rules.lease_ms_max
        for held in accepted:
            for offset in range(held.first, held.end):
                holder = at.holder(group, offset, now_ms) or at.reopen(group, offset, held.lease_id, now_ms)
                if holder is None:
                    until_ms = now_ms + min(visibility_ms, lease_ms_max)
                    at.live[name, offset] = LiveLease(
                        held.lease_id, member, now_ms, until_ms, group.generation, self._now_us()
                    )
                elif holder.lease_id != held.lease_id:
                    raise Violation("one live lease", f"message {offset} of {name} is {holder.member}'s and {member}'s")
                else:
                    holder.deadline_ms = min(now_ms + visibility_ms, holder.given_ms + lease_ms_max)

    def left(self, at: TermShadow, group: str, member: str) -> None:
        """Its leases in one group have ended."""
        at.live = {place: lease for place, lease in at.live.items() if place[0] != group or lease.member != member}

    # Answers.

    def answered_settled(self, name: str, kind: int, accepted: Iterable[LeaseRange], generation: Index) -> None:
        """A member is answered that this is final, unless the group was reset since that generation."""
        group = self._shadow.groups.get(name)
        if group is None or generation != group.generation:
            return
        for held in accepted:
            for offset in range(held.first, held.end):
                ended = group.settled.get(offset)
                if kind in (ACK, REJECT) and ended is None and offset >= group.start:
                    raise Violation("nothing is forgotten", f"the end of message {offset} of {name} is not in the log")
                if kind == FAIL and ended is None:
                    self._count_failure(group, offset)

    def _count_failure(self, group: GroupShadow, offset: Offset) -> None:
        place = group.name, offset, group.generation
        reported = self._reported_failures.get(place, 0) + 1
        self._reported_failures[place] = reported
        counted = group.attempts(offset, self._shadow.newest)
        if counted < reported:
            raise Violation(
                "attempts are counted",
                f"{reported} failures of {offset} in {group.name} were reported, {counted} count",
            )
