"""Leadership returns where leaders are spread unevenly, late rather than often."""

from itertools import pairwise

import pytest

from flotilla.broker.cluster.balance import HAND_OVERS_MAX, PATIENCE_CHECKS, Lead, Seat, count_lead, is_uneven
from flotilla.broker.cluster.registration import CHECK_MS
from flotilla.raft import reasons
from tests.unit.broker.fleet import Fleet, Node, three

PATIENCE_MS = PATIENCE_CHECKS * CHECK_MS


# The rule.


@pytest.mark.parametrize(
    ("own", "other", "begins", "goes_on"),
    [
        (0, 0, False, False),
        (1, 0, False, False),
        (0, 9, False, False),
        # A restart of a node that led one of three partitions.
        (2, 0, False, True),
        (3, 0, True, True),
        (3, 1, False, True),
        (4, 1, True, True),
        # Once it returns, it returns until a further one would make no difference.
        (11, 9, False, True),
        (10, 9, False, False),
        # Among many, a few do not count.
        (103, 100, False, True),
        (30, 18, True, True),
        (30, 19, False, True),
    ],
)
def test_the_spread_is_uneven(own: int, other: int, begins: bool, goes_on: bool) -> None:
    assert is_uneven(Lead(own, other), is_returning=False) is begins
    assert is_uneven(Lead(own, other), is_returning=True) is goes_on


def test_returning_ends_even() -> None:
    lead = Lead(30, 0)
    assert is_uneven(lead, is_returning=False)
    while is_uneven(lead, is_returning=True):
        lead = lead.after_hand_over()
    assert lead == (15, 15)


def test_only_partitions_that_both_nodes_could_lead_count() -> None:
    seats = [Seat((1, 2, 3), 1), Seat((1, 2), 2), Seat((1, 3), 1), Seat((2, 3), 2), Seat((1, 2, 3), 3)]
    assert count_lead(1, 2, seats) == Lead(1, 1)
    assert count_lead(1, 3, seats) == Lead(2, 1)


# In a cluster.


def test_the_partitions_of_a_node_that_dies_go_to_all_others() -> None:
    fleet = three()
    fleet.create("t", 30)
    fleet.advance(5_000)
    fleet.kill(1)
    fleet.advance(5_000)
    assert leaders(fleet, 30) == [0, 15, 15]


def moves(fleet: Fleet) -> int:
    return sum(len(box.transfers) for box in fleet.nodes.values())


def leaders(fleet: Fleet, partitions: int) -> list[int]:
    found = [fleet.leader("t", number).node for number in range(partitions)]
    return [found.count(node) for node in fleet.nodes]


def displaced(fleet: Fleet, partitions: int = 9) -> Node:
    """Another node leads all partitions of the one that is the preferred leader of the first, which is back."""
    preferred = fleet.create("t", partitions)
    fleet.advance(5_000)
    heir = next(node for node in fleet.nodes if node != preferred.node)
    for host in list(preferred.membership.hosts.values()):
        if host.replica.is_serving():
            preferred.driver.transfer(host.group, heir)
    fleet.settle()
    return fleet.nodes[heir]


def test_the_preferred_leader_gets_its_partitions_back_once() -> None:
    fleet = three()
    displaced(fleet)
    assert max(leaders(fleet, 9)) == 6
    fleet.advance(PATIENCE_MS - 2 * CHECK_MS)
    assert moves(fleet) == 0, "it must have been well for some time"
    fleet.advance(8 * CHECK_MS)
    assert leaders(fleet, 9) == [3, 3, 3]
    fleet.advance(20 * PATIENCE_MS)
    assert moves(fleet) == 3
    counts: dict[tuple[bool, int], int] = {}
    for box in fleet.nodes.values():
        for key, count in box.driver.leaderships().items():
            counts[key] = counts.get(key, 0) + count
    assert counts[True, reasons.PREFERRED_LEADER] == counts[False, reasons.PREFERRED_LEADER] == 3


def test_a_small_difference_moves_nothing() -> None:
    fleet = three()
    displaced(fleet, 3)
    assert sorted(leaders(fleet, 3)) == [0, 1, 2]
    fleet.advance(5 * PATIENCE_MS)
    assert moves(fleet) == 0


def test_a_leader_in_its_place_is_left_alone() -> None:
    fleet = three()
    fleet.create("t", 6)
    fleet.advance(5 * PATIENCE_MS)
    assert moves(fleet) == 0


def test_a_link_that_comes_and_goes_starts_the_wait_anew() -> None:
    fleet = three()
    stand_in = displaced(fleet)
    preferred = stand_in.partition("t").preferred
    for _ in range(5):
        fleet.advance(PATIENCE_MS // 2)
        fleet.isolate(preferred)
        fleet.advance(CHECK_MS)
        fleet.heal(preferred)
    assert moves(fleet) == 0


def test_a_rolling_restart_is_over_before_leadership_returns() -> None:
    fleet = three()
    fleet.create("t", 9)
    fleet.advance(5_000)
    for node in list(fleet.nodes):
        fleet.kill(node)
        fleet.advance(5_000)
        fleet.restart(node)
        fleet.advance(PATIENCE_MS - 6_000)
        assert moves(fleet) == 0
    fleet.advance(PATIENCE_MS)
    assert 0 < moves(fleet) <= 6
    assert max(leaders(fleet, 9)) <= 4


def test_attempts_that_fail_become_rare() -> None:
    fleet = three()
    stand_in = displaced(fleet)
    attempts: list[int] = []
    first = stand_in.partition("t").group
    stand_in.transfer = lambda group, to, reason: group == first and attempts.append(fleet.clock.now_ms)  # type: ignore
    fleet.advance(40 * PATIENCE_MS)
    waits = [round((later - earlier) / PATIENCE_MS) for earlier, later in pairwise(attempts)]
    assert waits == [2, 4, 8, 16]


def test_only_a_few_partitions_move_at_once() -> None:
    fleet = three()
    preferred = fleet.create("t", 60)
    fleet.kill(preferred.node)
    for number in range(60):
        fleet.leader("t", number)
    fleet.restart(preferred.node)
    most = 0
    for _ in range(2 * PATIENCE_CHECKS):
        before = moves(fleet)
        fleet.advance(CHECK_MS)
        most = max(most, moves(fleet) - before)
    assert 0 < most <= 2 * HAND_OVERS_MAX, "two nodes may hand over at the same time"
    assert leaders(fleet, 60) == [20, 20, 20]
