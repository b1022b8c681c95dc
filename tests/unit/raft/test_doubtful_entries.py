"""Entries that a power cut may have torn before they were acknowledged, or that rotted since: nobody can tell."""

import pytest

from flotilla.raft.messages import DATA, Configuration, Entry
from flotilla.types.ids import Index, NodeId
from tests.scenarios.cluster import Cluster
from tests.unit.raft.test_repair_ends import ALL, assert_serves, campaign, new_cluster, propose, tick


def cut_power(cluster: Cluster, lost: dict[NodeId, Index], *, doubtful: bool = True) -> None:
    """All nodes stop. The given nodes come back without the data of their entry."""
    for node in ALL:
        cluster.crash(node)
    for node in ALL:
        if node in lost:
            lose(cluster, node, lost[node], doubtful=doubtful)
        cluster.restart(node)


def lose(cluster: Cluster, node: NodeId, index: Index, *, doubtful: bool = True) -> None:
    """The entry was written, or was being written: its index and term are known, its data is not."""
    disk = cluster.members[node].disk
    if index > disk.last_index():
        disk.stored.append(Entry(index, disk.hard_state.term, DATA, b"torn"))
    disk.damaged.add(index)
    disk.doubtful |= {index} if doubtful else set()


@pytest.mark.parametrize("torn", [(1,), (2,), (1, 2), (2, 3), ALL])
def test_an_entry_that_no_voter_has_intact_is_dropped(torn: tuple[NodeId, ...]) -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    propose(cluster, 1, b"kept")
    cut_power(cluster, dict.fromkeys(torn, 3))
    tick(cluster, ALL, 60)
    assert_serves(cluster, ALL)
    assert cluster.members[1].state == [b"kept", b"goes on"]


@pytest.mark.parametrize("intact", ALL)
def test_one_intact_copy_is_enough_to_keep_an_entry(intact: NodeId) -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    propose(cluster, 1, b"kept", b"acknowledged")
    cut_power(cluster, {node: 3 for node in ALL if node != intact})
    tick(cluster, ALL, 60)
    assert_serves(cluster, ALL)
    assert all(b"acknowledged" in cluster.members[node].state for node in ALL)


def test_while_a_voter_is_away_nothing_is_dropped() -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    propose(cluster, 1, b"acknowledged")
    cut_power(cluster, {1: 2, 2: 2})
    cluster.crash(3)
    tick(cluster, (1, 2), 200)
    assert [cluster.node(node).log.last_index for node in (1, 2)] == [2, 2]
    cluster.restart(3)
    tick(cluster, ALL, 60)
    assert_serves(cluster, ALL)
    assert all(b"acknowledged" in cluster.members[node].state for node in ALL)


def test_what_was_certainly_durable_is_never_dropped() -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    propose(cluster, 1, b"acknowledged")
    cut_power(cluster, {1: 2, 2: 2}, doubtful=False)
    cluster.crash(3)
    lose(cluster, 3, 2)
    cluster.restart(3)
    tick(cluster, ALL, 200)
    assert [cluster.node(node).log.last_index for node in ALL] == [2, 2, 2]


def test_a_single_voter_drops_it_at_once() -> None:
    cluster = Cluster()
    cluster.add(1, Configuration(voters=(1,)))
    campaign(cluster, 1)
    propose(cluster, 1, b"kept", among=(1,))
    cluster.crash(1)
    lose(cluster, 1, 3)
    cluster.restart(1)
    tick(cluster, (1,), 40)
    assert_serves(cluster, (1,))
    assert cluster.members[1].state == [b"kept", b"goes on"]
