"""Replicas and preferred leaders are spread evenly, the same way everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.metadata.placement import Load, place

NODES = st.lists(st.integers(1, 10_000), min_size=1, max_size=12, unique=True)
PARTITIONS = st.integers(0, 40)
FACTORS = st.integers(1, 7)
LOADS = st.dictionaries(
    st.integers(1, 12),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: Load(max(pair), min(pair))),
)


@pytest.mark.parametrize(
    ("brokers", "load", "partitions", "factor", "expected"),
    [
        ([1], {}, 2, 3, [(1,), (1,)]),
        ([3, 1, 2], {}, 3, 3, [(1, 2, 3), (2, 1, 3), (3, 1, 2)]),
        ([1, 2, 3], {}, 3, 1, [(1,), (2,), (3,)]),
        ([1, 2, 3], {}, 3, 2, [(1, 2), (3, 1), (2, 3)]),
        # The newcomer takes what comes until it has as much as the others.
        ([1, 2, 3], {1: Load(2, 1), 2: Load(2, 1)}, 2, 1, [(3,), (3,)]),
        # Equal replicas: the broker that leads less becomes the leader.
        ([1, 2], {1: Load(3, 3), 2: Load(3, 0)}, 3, 2, [(2, 1), (2, 1), (2, 1)]),
        ([1, 2], {}, 0, 1, []),
    ],
)
def test_examples(brokers, load, partitions, factor, expected):
    assert place(brokers, load, partitions=partitions, replication_factor=factor) == expected


@given(NODES, PARTITIONS, FACTORS)
def test_a_fresh_cluster_is_even_at_every_moment(nodes, partitions, factor):
    replicas = dict.fromkeys(nodes, 0)
    leaders = dict.fromkeys(nodes, 0)
    for placed in place(nodes, {}, partitions=partitions, replication_factor=factor):
        for node in placed:
            replicas[node] += 1
        leaders[placed[0]] += 1
        assert max(replicas.values()) - min(replicas.values()) <= 1
        assert max(leaders.values()) - min(leaders.values()) <= 1


@given(NODES, LOADS, PARTITIONS, FACTORS)
def test_as_many_replicas_as_asked_or_as_there_are_brokers_each_on_its_own(nodes, load, partitions, factor):
    placed = place(nodes, load, partitions=partitions, replication_factor=factor)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(replicas) == min(factor, len(nodes))
        assert len(set(replicas)) == len(replicas)
        assert set(replicas) <= set(nodes)


@given(NODES, LOADS, PARTITIONS, FACTORS, st.randoms())
def test_the_order_of_brokers_does_not_matter(nodes, load, partitions, factor, random):
    shuffled = list(nodes)
    random.shuffle(shuffled)
    assert place(nodes, load, partitions=partitions, replication_factor=factor) == place(
        shuffled, dict(reversed(load.items())), partitions=partitions, replication_factor=factor
    )


@given(NODES, st.lists(st.integers(0, 10), max_size=8), FACTORS)
def test_many_small_topics_are_placed_like_a_large_one(nodes, topics, factor):
    load = {}
    placed = []
    for partitions in topics:
        added = place(nodes, load, partitions=partitions, replication_factor=factor)
        for replicas in added:
            for node in replicas:
                known = load.get(node, Load())
                load[node] = Load(known.replicas + 1, known.leaders + (node == replicas[0]))
        placed += added
    assert placed == place(nodes, {}, partitions=sum(topics), replication_factor=factor)


@given(NODES, LOADS, st.integers(1, 100), FACTORS)
def test_an_uneven_cluster_does_not_get_more_uneven(nodes, load, partitions, factor):
    before = {node: load.get(node, Load()).replicas for node in nodes}
    after = dict(before)
    for replicas in place(nodes, load, partitions=partitions, replication_factor=factor):
        for node in replicas:
            after[node] += 1
    spread = max(before.values()) - min(before.values())
    assert max(after.values()) - min(after.values()) <= max(spread, 1)
