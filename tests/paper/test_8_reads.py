"""Section 8 and thesis section 6.4: reads that see everything committed before their request."""

import pytest

from flotilla.raft.messages import AppendReply, Heartbeat, HeartbeatReply, ReadState, VoteReply
from flotilla.types.errors import NotLeaderError
from flotilla.types.ids import NodeId
from tests.paper.group import elect, flush, group, inject, only, propose, tick
from tests.scenarios.cluster import Cluster


def answered(cluster: Cluster, node_id: NodeId = 1) -> list[ReadState]:
    """Lets the cluster settle; returns the reads that came out at a node."""
    cluster.settle()
    return cluster.members[node_id].reads


def hear(cluster: Cluster, sender: NodeId, read_id: int = 0) -> list[ReadState]:
    """Confirms a heartbeat of node 1 by a follower; returns the reads that came out so far."""
    inject(cluster, HeartbeatReply(sender, 1, 1, read_id=read_id))
    return cluster.members[1].reads


def test_8_a_leader_opens_its_term_with_an_empty_entry() -> None:
    cluster = group()
    elect(cluster, 1)
    (entry,) = cluster.members[1].disk.stored
    assert (entry.term, entry.data) == (1, b"")
    assert cluster.node(1).log.committed == 1


def test_thesis_6_4_a_read_is_served_at_the_commit_index_of_its_request() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"x")
    cluster.settle()
    read_id = cluster.node(1).read()
    propose(cluster, 1, b"later")
    assert answered(cluster) == [ReadState(read_id, 2)]


def test_thesis_6_4_a_read_waits_for_a_majority() -> None:
    cluster = group(voters=5)
    elect(cluster, 1)
    read_id = cluster.node(1).read()
    (round_number,) = {heartbeat.read_id for heartbeat in only(flush(cluster, 1), Heartbeat)}
    assert hear(cluster, 2, round_number) == []
    assert hear(cluster, 2, round_number) == []
    assert hear(cluster, 3, round_number) == [ReadState(read_id, 1)]


def test_thesis_6_4_a_reply_to_an_older_heartbeat_confirms_no_younger_read() -> None:
    cluster = group()
    elect(cluster, 1)
    first = cluster.node(1).read()
    (old_round,) = {heartbeat.read_id for heartbeat in only(flush(cluster, 1), Heartbeat)}
    cluster.node(1).read()
    hear(cluster, 2, old_round)
    assert hear(cluster, 3, old_round) == [ReadState(first, 1)]


def test_thesis_6_4_an_ordinary_heartbeat_confirms_no_read() -> None:
    cluster = group()
    elect(cluster, 1)
    tick(cluster, 1)
    flush(cluster, 1)
    cluster.node(1).read()
    assert hear(cluster, 2) == []


def test_thesis_6_4_no_read_before_an_entry_of_the_own_term_is_committed() -> None:
    cluster = group([1, 1], [1, 1], [1, 1])
    cluster.node(1).campaign()
    flush(cluster, 1)
    inject(cluster, VoteReply(2, 1, 2, granted=True))
    read_id = cluster.node(1).read()
    assert only(flush(cluster, 1), Heartbeat) == []
    cluster.node(1).step(AppendReply(2, 1, 2, index=3, accepted=True))
    assert answered(cluster) == [ReadState(read_id, 3)]


def test_thesis_6_4_a_follower_asks_its_leader() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"x")
    cluster.settle()
    read_id = cluster.node(2).read()
    assert answered(cluster, 2) == [ReadState(read_id, 2)]


def test_thesis_6_4_without_a_leader_there_is_no_read() -> None:
    with pytest.raises(NotLeaderError):
        group().node(1).read()


def test_thesis_6_4_reads_are_dropped_with_the_leadership() -> None:
    cluster = group()
    elect(cluster, 1)
    read_id = cluster.node(1).read()
    inject(cluster, Heartbeat(2, 1, 9, commit=0))
    assert cluster.members[1].reads == [ReadState(read_id, -1)]


def test_thesis_6_4_a_deposed_leader_that_does_not_know_it_serves_nothing() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.cuts = {(1, 2), (2, 1), (1, 3), (3, 1)}
    elect(cluster, 2)
    propose(cluster, 2, b"newer")
    cluster.settle()
    cluster.node(1).read()
    assert answered(cluster) == []


def test_thesis_6_4_ids_do_not_repeat_after_a_restart() -> None:
    cluster = group(voters=1)
    elect(cluster, 1)
    before = {cluster.node(1).read() for _ in range(5)}
    cluster.crash(1)
    cluster.restart(1)
    elect(cluster, 1)
    assert before.isdisjoint({cluster.node(1).read() for _ in range(5)})


def test_thesis_6_4_a_group_of_one_confirms_itself() -> None:
    cluster = group(voters=1)
    elect(cluster, 1)
    read_id = cluster.node(1).read()
    assert answered(cluster) == [ReadState(read_id, 1)]
