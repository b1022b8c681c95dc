"""A credit limits what is sent to learners until it is refilled; voters never wait for it."""

from flotilla.raft.membership import ADD_LEARNER, Change, ConfigurationChange
from flotilla.raft.messages import Configuration
from flotilla.raft.options import UNLIMITED_BYTES, RaftOptions
from tests.paper.group import elect, group, propose
from tests.scenarios.cluster import Cluster

BODY = b"x" * 968  # A thousand bytes with what every entry counts besides.
COUNT = 50
LEARNER = 4


def teaching(credit_bytes: int) -> Cluster:
    """A group with a log of fifty entries, and a learner that has just been added."""
    cluster = group(voters=3)
    elect(cluster, 1)
    for _ in range(COUNT):
        propose(cluster, 1, BODY)
    cluster.settle()
    cluster.add(LEARNER, Configuration(), options=RaftOptions(election_ticks=5, heartbeat_ticks=1, quiesce_ticks=0))
    leader = cluster.node(1)
    leader.learner_credit_bytes = credit_bytes
    leader.propose_change(ConfigurationChange((Change(ADD_LEARNER, LEARNER),)))
    settle(cluster)
    return cluster


def settle(cluster: Cluster) -> None:
    """Time passes, in which a leader without credit sends only heartbeats."""
    for _ in range(10):
        cluster.call(1, lambda node: node.tick())
        cluster.settle()


def arrived(cluster: Cluster) -> int:
    return cluster.node(LEARNER).log.last_index


def test_without_a_limit_everything_arrives() -> None:
    cluster = teaching(UNLIMITED_BYTES)
    assert arrived(cluster) == cluster.node(1).log.last_index


def test_a_learner_gets_what_the_credit_allows_and_goes_on_after_a_refill() -> None:
    cluster = teaching(10_000)
    there = arrived(cluster)
    # One append may go over the credit by an entry, and finding out where to begin takes another.
    assert 8 <= there <= 13
    settle(cluster)
    assert arrived(cluster) == there
    cluster.node(1).learner_credit_bytes = 20_000
    settle(cluster)
    assert there + 18 <= arrived(cluster) <= there + 22
    cluster.node(1).learner_credit_bytes = UNLIMITED_BYTES
    settle(cluster)
    assert arrived(cluster) == cluster.node(1).log.last_index


def test_voters_do_not_wait_for_the_credit() -> None:
    cluster = teaching(0)
    propose(cluster, 1, BODY)
    settle(cluster)
    last = cluster.node(1).log.last_index
    assert cluster.node(1).log.committed == last
    assert [cluster.node(voter).log.last_index for voter in (2, 3)] == [last, last]
    assert arrived(cluster) < last
