"""Replicas of a partition share no machine and no zone that they need not: every plan is compared with all others."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.metadata.placement import NO_SITES, Load, Sharing, place, sharing, site, spread
from flotilla.metadata.spreading import Placed, fill, rebalance, resize, vacate
from tests.unit.metadata.test_spreading import after


def labelled(*labels):
    """Nodes 1, 2, ... with these labels, as machine@zone."""
    pairs = [label.split("@") for label in labels]
    return {node: site(node, machine=machine, zone=zone) for node, (machine, zone) in enumerate(pairs, 1)}


MACHINES = st.sampled_from(["", "m1", "m2", "m3"])
ZONES = st.sampled_from(["", "a", "b", "c"])
WIDTHS = st.integers(1, 5)


@st.composite
def brokers_with_sites(draw):
    count = draw(st.integers(1, 8))
    labels = draw(st.lists(st.tuples(MACHINES, ZONES), min_size=count, max_size=count))
    sites = {node: site(node, machine=machine, zone=zone) for node, (machine, zone) in enumerate(labels, 1)}
    # Nodes without labels have no row.
    return list(sites), {node: sites[node] for node, pair in enumerate(labels, 1) if any(pair)}


@st.composite
def clusters(draw):
    brokers, sites = draw(brokers_with_sites())
    partitions = []
    for group in range(draw(st.integers(0, 12))):
        replicas = draw(st.permutations(brokers))[: draw(st.integers(1, min(5, len(brokers))))]
        partitions.append(Placed(group + 16, tuple(replicas), len(replicas)))
    return brokers, sites, partitions


def loads(brokers, places):
    held = Counter(node for replicas in places for node in replicas)
    return {node: Load(held[node]) for node in brokers}


def least(brokers, width, sites, kept=()):
    """Of all choices that contain `kept`."""
    others = [node for node in brokers if node not in kept]
    return min(sharing((*kept, *more), sites) for more in combinations(others, min(width, len(brokers)) - len(kept)))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("m1@a", "m1@a"), Sharing(1, 1)),
        (("m1@a", "m2@a"), Sharing(0, 1)),
        # A machine is named within its zone.
        (("m1@a", "m1@b"), Sharing(0, 0)),
        # The zone of a node without one is its machine; a node without labels shares nothing.
        (("m1@", "m1@", "m2@"), Sharing(1, 1)),
        (("@", "@"), Sharing(0, 0)),
        (("@a", "@a", "@a"), Sharing(0, 3)),
    ],
)
def test_what_nodes_share(labels, expected):
    sites = labelled(*labels)
    assert sharing(sites, sites) == expected


@pytest.mark.parametrize(
    ("labels", "factor", "expected"),
    [
        # Two nodes on each of three machines.
        (("m1@", "m1@", "m2@", "m2@", "m3@", "m3@"), 3, [(1, 3, 5), (2, 4, 6), (3, 1, 5), (4, 2, 6)]),
        # One node of the first zone, so it has a replica of everything.
        (("@a", "@b", "@b"), 2, [(1, 2), (3, 1), (2, 1), (3, 1)]),
        # Fewer zones than replicas: as even as can be.
        (("@a", "@a", "@a", "@b", "@b", "@b"), 4, [(1, 4, 2, 5), (3, 6, 1, 4), (2, 5, 3, 6), (4, 1, 2, 5)]),
        # Enough machines: none is shared to make the zones even.
        (("m1@a", "m1@a", "m2@b", "m3@b", "m4@b"), 4, [(1, 3, 4, 5), (2, 3, 4, 5), (3, 1, 4, 5), (4, 2, 3, 5)]),
    ],
)
def test_examples_of_new_partitions(labels, factor, expected):
    sites = labelled(*labels)
    assert place(list(sites), {}, partitions=4, replication_factor=factor, sites=sites) == expected


@given(brokers_with_sites(), WIDTHS)
def test_new_partitions_share_no_more_than_they_must(cluster, factor):
    brokers, sites = cluster
    best = least(brokers, factor, sites)
    for replicas in place(brokers, {}, partitions=4, replication_factor=factor, sites=sites):
        assert sharing(replicas, sites) == best
    if len({sites.get(node, site(node, machine="", zone="")).machine for node in brokers}) >= factor:
        assert best.machines == 0
    if len({sites.get(node, site(node, machine="", zone="")).zone for node in brokers}) >= factor:
        assert best.zones == 0


@given(brokers_with_sites(), WIDTHS)
def test_new_partitions_are_spread_evenly_within_a_zone(cluster, factor):
    """Nodes of one machine are equal to placement, so they get equal shares."""
    brokers, sites = cluster
    placed = place(brokers, {}, partitions=12, replication_factor=factor, sites=sites)
    held = Counter(node for replicas in placed for node in replicas)
    for one, other in combinations(brokers, 2):
        if one in sites and sites[one] == sites.get(other):
            assert abs(held[one] - held[other]) <= 1


@settings(max_examples=60)
@given(clusters())
def test_a_rebalanced_cluster_shares_no_more_than_it_must(cluster):
    brokers, sites, partitions = cluster
    places = after(partitions, rebalance(partitions, brokers, sites))
    for placed in partitions:
        replicas = places[placed.group]
        assert len(set(replicas)) == len(placed.replicas)
        assert sharing(replicas, sites) == least(brokers, len(replicas), sites)


@settings(max_examples=60)
@given(clusters())
def test_no_single_move_makes_a_rebalanced_cluster_more_even(cluster):
    brokers, sites, partitions = cluster
    places = after(partitions, rebalance(partitions, brokers, sites))
    held = Counter(node for replicas in places.values() for node in replicas)
    for replicas in places.values():
        for giver in replicas:
            for taker in set(brokers) - set(replicas):
                moved = [taker if node == giver else node for node in replicas]
                if sharing(moved, sites) <= sharing(replicas, sites):
                    assert held[giver] - held[taker] <= 1
    again = [Placed(group, replicas, len(replicas)) for group, replicas in places.items()]
    assert rebalance(again, brokers, sites) == {}


@given(clusters())
def test_replicas_are_separated_by_the_fewest_moves(cluster):
    """A partition by itself: nothing moves to make shares even."""
    brokers, sites, partitions = cluster
    for placed in partitions[:3]:
        (replicas,) = after([placed], rebalance([placed], brokers, sites)).values()
        best = least(brokers, placed.width, sites)
        fewest = min(
            len(set(choice) - set(placed.replicas))
            for choice in combinations(brokers, placed.width)
            if sharing(choice, sites) == best
        )
        assert len(set(replicas) - set(placed.replicas)) == fewest


@given(clusters())
def test_a_cluster_whose_nodes_are_all_apart_is_rebalanced_as_without_labels(cluster):
    brokers, _, partitions = cluster
    sites = {node: site(node, machine=f"m{node}", zone=f"z{node % 100}") for node in brokers}
    assert rebalance(partitions, brokers, sites) == rebalance(partitions, brokers)


@given(clusters())
def test_replicas_of_a_broker_that_drains_share_no_more_than_they_must(cluster):
    brokers, sites, partitions = cluster
    leaver, *others = brokers
    plan = vacate(partitions, leaver, brokers, loads(brokers, [placed.replicas for placed in partitions]), sites)
    for placed in partitions:
        if placed.group in plan:
            kept = [node for node in placed.replicas if node != leaver]
            assert sharing(plan[placed.group], sites) == least(others, placed.width, sites, kept)


@given(clusters(), WIDTHS)
def test_replicas_that_are_added_share_no_more_than_they_must(cluster, width):
    brokers, sites, partitions = cluster
    wider = [Placed(placed.group, placed.replicas, width) for placed in partitions]
    plan = fill(wider, brokers, loads(brokers, [placed.replicas for placed in partitions]), sites)
    for placed in wider:
        if placed.group in plan:
            assert sharing(plan[placed.group], sites) == least(brokers, width, sites, placed.replicas)


def test_replicas_that_share_go_first():
    sites = labelled("m1@a", "m2@b", "m1@a", "m3@c")
    load = {1: Load(1), 2: Load(9), 3: Load(1), 4: Load(5)}
    assert resize(Placed(16, (1, 2, 3, 4), 3), [1, 2, 3, 4], load, sites) == (1, 2, 4)
    assert resize(Placed(16, (1, 2, 3, 4), 3), [1, 2, 3, 4], load) == (1, 3, 4)
    assert resize(Placed(16, (1, 2), 1), [1, 2, 3, 4], load, sites) == (1,)


def test_a_node_that_is_away_keeps_its_replicas_and_its_zone():
    """Only brokers that are up take replicas; the zone of another one is taken all the same."""
    sites = labelled("@a", "@a", "@b", "@c")
    assert rebalance([Placed(16, (1, 2, 4), 3)], [1, 2, 3], sites) == {16: (1, 3, 4)}
    assert spread([1, 2, 3], 1, sites, beside=(4, 1)) == [3]
    assert sharing([1, 2], NO_SITES) == Sharing(0, 0)
