"""The checker of leases across leaders finds the breach it is there for, and lets pass what is permitted."""

import pytest

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.models.queue_leases import HandoverChecker, LiveLease, TermShadow
from flotilla.sim.whole.models.queue_shadow import GroupShadow
from flotilla.types.group_settings import resolve_rules
from flotilla.types.timing import Timing
from flotilla.types.topics import resolve_settings

GRACE_US = Timing().grace_ms * 1_000
LEASE_MS = 10_000
MEMBER = "member"
RULES = resolve_rules(resolve_settings(()))


class Leaders:
    """Two leaders, of which the second begins a second after the first."""

    def __init__(self) -> None:
        self.checker = HandoverChecker()
        self.group = GroupShadow("work", lambda name: RULES)
        self.first, self.second = TermShadow(1, 5, 0), TermShadow(2, 6, 1_000_000)
        for shadow in (self.first, self.second):
            self.checker.begin(shadow)

    def lease(self, at: TermShadow, offset: int, now_us: int) -> None:
        self.checker.leased(at, self.group, offset, MEMBER, now_us)
        now_ms = now_us // 1_000
        lease = LiveLease(1, MEMBER, now_ms, now_ms + LEASE_MS, self.group.generation, now_us)
        at.live[self.group.name, offset] = lease


def test_a_new_leader_may_not_give_at_once_what_another_has_given() -> None:
    leaders = Leaders()
    leaders.lease(leaders.first, 7, 500_000)
    leaders.lease(leaders.second, 8, 1_100_000)
    with pytest.raises(Violation, match="leases outlive their leader"):
        leaders.lease(leaders.second, 7, 1_100_000)


def test_after_the_grace_it_may() -> None:
    leaders = Leaders()
    leaders.lease(leaders.first, 7, 500_000)
    leaders.lease(leaders.second, 7, 1_000_000 + GRACE_US)


def test_it_may_give_what_the_member_has_settled() -> None:
    leaders = Leaders()
    leaders.lease(leaders.first, 7, 500_000)
    leaders.first.end("work", 7)
    leaders.lease(leaders.second, 7, 1_100_000)


def test_a_leader_that_was_replaced_may_not_give_what_the_next_one_has_given() -> None:
    leaders = Leaders()
    leaders.lease(leaders.second, 7, 4_000_000)
    leaders.lease(leaders.first, 8, 4_100_000)
    with pytest.raises(Violation, match="one leader leases"):
        leaders.lease(leaders.first, 7, 4_100_000)


def test_it_may_give_what_the_member_has_promised_not_to_hold() -> None:
    leaders = Leaders()
    leaders.lease(leaders.first, 7, 500_000)
    leaders.checker.presented(leaders.second, "work", "another")
    with pytest.raises(Violation, match="leases outlive their leader"):
        leaders.lease(leaders.second, 7, 1_100_000)
    leaders.checker.presented(leaders.second, "work", MEMBER)
    leaders.lease(leaders.second, 7, 1_100_000)
