"""Leadership goes back to where it belongs, late rather than often."""

from itertools import pairwise

from flotilla.broker.cluster.balance import HAND_OVERS_MAX, PATIENCE_CHECKS
from flotilla.broker.cluster.registration import CHECK_MS
from tests.unit.broker.fleet import Fleet, Node, three

PATIENCE_MS = PATIENCE_CHECKS * CHECK_MS


def moves(fleet: Fleet) -> int:
    return sum(len(box.transfers) for box in fleet.nodes.values())


def displaced(fleet: Fleet) -> Node:
    """The node that leads the partition in place of its preferred leader, which is back."""
    preferred = fleet.create("t")
    fleet.kill(preferred.node)
    leader = fleet.leader("t")
    fleet.restart(preferred.node)
    fleet.wait(lambda: leader.is_up(preferred.node))
    return leader


def test_the_preferred_leader_gets_its_partition_back_once() -> None:
    fleet = three()
    stand_in = displaced(fleet)
    fleet.advance(PATIENCE_MS - 2 * CHECK_MS)
    assert moves(fleet) == 0, "it must have been well for some time"
    fleet.advance(4 * CHECK_MS)
    assert fleet.leader("t").node == stand_in.partition("t").preferred
    fleet.advance(20 * PATIENCE_MS)
    assert moves(fleet) == 1


def test_a_leader_in_its_place_is_left_alone() -> None:
    fleet = three()
    fleet.create("t", 6)
    fleet.advance(5 * PATIENCE_MS)
    assert moves(fleet) == 0


def test_a_link_that_comes_and_goes_starts_the_wait_anew() -> None:
    fleet = three()
    stand_in = displaced(fleet)
    for _ in range(5):
        fleet.advance(PATIENCE_MS // 2)
        fleet.isolate(stand_in.partition("t").preferred)
        fleet.advance(CHECK_MS)
        fleet.heal(stand_in.partition("t").preferred)
    assert moves(fleet) == 0


def test_attempts_that_fail_become_rare() -> None:
    fleet = three()
    stand_in = displaced(fleet)
    attempts: list[int] = []
    stand_in.transfer = lambda group, to: attempts.append(fleet.clock.now_ms)  # type: ignore[method-assign]
    fleet.advance(40 * PATIENCE_MS)
    waits = [(later - earlier) // PATIENCE_MS for earlier, later in pairwise(attempts)]
    assert waits == [2, 4, 8, 16]


def test_only_a_few_partitions_move_at_once() -> None:
    fleet = three()
    preferred = fleet.create("t", 60)
    fleet.kill(preferred.node)
    for number in range(60):
        fleet.leader("t", number)
    fleet.restart(preferred.node)
    most = 0
    for _ in range(4 * PATIENCE_CHECKS):
        before = moves(fleet)
        fleet.advance(CHECK_MS)
        most = max(most, moves(fleet) - before)
    assert 0 < most <= 2 * HAND_OVERS_MAX, "two nodes may hand over at the same time"
    leaders = [fleet.leader("t", number).node for number in range(60)]
    assert [leaders.count(node) for node in fleet.nodes] == [20, 20, 20]
