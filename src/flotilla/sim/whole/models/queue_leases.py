"""The leases that each leader of a topic has given, and what must hold between the leases of several leaders.

A new leader does not know what earlier ones have leased. For a grace period it gives none of their messages, so that
the members can present their leases, and so that a leader that was cut off or paused notices it (`types/timing`). The
period ends early when all members have promised that they have presented all leases, and take none of earlier leaders.
"""

from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.models.queue_shadow import GroupShadow
from flotilla.types.ids import Index, NodeId, Offset, Term
from flotilla.types.timing import Timing

#: Clocks drift, and cluster time follows that of others: a period is not counted exactly.
_PATIENCE_US: Final = Timing().grace_ms * 1_000 * 3 // 4


class LiveLease:
    """One message leased to one member."""

    __slots__ = ("deadline_ms", "generation", "given_ms", "given_us", "lease_id", "member")

    def __init__(
        self, lease_id: int, member: str, given_ms: int, deadline_ms: int, generation: Index, given_us: int
    ) -> None:
        #: Of the group: a reset ends all leases.
        self.generation = generation
        self.lease_id = lease_id
        self.member = member
        #: By the leader's clock, and by the world's.
        self.given_ms = given_ms
        self.given_us = given_us
        self.deadline_ms = deadline_ms


class TermShadow:
    """The live leases of one leader in its term."""

    __slots__ = ("_ended", "began_us", "live", "node", "term")

    def __init__(self, node: NodeId, term: Term, began_us: int) -> None:
        self.node = node
        self.term = term
        #: By the world's clock.
        self.began_us = began_us
        self.live: dict[tuple[str, Offset], LiveLease] = {}
        #: Settled by their members. If the log has no room for the settlement, the lease goes on as before.
        self._ended: dict[tuple[str, Offset], LiveLease] = {}

    def holder(self, group: GroupShadow, offset: Offset, now_ms: int) -> LiveLease | None:
        lease = self.live.get((group.name, offset))
        is_live = lease is not None and now_ms < lease.deadline_ms and lease.generation == group.generation
        return lease if is_live else None

    def end(self, name: str, offset: Offset) -> None:
        lease = self.live.pop((name, offset), None)
        if lease is not None:
            self._ended[name, offset] = lease

    def reopen(self, group: GroupShadow, offset: Offset, lease_id: int, now_ms: int) -> LiveLease | None:
        """The lease that did not end after all. None: it ended, or this leader never gave it."""
        lease = self._ended.pop((group.name, offset), None)
        if lease is not None and lease.lease_id == lease_id:
            self.live[group.name, offset] = lease
        return self.holder(group, offset, now_ms)


class HandoverChecker:
    """The leases of all leaders, side by side."""

    __slots__ = ("_newest", "_promises", "_shadows")

    def __init__(self) -> None:
        self._shadows: list[TermShadow] = []
        #: The newest leader that has given a message, by group, generation and offset.
        self._newest: dict[tuple[str, Index, Offset], TermShadow] = {}
        #: By group and member the term in which it has promised to take no leases of earlier ones.
        self._promises: dict[tuple[str, str], Term] = {}

    def begin(self, shadow: TermShadow) -> None:
        self._shadows.append(shadow)

    def inherited(self, at: TermShadow, name: str, offset: Offset, lease: LiveLease) -> None:
        """The last leader handed this lease over: it goes on here."""
        for earlier in self._shadows:
            known = earlier.live.get((name, offset)) if earlier.term < at.term else None
            if known is not None and known.lease_id == lease.lease_id:
                del earlier.live[name, offset]
        at.live[name, offset] = lease

    def presented(self, at: TermShadow, name: str, member: str) -> None:
        """The member has no leases of earlier leaders but those that it has presented to this one, and takes none."""
        self._promises[name, member] = max(self._promises.get((name, member), 0), at.term)
        for earlier in self._shadows:
            if earlier.term < at.term:
                dropped = [
                    place for place, lease in earlier.live.items() if place[0] == name and lease.member == member
                ]
                for place in dropped:
                    if place not in at.live:
                        del earlier.live[place]

    def leased(self, at: TermShadow, group: GroupShadow, offset: Offset, member: str, now_us: int) -> None:
        """To be called before the lease is noted at the term."""
        if self._promises.get((group.name, member), 0) > at.term:
            # The member drops it.
            return
        place = group.name, group.generation, offset
        newest = self._newest.setdefault(place, at)
        if newest.term > at.term:
            raise Violation(
                "one leader leases",
                f"node {at.node} in term {at.term} gave message {offset} of {group.name}, and node {newest.node} "
                f"in term {newest.term} had given it",
            )
        if newest.term < at.term:
            self._newest[place] = at
        if now_us - at.began_us < _PATIENCE_US:
            self._check_grace(at, group, offset, now_us)

    def _check_grace(self, at: TermShadow, group: GroupShadow, offset: Offset, now_us: int) -> None:
        for earlier in self._shadows:
            lease = earlier.live.get((group.name, offset)) if earlier.term < at.term else None
            if lease is None or lease.generation != group.generation:
                continue
            if self._promises.get((group.name, lease.member), 0) > earlier.term:
                # Leased by a deposed leader after the promise: the member drops it.
                continue
            lasts_us = (lease.deadline_ms - lease.given_ms) * 1_000
            if now_us < lease.given_us + lasts_us * 3 // 4:
                raise Violation(
                    "leases outlive their leader",
                    f"node {at.node} gave message {offset} of {group.name} {(now_us - at.began_us) // 1_000} ms after "
                    f"its term {at.term} began, and {lease.member} has it from term {earlier.term}",
                )
