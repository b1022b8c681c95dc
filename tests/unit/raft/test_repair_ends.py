"""Repair ends: every group serves again as long as one good copy of each entry and a majority are there."""

from collections.abc import Iterable
from random import Random

from flotilla.raft.messages import CommitNews, Configuration, Heartbeat, RepairRequest, SnapshotChunk, SnapshotReply
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.types.ids import NodeId
from tests.scenarios.cluster import Cluster

ALL = (1, 2, 3)


def new_cluster(quiesce_ticks: int = 0) -> Cluster:
    cluster = Cluster()
    for node in ALL:
        cluster.add(node, Configuration(voters=ALL), options=RaftOptions(quiesce_ticks=quiesce_ticks))
    return cluster


def campaign(cluster: Cluster, node: NodeId) -> None:
    cluster.call(node, lambda raft: raft.campaign())
    cluster.settle()


def propose(cluster: Cluster, node: NodeId, *payloads: bytes, among: Iterable[NodeId] = ALL) -> None:
    for payload in payloads:
        cluster.call(node, lambda raft, payload=payload: raft.propose(payload))
        cluster.settle(among)


def tick(cluster: Cluster, nodes: Iterable[NodeId], count: int) -> None:
    for _ in range(count):
        for node in nodes:
            cluster.call(node, lambda raft: raft.tick())
        cluster.settle(nodes)


def leader(cluster: Cluster, nodes: Iterable[NodeId]) -> NodeId:
    """The only leader among the nodes, or 0."""
    found = [node for node in nodes if cluster.node(node).role == LEADER]
    return found[0] if len(found) == 1 else 0


def assert_serves(cluster: Cluster, nodes: Iterable[NodeId]) -> None:
    """The nodes commit one more entry, and all of them hold it intact."""
    led_by = leader(cluster, nodes)
    assert led_by, [cluster.describe(node) for node in nodes]
    propose(cluster, led_by, b"goes on", among=nodes)
    tick(cluster, nodes, 4)
    for node in nodes:
        assert cluster.node(node).damaged == []
        assert cluster.members[node].state[-1] == b"goes on"


def test_the_damaged_tail_of_a_deposed_leader_gives_way_to_a_compacted_log() -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    cluster.cuts = {(1, 2), (1, 3), (2, 1), (3, 1)}
    propose(cluster, 1, b"x1", b"x2", b"x3", b"x4", b"x5")
    cluster.crash(1)
    cluster.call(2, lambda raft: raft.campaign())
    tick(cluster, (2, 3), 40)
    propose(cluster, 2, *[b"y"] * 6, among=(2, 3))
    for node in (2, 3):
        cluster.members[node].compact(5)
    cluster.members[1].disk.damaged.add(2)
    cluster.cuts = set()
    cluster.restart(1)
    tick(cluster, ALL, 40)
    assert cluster.node(1).damaged == []
    cluster.crash(3)
    tick(cluster, (1, 2), 40)
    assert_serves(cluster, (1, 2))


def test_a_damaged_replica_votes() -> None:
    cluster = new_cluster()
    campaign(cluster, 3)
    propose(cluster, 3, b"a", b"b", b"c", b"d")
    cluster.members[1].compact(5)
    cluster.crash(3)
    cluster.crash(2)
    cluster.members[2].disk.damaged.add(2)
    cluster.restart(2)
    tick(cluster, (1, 2), 60)
    assert_serves(cluster, (1, 2))


def test_a_leader_is_elected_by_a_replica_whose_damaged_tail_only_a_leader_can_drop() -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    cluster.cuts = {(1, 2), (1, 3), (2, 1), (3, 1)}
    propose(cluster, 1, b"x1", b"x2")
    cluster.crash(1)
    cluster.call(2, lambda raft: raft.campaign())
    tick(cluster, (2, 3), 40)
    propose(cluster, 2, b"y", among=(2, 3))
    for node in (2, 3):
        cluster.crash(node)
    cluster.members[1].disk.damaged.add(2)
    cluster.cuts = set()
    for node in (1, 2):
        cluster.restart(node)
    tick(cluster, (1, 2), 60)
    assert_serves(cluster, (1, 2))


def test_a_leader_that_steps_down_for_damage_wakes_its_group() -> None:
    cluster = new_cluster(quiesce_ticks=3)
    campaign(cluster, 1)
    propose(cluster, 1, b"a", b"b", b"c", b"d")
    for node in (2, 3):
        cluster.members[node].compact(5)
    tick(cluster, ALL, 12)
    assert all(cluster.node(node).quiescent for node in ALL)
    member = cluster.members[1]
    member.store.damaged.add(2)
    member.disk.damaged.add(2)
    cluster.call(1, lambda raft: raft.log.found_damage.append((2, 3)))
    tick(cluster, ALL, 60)
    assert leader(cluster, (2, 3))
    assert_serves(cluster, ALL)


def shorter_and_compacted(cluster: Cluster) -> None:
    """1 has the longest log with damage in it, 2 a shorter one that begins after the damage, and 3 is down."""
    campaign(cluster, 1)
    propose(cluster, 1, b"a", b"b", b"c", b"d")
    tick(cluster, ALL, 4)
    cluster.members[2].compact(5)
    cluster.cuts = {(1, 2), (2, 1)}
    propose(cluster, 1, b"e", b"f")
    cluster.crash(3)
    cluster.crash(1)
    cluster.members[1].disk.damaged.add(2)
    cluster.cuts = set()
    cluster.restart(1)


def test_the_snapshot_of_a_follower_mends_a_log_that_no_leader_can_mend() -> None:
    cluster = new_cluster()
    shorter_and_compacted(cluster)
    tick(cluster, (1, 2), 60)
    assert leader(cluster, (1, 2)) == 1
    assert_serves(cluster, (1, 2))
    assert cluster.members[1].state == [b"a", b"b", b"c", b"d", b"e", b"f", b"goes on"]
    assert cluster.members[2].state == cluster.members[1].state


def test_the_snapshot_of_a_follower_comes_in_chunks_and_survives_losses() -> None:
    cluster = Cluster()
    for node in ALL:
        cluster.add(node, Configuration(voters=ALL), options=RaftOptions(snapshot_chunk_bytes_max=2))
    random = Random(1)
    cluster.loses = lambda message: isinstance(message, SnapshotChunk | SnapshotReply) and random.random() < 0.3
    shorter_and_compacted(cluster)
    tick(cluster, (1, 2), 120)
    assert leader(cluster, (1, 2)) == 1
    assert_serves(cluster, (1, 2))


def test_a_follower_offers_no_snapshot_while_there_is_a_leader() -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    propose(cluster, 1, b"a", b"b", b"c", b"d")
    tick(cluster, ALL, 4)
    cluster.members[2].compact(5)
    cluster.call(2, lambda raft: raft.step(RepairRequest(3, 2, 0, 2, 3)))
    assert not cluster.node(2).messages


def test_the_snapshot_of_a_follower_names_no_leader() -> None:
    cluster = new_cluster()
    shorter_and_compacted(cluster)
    cluster.loses = lambda message: not isinstance(message, RepairRequest | SnapshotChunk)
    tick(cluster, (1, 2), 60)
    assert cluster.node(1).damaged == []
    assert cluster.node(1).leader == 0


def test_a_leader_learns_from_a_lost_snapshot_what_is_committed() -> None:
    """It cannot learn it otherwise: its only follower acknowledges nothing before it has a snapshot of all that."""
    cluster = new_cluster()
    campaign(cluster, 2)
    cluster.loses = lambda message: message.to == 1 and isinstance(message, CommitNews | Heartbeat)
    propose(cluster, 2, b"a", b"b", b"c")
    cluster.loses = lambda message: message.to == 1
    tick(cluster, (2, 3), 4)
    cluster.loses = lambda message: False
    assert cluster.node(1).log.last_index == cluster.node(3).log.committed > cluster.node(1).log.committed
    cluster.members[3].compact(cluster.node(3).log.committed + 1)
    cluster.crash(3)
    cluster.members[3].disk.newest_snapshot = None
    cluster.crash(2)
    cluster.restart(3)
    assert cluster.node(3).damaged[0][0] == 0
    cluster.members[1].always_snapshots = True
    tick(cluster, (1, 3), 60)
    assert_serves(cluster, (1, 3))
    assert cluster.members[3].state == [b"a", b"b", b"c", b"goes on"]


def test_two_snapshots_of_followers_do_not_disturb_each_other() -> None:
    cluster = Cluster()
    five = (1, 2, 3, 4, 5)
    for node in five:
        cluster.add(node, Configuration(voters=five), options=RaftOptions(snapshot_chunk_bytes_max=1))
    campaign(cluster, 1)
    propose(cluster, 1, b"a", b"b", b"c", b"d", among=five)
    tick(cluster, five, 4)
    cluster.members[2].compact(4)
    cluster.cuts = {(1, 2), (2, 1)}
    propose(cluster, 1, b"e", among=five)
    tick(cluster, five, 4)
    cluster.members[3].compact(6)
    cluster.cuts |= {(1, 3), (3, 1)}
    propose(cluster, 1, b"f", b"g", among=five)
    for node in (4, 5, 1):
        cluster.crash(node)
    cluster.members[1].disk.damaged.add(2)
    cluster.cuts = set()
    cluster.restart(1)
    tick(cluster, (1, 2, 3), 60)
    assert leader(cluster, (1, 2, 3)) == 1
    assert_serves(cluster, (1, 2, 3))
