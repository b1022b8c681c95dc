"""Thrifty replication: which voters get entries at once and which lag, for a tick at most."""

import pytest

from flotilla.raft.messages import Append, Configuration
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.raft.thrifty import ENTRIES_MAX
from flotilla.types.ids import NodeId
from tests.scenarios.cluster import Cluster

OPTIONS = RaftOptions(quiesce_ticks=0, commit_news_ticks=1, thrifty_bytes_max=1_000)


def led(*voters: NodeId, leader: NodeId = 1, learners: tuple[NodeId, ...] = ()) -> Cluster:
    """A cluster whose leader has had a tick to choose the lagging voters."""
    cluster = Cluster()
    configuration = Configuration(voters=voters, learners=learners)
    for node_id in configuration.members():
        cluster.add(node_id, configuration, options=OPTIONS)
    cluster.call(leader, lambda node: node.campaign())
    cluster.settle()
    assert cluster.node(leader).role == LEADER
    tick(cluster, leader)
    return cluster


def tick(cluster: Cluster, node_id: NodeId = 1) -> None:
    cluster.call(node_id, lambda node: node.tick())
    cluster.settle()


def asked(cluster: Cluster, leader: NodeId = 1) -> dict[NodeId, int]:
    """How many entries leave to each voter in the leader's next turn."""
    cluster.process_ready(leader)
    appends = [message for message in cluster.network if isinstance(message, Append)]
    return {message.to: len(message.entries) for message in appends}


def propose(cluster: Cluster, leader: NodeId = 1, size_bytes: int = 100) -> None:
    cluster.call(leader, lambda node: node.propose(bytes(size_bytes)))


def lasts(cluster: Cluster) -> dict[NodeId, int]:
    return {node_id: cluster.node(node_id).log.last_index for node_id in cluster.members}


@pytest.mark.parametrize(
    ("voters", "leader", "prompt"),
    [((1, 2, 3), 1, [2]), ((1, 2, 3), 2, [3]), ((1, 2, 3), 3, [1]), ((1, 2, 3, 4, 5), 4, [5, 1]), ((1, 2), 1, [2])],
)
def test_a_single_entry_goes_to_the_voters_that_would_stand_first(voters, leader, prompt):
    cluster = led(*voters, leader=leader)
    propose(cluster, leader)
    assert asked(cluster, leader) == dict.fromkeys(prompt, 1)
    cluster.settle()
    node = cluster.node(leader)
    assert node.log.committed == node.log.last_index, "a quorum is enough"
    behind = [node_id for node_id, last in lasts(cluster).items() if last < node.log.last_index]
    assert behind == [voter for voter in voters if voter != leader and voter not in prompt]


def test_lagging_voters_get_it_with_the_next_tick_in_one_message():
    cluster = led(1, 2, 3)
    for _ in range(5):
        propose(cluster)
        cluster.settle()
    assert lasts(cluster) == {1: 6, 2: 6, 3: 1}
    cluster.call(1, lambda node: node.tick())
    assert asked(cluster) == {3: 5}
    cluster.settle()
    assert lasts(cluster) == {1: 6, 2: 6, 3: 6}
    assert cluster.node(3).log.committed == 6


def test_many_entries_do_not_wait_for_the_tick():
    cluster = led(1, 2, 3)
    for _ in range(ENTRIES_MAX):
        propose(cluster)
        cluster.settle()
    assert lasts(cluster)[3] == 1
    propose(cluster)
    assert asked(cluster) == {2: 1, 3: ENTRIES_MAX + 1}


def test_under_load_no_voter_lags():
    cluster = led(1, 2, 3)
    propose(cluster, size_bytes=OPTIONS.thrifty_bytes_max + 1)
    assert asked(cluster) == {2: 1, 3: 1}


def test_a_voter_that_falls_silent_changes_places_with_a_lagging_one():
    cluster = led(1, 2, 3)
    cluster.cuts = {(1, 2), (2, 1)}
    propose(cluster)
    cluster.settle()
    assert cluster.node(1).log.committed == 1
    tick(cluster)
    assert cluster.node(1).log.committed == 2, "it waited for a tick, no longer"
    tick(cluster)
    propose(cluster)
    cluster.settle()
    assert cluster.node(1).log.committed == 3, "the next one waits for none"


def test_a_broken_link_is_known_at_once():
    cluster = led(1, 2, 3)
    cluster.crash(2)
    propose(cluster)
    cluster.settle()
    assert cluster.node(1).log.committed == 1
    cluster.call(1, lambda node: node.peer_down(2))
    cluster.settle()
    assert cluster.node(1).log.committed == 2
    tick(cluster)
    propose(cluster)
    assert asked(cluster)[3] == 1
    cluster.settle()
    assert cluster.node(1).log.committed == 3


def test_with_a_slow_disk_of_the_leader_no_voter_lags():
    cluster = led(1, 2, 3)
    cluster.members[1].is_slow = True
    propose(cluster)
    cluster.process_ready(1)
    cluster.settle(only=(2, 3))
    cluster.call(1, lambda node: node.tick())
    for _ in range(3):
        cluster.process_ready(1)
        cluster.settle(only=(2, 3))
        cluster.deliver(lambda message: True)
    assert cluster.node(1).log.committed == 2, "the others have it, if not at once"
    cluster.call(1, lambda node: node.tick())
    assert cluster.node(1).lagging == frozenset()
    propose(cluster)
    assert asked(cluster) == {2: 1, 3: 1}


def test_the_target_of_a_transfer_gets_everything_at_once():
    cluster = led(1, 2, 3)
    propose(cluster)
    cluster.settle()
    cluster.call(1, lambda node: node.transfer(3))
    assert asked(cluster) == {3: 1}
    cluster.settle()
    assert cluster.node(3).role == LEADER


def test_a_follower_that_reads_gets_its_missing_entries_at_once():
    cluster = led(1, 2, 3)
    propose(cluster)
    cluster.settle()
    cluster.call(3, lambda node: node.read())
    cluster.settle()
    assert lasts(cluster)[3] == 2
    assert cluster.members[3].node.log.committed == 2


def test_learners_do_not_lag():
    cluster = led(1, 2, 3, learners=(4,))
    propose(cluster)
    assert asked(cluster) == {2: 1, 4: 1}


@pytest.mark.parametrize(
    "configuration",
    [Configuration(voters=(1, 2, 3), outgoing=(1, 2, 3, 4)), Configuration(voters=(2, 3))],
    ids=["members change", "the leader is no voter"],
)
def test_in_a_joint_or_foreign_quorum_no_voter_lags(configuration):
    cluster = led(1, 2, 3)
    node = cluster.node(1)
    assert node.lagging == {3}
    node.log.configurations.append((node.log.last_index, configuration))
    cluster.call(1, lambda node: node.tick())
    assert node.lagging == frozenset()


def test_without_a_bound_all_voters_are_sent_everything_at_once():
    assert RaftOptions().thrifty_bytes_max == 0
    cluster = Cluster()
    for node_id in (1, 2, 3):
        cluster.add(node_id, Configuration(voters=(1, 2, 3)))
    cluster.call(1, lambda node: node.campaign())
    cluster.settle()
    tick(cluster)
    propose(cluster)
    assert asked(cluster) == {2: 1, 3: 1}


def test_a_voter_with_more_entries_stands_instead_of_the_first_in_line():
    """The first voter in line lags, because the other one was quicker; then the leader dies."""
    cluster = led(1, 2, 3)
    cluster.cuts = {(1, 2), (2, 1)}
    propose(cluster)
    cluster.settle()
    tick(cluster)
    cluster.cuts = set()
    tick(cluster)
    assert cluster.node(1).lagging == {2}
    propose(cluster)
    cluster.settle()
    cluster.crash(1)
    for follower in (3, 2):
        cluster.call(follower, lambda node: node.peer_down(1))
    cluster.settle()
    assert cluster.node(3).role == LEADER, "without a tick"
