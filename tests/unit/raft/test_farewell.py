"""A removed member is told so, for a while, and what it says does not count."""

from flotilla.raft.farewell import PATIENCE_TIMEOUTS
from flotilla.raft.membership import ADD_LEARNER, REMOVE, Change, ConfigurationChange
from flotilla.raft.messages import AppendReply, Configuration
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from tests.scenarios.cluster import Cluster

ALL = (1, 2, 3)
OPTIONS = RaftOptions(quiesce_ticks=5)


def new_cluster() -> Cluster:
    cluster = Cluster()
    for node in ALL:
        cluster.add(node, Configuration(voters=ALL), options=OPTIONS)
    cluster.call(1, lambda raft: raft.campaign())
    cluster.settle()
    return cluster


def change(cluster: Cluster, kind: int, node: int) -> None:
    cluster.call(1, lambda raft: raft.propose_change(ConfigurationChange((Change(kind, node),))))


def tick(cluster: Cluster, count: int) -> None:
    for _ in range(count):
        for node in ALL:
            cluster.call(node, lambda raft: raft.tick())
        cluster.settle()


def test_a_removed_member_knows_that_it_is_out_and_the_leader_forgets_it() -> None:
    cluster = new_cluster()
    change(cluster, REMOVE, 3)
    cluster.settle()
    assert cluster.node(3).configuration.members() == (1, 2)
    assert cluster.node(3).log.committed == cluster.node(1).log.committed
    assert not cluster.node(3).is_promotable()
    assert not cluster.node(1).departing
    tick(cluster, 50)
    assert cluster.node(1).role == LEADER
    assert cluster.node(1).quiescent


def test_its_acknowledgement_does_not_count() -> None:
    cluster = new_cluster()
    cluster.cuts = {(1, 2), (2, 1)}
    change(cluster, REMOVE, 3)
    cluster.settle()
    # Nodes 1 and 2 are the quorum; node 3 has the entry, and that commits nothing.
    leader = cluster.node(1)
    assert leader.departing[3].match == leader.log.last_index > leader.log.committed
    assert cluster.node(3).log.committed < leader.log.last_index


def test_the_leader_gives_up_after_a_while() -> None:
    cluster = new_cluster()
    cluster.cuts = {(1, 3), (3, 1), (2, 3), (3, 2)}
    change(cluster, REMOVE, 3)
    tick(cluster, PATIENCE_TIMEOUTS * OPTIONS.election_ticks - 1)
    assert 3 in cluster.node(1).departing
    tick(cluster, 1)
    assert not cluster.node(1).departing


def test_a_member_that_comes_back_is_a_new_one() -> None:
    cluster = new_cluster()
    cluster.cuts = {(1, 3), (3, 1)}
    change(cluster, REMOVE, 3)
    cluster.settle()
    change(cluster, ADD_LEARNER, 3)
    assert not cluster.node(1).departing
    assert cluster.node(1).progress[3].match == 0
    cluster.cuts = set()
    tick(cluster, 10)
    assert cluster.node(3).configuration.learners == (3,)


def test_a_member_that_lags_gets_what_it_lacks_and_no_snapshot() -> None:
    cluster = new_cluster()
    cluster.cuts = {(1, 3), (3, 1)}
    for number in range(20):
        cluster.call(1, lambda raft, number=number: raft.propose(b"%d" % number))
    cluster.settle()
    change(cluster, REMOVE, 3)
    cluster.settle()
    cluster.cuts = set()
    tick(cluster, 10)
    assert cluster.node(3).configuration.members() == (1, 2)
    # Answers of a node that is long gone change nothing.
    before = cluster.node(1).progress.keys()
    cluster.call(1, lambda raft: raft.step(AppendReply(3, 1, raft.term, index=1, accepted=False)))
    assert cluster.node(1).progress.keys() == before
