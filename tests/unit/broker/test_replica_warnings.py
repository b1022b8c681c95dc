"""Warnings of a leader: replicas that are missing, down, behind or forgetful."""

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.types.ids import NodeId
from flotilla.types.operations import CreateTopic
from flotilla.types.operations.cluster import (
    REPLICA_BEHIND,
    REPLICA_DOWN,
    REPLICA_FORGETFUL,
    UNDER_REPLICATED,
    DescribeNode,
    NodeDescribed,
    NodeWarning,
)
from tests.unit.broker.fleet import Fleet

FACTOR_SENTENCE = "fewer replicas than the topic asks for"


def warnings(fleet: Fleet) -> list[NodeWarning]:
    found: list[NodeWarning] = []
    for box in fleet.nodes.values():
        if box.is_running:
            reply = box.call(DescribeNode()).result
            assert isinstance(reply, NodeDescribed)
            assert reply.node == box.node
            found += reply.warnings
    return found


def summary(fleet: Fleet) -> list[tuple[str, NodeId, list[str]]]:
    return [(warning.code, warning.node, warning.partitions) for warning in warnings(fleet)]


def formed() -> Fleet:
    fleet = Fleet(3).form()
    fleet.create("t", 2)
    fleet.advance(5_000)
    return fleet


def test_a_healthy_cluster_warns_of_nothing() -> None:
    assert warnings(formed()) == []


def test_a_single_node_lacks_nothing_that_it_could_have() -> None:
    fleet = Fleet(1).form()
    fleet.create("t")
    fleet.advance(2_000)
    assert warnings(fleet) == []


def test_a_partition_with_too_few_replicas_is_named_by_its_leader_until_it_has_them() -> None:
    fleet = Fleet(3)
    fleet.isolate(3)
    fleet.wait(lambda: fleet.controller().call(CreateTopic("t", 2)).code == "TopicReply")
    fleet.advance(2_000)
    missing = [warning for warning in warnings(fleet) if warning.code == UNDER_REPLICATED]
    assert sorted(name for warning in missing for name in warning.partitions) == ["t/0", "t/1"]
    assert all(FACTOR_SENTENCE in warning.message and warning.node == 0 for warning in missing)
    fleet.heal(3)
    fleet.wait(lambda: warnings(fleet) == [], 120_000)


def test_replicas_that_are_down_are_named_by_node() -> None:
    fleet = formed()
    for partition in (0, 1):
        fleet.leader("t", partition)
    victim = next(node for node in (3, 2, 1) if node != fleet.controller().node)
    fleet.kill(victim)
    fleet.advance(10_000)
    found = summary(fleet)
    assert {(code, node) for code, node, _ in found} == {(REPLICA_DOWN, victim)}
    assert sorted(name for *_, names in found for name in names) == ["__metadata/0", "t/0", "t/1"]
    fleet.restart(victim)
    fleet.advance(10_000)
    assert warnings(fleet) == []


def test_learners_and_replicas_that_lack_entries_are_behind() -> None:
    fleet = formed()
    leader = fleet.leader("t")
    raft = leader.partition("t").replica.raft
    peer = next(node for node in (1, 2, 3) if node != leader.node)
    raft.progress[peer].match = raft.log.last_index
    raft.progress[peer].become_probe()
    assert warnings(fleet) == [], "it lacks nothing"
    raft.progress[peer].match = 0
    assert summary(fleet) == [(REPLICA_BEHIND, peer, ["t/0"])]


def test_a_replica_that_forgot_is_named_until_it_votes_again() -> None:
    fleet = formed()
    controller = fleet.controller()
    replica = controller.replica(METADATA_GROUP)
    assert replica is not None
    peer = next(node for node in (1, 2, 3) if node != controller.node)
    replica.raft.forgotten_counts[peer] = 1
    replica.raft.forgetful = frozenset({peer})
    assert summary(fleet) == [(REPLICA_FORGETFUL, peer, ["__metadata/0"])]
    fleet.wait(lambda: peer in replica.raft.configuration.learners)
    assert summary(fleet) == [(REPLICA_FORGETFUL, peer, ["__metadata/0"])]
    fleet.wait(lambda: replica.raft.configuration.voters == (1, 2, 3))
    assert warnings(fleet) == []
