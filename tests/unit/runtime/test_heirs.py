"""The groups of a node that stops go where they need not move again."""

from collections import Counter

from flotilla.runtime.leadership.heirs import spread_heirs
from tests.unit.runtime.test_driver import THREE, Bench, lead_with_entries

NODES = (1, 2, 3)
GROUPS = range(30)


def stop(node: int, leaders: dict[int, int]) -> int:
    """Hands the groups of a node over; how many there were."""
    others = [other for other in NODES if other != node]
    # The order of succession differs from group to group.
    heirs = {group: others[group % 2 :] + others[: group % 2] for group in GROUPS if leaders[group] == node}
    leaders.update(spread_heirs(leaders.values(), heirs))
    return len(heirs)


def test_a_rolling_restart_moves_each_group_little_more_than_once() -> None:
    leaders = {group: NODES[group % 3] for group in GROUPS}
    moves = [stop(node, leaders) for node in NODES]
    # Spread evenly over both others, it would be 10, 15 and 22 or 23.
    assert moves == [10, 15, 15]
    assert Counter(leaders.values()) == {1: 15, 2: 15}


def test_the_groups_of_one_node_are_spread_over_the_others() -> None:
    leaders = {group: NODES[group % 3] for group in GROUPS}
    stop(1, leaders)
    assert Counter(leaders.values()) == {2: 15, 3: 15}


def test_a_group_without_an_heir_stays() -> None:
    assert spread_heirs([1, 1, 2], {7: [], 8: [3]}) == {8: 3}


def test_only_a_voter_that_lacks_nothing_inherits_while_there_is_one() -> None:
    bench = Bench(THREE)
    assert bench.driver.replicas[1].heirs() == [], "it does not lead"
    raft = lead_with_entries(bench, 3)
    replica = bench.driver.replicas[1]
    assert replica.heirs() == [2]
    raft.down_peers.add(2)
    assert replica.heirs() == [3], "better than none"
    raft.down_peers.add(3)
    assert replica.heirs() == []
