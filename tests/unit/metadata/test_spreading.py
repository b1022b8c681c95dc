"""Plans are even, as short as can be, and the same everywhere."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.metadata.placement import Load, place
from flotilla.metadata.spreading import Placed, fill, rebalance, resize, vacate


@st.composite
def clusters(draw):
    """Brokers, and partitions that live anywhere among them, as wide as they should be."""
    brokers = draw(st.lists(st.integers(1, 40), min_size=1, max_size=9, unique=True))
    partitions = []
    for group in range(draw(st.integers(0, 30))):
        replicas = draw(st.permutations(brokers))[: draw(st.integers(1, min(5, len(brokers))))]
        partitions.append(Placed(group + 16, tuple(replicas), len(replicas)))
    return brokers, partitions


def after(partitions, plan):
    return {placed.group: plan.get(placed.group, placed.replicas) for placed in partitions}


def counts(brokers, places):
    replicas = Counter(node for replicas in places.values() for node in replicas)
    leaders = Counter(replicas[0] for replicas in places.values())
    return [replicas[node] for node in brokers], [leaders[node] for node in brokers]


def data_moves(partitions, plan):
    return sum(len(set(plan.get(p.group, p.replicas)) - set(p.replicas)) for p in partitions)


def fewest(brokers, partitions):
    """Replicas above an even share have to move; the brokers with the most may keep the odd ones."""
    held = sorted((sum(node in p.replicas for p in partitions) for node in brokers), reverse=True)
    share, rest = divmod(sum(held), len(held))
    return sum(max(0, count - share - (at < rest)) for at, count in enumerate(held))


@given(clusters())
def test_a_rebalanced_cluster_is_even_after_the_fewest_moves(cluster):
    brokers, partitions = cluster
    plan = rebalance(partitions, brokers)
    places = after(partitions, plan)
    replicas, leaders = counts(brokers, places)
    assert max(replicas) - min(replicas) <= 1
    assert data_moves(partitions, plan) == fewest(brokers, partitions)
    for placed in partitions:
        assert len(set(places[placed.group])) == len(placed.replicas)
        assert set(places[placed.group]) <= set(brokers)
    assert sum(leaders) == len(partitions)


@given(clusters())
def test_leaders_are_as_even_as_the_replicas_allow(cluster):
    """No chain of hand-overs leads from one broker to another that leads two fewer."""
    brokers, partitions = cluster
    places = after(partitions, rebalance(partitions, brokers))
    led = Counter(replicas[0] for replicas in places.values())
    for giver in brokers:
        reached, frontier = {giver}, [giver]
        while frontier:
            node = frontier.pop()
            heirs = {heir for replicas in places.values() if replicas[0] == node for heir in replicas[1:]}
            frontier += heirs - reached
            reached |= heirs
        assert all(led[giver] - led[node] <= 1 for node in reached)


@given(clusters())
def test_an_even_placement_stays_as_it_is(cluster):
    brokers, partitions = cluster
    places = after(partitions, rebalance(partitions, brokers))
    again = [Placed(group, replicas, len(replicas)) for group, replicas in places.items()]
    assert rebalance(again, brokers) == {}


@given(clusters(), st.randoms())
def test_the_order_of_arguments_does_not_matter(cluster, random):
    brokers, partitions = cluster
    shuffled = random.sample(brokers, len(brokers)), random.sample(partitions, len(partitions))
    assert rebalance(shuffled[1], shuffled[0]) == rebalance(partitions, brokers)


@given(clusters(), st.integers(41, 45))
def test_a_new_broker_gets_its_share_and_no_other_gets_anything(cluster, newcomer):
    brokers, partitions = cluster
    placed = place(brokers, {}, partitions=len(partitions), replication_factor=3)
    even = [Placed(at + 16, replicas, len(replicas)) for at, replicas in enumerate(placed)]
    plan = rebalance(even, [*brokers, newcomer])
    gained = {node for p in even for node in set(plan.get(p.group, p.replicas)) - set(p.replicas)}
    assert gained <= {newcomer}


def test_a_partition_that_is_too_narrow_is_widened():
    plan = rebalance([Placed(16, (1,), 3), Placed(17, (1,), 3)], [1, 2, 3])
    assert {group: sorted(replicas) for group, replicas in plan.items()} == {16: [1, 2, 3], 17: [1, 2, 3]}
    assert rebalance([Placed(16, (1,), 3)], [1, 2]) == {16: (1, 2)}


def test_replicas_on_other_nodes_are_left_alone():
    assert rebalance([Placed(16, (9, 1), 2), Placed(17, (1, 2), 2)], [1, 2]) == {}


@given(clusters())
def test_a_broker_gives_everything_away_and_nothing_else_moves(cluster):
    brokers, partitions = cluster
    leaver = brokers[0]
    load = {node: Load(sum(node in p.replicas for p in partitions)) for node in brokers}
    plan = vacate(partitions, leaver, brokers, load)
    for placed in partitions:
        has_place = leaver in placed.replicas and len(placed.replicas) < len(brokers)
        assert (placed.group in plan) == has_place
        if has_place:
            target = plan[placed.group]
            assert leaver not in target
            assert len(set(target)) == len(placed.replicas)
            assert len(set(target) & set(placed.replicas)) == len(placed.replicas) - 1


def test_a_partition_that_is_wider_than_it_should_be_loses_the_leaver_only():
    assert vacate([Placed(16, (1, 2, 3), 2)], 1, [1, 2, 3, 4], {}) == {16: (2, 3)}
    assert vacate([Placed(16, (1,), 1)], 1, [1], {}) == {}


@pytest.mark.parametrize(
    ("replicas", "width", "brokers", "expected"),
    [
        ((1, 2), 3, (1, 2, 3, 4), (1, 2, 4)),
        ((1, 2), 4, (1, 2, 3, 4), (1, 2, 4, 3)),
        ((1, 2), 9, (1, 2, 3), (1, 2, 3)),
        ((1, 2, 3), 2, (1, 2, 3), (1, 2)),
        ((3, 1, 2), 1, (1, 2, 3), (3,)),
        # Leaving brokers go first.
        ((1, 2, 4), 2, (1, 4), (1, 4)),
        ((1, 2), 2, (1, 2), (1, 2)),
    ],
)
def test_resizing(replicas, width, brokers, expected):
    load = {1: Load(9), 2: Load(4), 3: Load(5), 4: Load(1)}
    assert resize(Placed(16, replicas, width), brokers, load) == expected


@given(clusters(), st.integers(1, 5))
def test_filled_partitions_are_as_wide_as_the_brokers_allow(cluster, width):
    brokers, partitions = cluster
    wider = [Placed(placed.group, placed.replicas, width) for placed in partitions]
    held = Counter(node for placed in partitions for node in placed.replicas)
    plan = fill(wider, brokers, {node: Load(held[node]) for node in brokers})
    places = after(partitions, plan)
    for placed in partitions:
        replicas = places[placed.group]
        assert replicas[: len(placed.replicas)] == placed.replicas, "nothing moves"
        assert len(set(replicas)) == len(replicas) == max(len(placed.replicas), min(width, len(brokers)))
    assert fill([Placed(group, replicas, width) for group, replicas in places.items()], brokers, {}) == {}


def test_missing_replicas_go_to_the_brokers_with_the_fewest():
    lacking = [Placed(16, (1,), 2), Placed(17, (1,), 2), Placed(18, (1, 2, 3), 2)]
    assert fill(lacking, [1, 2, 3], {1: Load(3), 2: Load(2), 3: Load(1)}) == {16: (1, 3), 17: (1, 2)}
