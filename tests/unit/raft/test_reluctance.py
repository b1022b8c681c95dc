"""A node whose disk is full leads only where no other node does."""

from flotilla.raft.messages import Configuration
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from tests.scenarios.cluster import Cluster
from tests.unit.raft.test_repair_ends import ALL, campaign, leader, new_cluster, tick


def test_a_reluctant_node_leaves_the_lead_to_others() -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    cluster.node(1).is_reluctant = True
    cluster.call(1, lambda raft: raft.step_down())
    cluster.call(1, lambda raft: raft.campaign())
    cluster.settle()
    assert cluster.node(1).role != LEADER
    tick(cluster, ALL, 60)
    assert leader(cluster, ALL) in (2, 3)


def test_where_all_are_reluctant_one_leads_after_all() -> None:
    cluster = new_cluster()
    for node in ALL:
        cluster.node(node).is_reluctant = True
    tick(cluster, ALL, 200)
    assert leader(cluster, ALL)


def test_a_voter_without_others_leads_at_once() -> None:
    cluster = Cluster()
    cluster.add(1, Configuration(voters=(1,)), options=RaftOptions())
    cluster.node(1).is_reluctant = True
    campaign(cluster, 1)
    assert cluster.node(1).role == LEADER
