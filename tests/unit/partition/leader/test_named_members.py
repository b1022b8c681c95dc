"""Leases that a request names by their member: at the leader that gave them, and at the next one."""

from flotilla.types.operations.queue import ACK, FAIL, LeaseRange
from tests.unit.partition.leading import GROUP, RULES, Leading


def settle(here: Leading, member: str, first: int, end: int, kind: int = ACK) -> list[LeaseRange]:
    return here.leader.settle(GROUP, kind, [LeaseRange(0, first, end)], "", -1, here.now_ms, members=[member])


def extend(here: Leading, member: str, first: int, end: int) -> list[LeaseRange]:
    return here.leader.extend(GROUP, member, [LeaseRange(0, first, end)], 5_000, here.now_ms)


def refused(found: list[LeaseRange]) -> list[tuple[int, int]]:
    return [(run.first, run.end) for run in found]


def test_a_member_settles_its_own_leases_only() -> None:
    here = Leading()
    here.append(10)
    here.poll(2, "a")
    here.poll(2, "b")
    here.poll(2, "a")
    assert refused(settle(here, "a", 0, 8)) == [(2, 4), (6, 8)]
    here.flush()
    assert here.floor == 2
    assert refused(settle(here, "absent", 2, 4)) == [(2, 4)]
    assert settle(here, "b", 2, 4) == []
    here.flush()
    assert here.floor == 6


def test_many_members_in_one_settlement() -> None:
    here = Leading()
    here.append(3)
    leases = [here.poll(1, member)[0] for member in ("a", "b", "c")]
    held = [LeaseRange(0, 0, 1), LeaseRange(0, 1, 2), LeaseRange(leases[2].lease_id, 2, 3)]
    found = here.leader.settle(GROUP, ACK, held, "", 0, here.now_ms, members=["a", "x", "other"])
    assert refused(found) == [(1, 2)]


def test_a_lease_that_ran_out_here_is_not_known_by_name() -> None:
    here = Leading()
    here.append(1)
    here.poll(1, "a", visibility_ms=1_000)
    here.pass_ms(1_000)
    here.flush()
    assert refused(settle(here, "a", 0, 1)) == [(0, 1)]


def test_after_a_failover_a_named_member_may_settle_while_the_message_is_free() -> None:
    here = Leading()
    here.append(3)
    here.poll(3, "a")
    here.change_leader()
    assert settle(here, "a", 0, 1) == []
    assert extend(here, "a", 1, 2) == []
    assert here.explain(1).holder == "a"
    assert here.poll(1, "b")[0].first == 2
    assert refused(settle(here, "a", 2, 3)) == [(2, 3)]
    here.flush()
    # What is stored in this term no earlier leader can have given out.
    here.append(1)
    assert refused(settle(here, "a", 3, 4)) == [(3, 4)]
    assert refused(extend(here, "a", 3, 4)) == [(3, 4)]


def test_two_members_of_an_earlier_leader_are_not_one() -> None:
    here = Leading()
    here.append(2)
    here.poll(1, "a")
    here.poll(1, "b")
    here.change_leader()
    assert extend(here, "a", 0, 1) == extend(here, "b", 1, 2) == []
    assert refused(settle(here, "b", 0, 1)) == [(0, 1)]
    assert settle(here, "b", 1, 2) == settle(here, "a", 0, 1) == []


def test_late_failures_count_only_until_leases_of_the_last_leader_have_run_out() -> None:
    here = Leading()
    here.append(2)
    here.poll(2, "a")
    here.change_leader()
    assert settle(here, "a", 0, 1, FAIL) == []
    here.pass_ms(RULES.visibility_ms)
    assert refused(settle(here, "a", 1, 2, FAIL)) == [(1, 2)]
    assert settle(here, "a", 1, 2, ACK) == []


def test_a_group_that_was_reset_in_this_term_knows_of_no_earlier_leader() -> None:
    here = Leading()
    here.append(1)
    here.poll(1, "a")
    here.change_leader()
    here.reset(0)
    assert refused(settle(here, "a", 0, 1)) == [(0, 1)]
