"""A replica that lost what it had acknowledged is noticed, does not count, and gets it again."""

from copy import deepcopy

from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, Change, ConfigurationChange
from flotilla.raft.messages import AppendReply, Configuration, VoteRequest
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from tests.scenarios.cluster import Cluster

ALL = (1, 2, 3)


def new_cluster() -> Cluster:
    cluster = Cluster()
    for node in ALL:
        cluster.add(node, Configuration(voters=ALL), options=RaftOptions())
    cluster.call(1, lambda raft: raft.campaign())
    cluster.settle()
    return cluster


def propose(cluster: Cluster, *payloads: bytes) -> None:
    for payload in payloads:
        cluster.call(1, lambda raft, payload=payload: raft.propose(payload))
        cluster.settle()


def forget(cluster: Cluster, node: int, entries: int = 1) -> None:
    """The node restarts on a disk that lost its last entries: a lying cache, or a backup that was put back."""
    cluster.crash(node)
    del cluster.members[node].disk.stored[-entries:]
    cluster.call(1, lambda raft: raft.peer_down(node))
    # The checks of safety assume honest disks.
    cluster.safety.observe = lambda *_: None  # type: ignore[method-assign]
    cluster.restart(node)
    cluster.call(1, lambda raft: raft.peer_up(node))


def tick(cluster: Cluster, nodes: tuple[int, ...], count: int) -> None:
    for _ in range(count):
        for node in nodes:
            cluster.call(node, lambda raft: raft.tick())
        cluster.settle(nodes)


def test_a_replica_that_forgot_gets_its_entries_again() -> None:
    cluster = new_cluster()
    propose(cluster, b"a", b"b", b"c")
    forget(cluster, 3)
    tick(cluster, ALL, 4)
    assert cluster.node(1).forgotten_counts == {3: 1}
    assert cluster.node(3).log.last_index == cluster.node(1).log.last_index


def test_a_leader_goes_on_with_a_replica_that_forgot_when_the_other_one_dies() -> None:
    cluster = new_cluster()
    propose(cluster, b"a", b"b", b"c")
    forget(cluster, 3)
    propose(cluster, b"d")
    tick(cluster, ALL, 4)
    cluster.crash(2)
    cluster.call(1, lambda raft: raft.peer_down(2))
    cluster.call(1, lambda raft: raft.propose(b"goes on"))
    tick(cluster, (1, 3), 20)
    assert cluster.node(1).role == LEADER
    assert cluster.members[3].state == [b"a", b"b", b"c", b"d", b"goes on"]


def test_a_replica_that_forgot_gives_no_vote_to_a_log_that_lacks_the_same() -> None:
    cluster = new_cluster()
    cluster.cuts = {(1, 2), (2, 1)}
    propose(cluster, b"paid")
    forget(cluster, 3)
    cluster.loses = lambda message: bool(getattr(message, "entries", ()))
    tick(cluster, (1, 3), 4)
    assert cluster.node(3).forgotten == (1, 2), "the leader has informed it, and could not send it the entry yet"
    cluster.crash(1)
    node = cluster.node(3)
    node.leader = 0
    node.step(VoteRequest(2, 3, 2, last_index=1, last_term=1))
    assert node.vote == 0, "node 2 lacks what was committed with the acknowledgement of node 3"
    assert not node.is_promotable()
    node.step(VoteRequest(2, 3, 3, last_index=2, last_term=1))
    assert node.vote == 2


def test_a_voter_that_forgot_is_remembered_until_it_is_a_learner() -> None:
    cluster = new_cluster()
    propose(cluster, b"a", b"b", b"c")
    forget(cluster, 3)
    tick(cluster, ALL, 4)
    assert cluster.node(1).forgetful == {3}, "also though it has caught up"
    cluster.call(1, lambda raft: raft.propose_change(ConfigurationChange((Change(ADD_LEARNER, 3),))))
    cluster.settle()
    assert cluster.node(1).forgetful == frozenset()
    assert [cluster.node(node).configuration.voters for node in ALL] == [(1, 2)] * 3, "the next leader knows it too"
    cluster.call(1, lambda raft: raft.propose_change(ConfigurationChange((Change(ADD_VOTER, 3),))))
    cluster.settle()
    assert cluster.node(1).configuration.voters == ALL
    assert cluster.node(1).forgetful == frozenset()


def test_a_refusal_from_before_the_acknowledgement_is_no_proof() -> None:
    cluster = new_cluster()
    propose(cluster, b"a", b"b", b"c")
    cluster.call(1, lambda raft: raft.step(AppendReply(3, 1, 1, index=2, accepted=False, hint_index=1, hint_term=1)))
    cluster.settle()
    assert not cluster.node(1).forgotten_counts
    assert cluster.node(1).progress[3].match == 4
    assert cluster.node(1).progress[3].verify_id == 0


def test_a_replica_that_got_an_old_tail_of_its_own_back_does_not_commit_it() -> None:
    cluster = new_cluster()
    cluster.cuts = {(1, 2), (1, 3), (2, 1), (3, 1)}
    propose(cluster, b"never committed", b"nor this")
    cluster.crash(1)
    copy = deepcopy(cluster.members[1].disk)
    cluster.call(2, lambda raft: raft.peer_down(1))
    cluster.call(2, lambda raft: raft.campaign())
    cluster.settle((2, 3))
    tick(cluster, (2, 3), 30)
    cluster.cuts = set()
    cluster.restart(1)
    cluster.call(2, lambda raft: raft.peer_up(1))
    for payload in (b"a", b"b", b"c"):
        cluster.call(2, lambda raft, payload=payload: raft.propose(payload))
        cluster.settle()
    tick(cluster, ALL, 5)
    assert cluster.members[1].state == [b"a", b"b", b"c"]
    cluster.crash(1)
    cluster.safety.observe = lambda *_: None  # type: ignore[method-assign]
    cluster.members[1].disk = copy
    cluster.restart(1)
    tick(cluster, ALL, 10)
    assert cluster.node(2).forgotten_counts == {1: 1}
    assert cluster.members[1].state == [b"a", b"b", b"c"]


def test_a_leader_that_dies_before_it_has_demoted_a_forgetful_voter_leaves_no_gap() -> None:
    """Nobody else knows who forgot, and after a restart not even that one. It cannot matter: a voter is taken by the
    log that it shows. It wins nothing with a shorter one, gives its vote to any other that is complete, and a new
    leader counts nothing of it before it has acknowledged it again."""
    cluster = new_cluster()
    propose(cluster, b"a", b"b", b"paid")
    forget(cluster, 3, entries=2)
    cluster.loses = lambda message: bool(getattr(message, "entries", ()))
    tick(cluster, (1, 3), 4)
    assert cluster.node(1).forgetful == {3}
    cluster.crash(1)
    cluster.crash(3)
    cluster.restart(3)
    assert cluster.node(3).forgotten == (0, 0)
    for node in (2, 3):
        cluster.call(node, lambda raft: raft.peer_down(1))
    cluster.call(3, lambda raft: raft.campaign())
    tick(cluster, (2, 3), 40)
    leader = cluster.node(2)
    assert (leader.role, cluster.node(3).leader) == (LEADER, 2), "the shorter log has lost"
    # The appends to node 3 are still lost: what it forgot does not count.
    assert leader.progress[3].match < 4
    cluster.call(2, lambda raft: raft.propose(b"more"))
    tick(cluster, (2, 3), 4)
    assert leader.log.committed < leader.log.last_index
    cluster.loses = lambda message: False
    tick(cluster, (2, 3), 10)
    assert cluster.members[3].state == cluster.members[2].state == [b"a", b"b", b"paid", b"more"]
    cluster.restart(1)
    tick(cluster, ALL, 10)
    assert cluster.members[1].state == [b"a", b"b", b"paid", b"more"]


def test_a_forgetful_voter_that_has_caught_up_is_as_good_as_any_other() -> None:
    """The leader dies before it has demoted it: whoever is elected with its vote has all that was committed."""
    for heir in (2, 3):
        cluster = new_cluster()
        propose(cluster, b"a", b"b", b"paid")
        forget(cluster, 3, entries=2)
        tick(cluster, (1, 3), 4)
        assert cluster.node(1).forgetful == {3}
        cluster.crash(1)
        for node in (2, 3):
            cluster.call(node, lambda raft: raft.peer_down(1))
        cluster.call(heir, lambda raft: raft.campaign())
        tick(cluster, (2, 3), 40)
        assert cluster.node(2).role == LEADER or cluster.node(3).role == LEADER
        assert [cluster.members[node].state for node in (2, 3)] == [[b"a", b"b", b"paid"]] * 2
