"""Section 7: what a leader no longer has in its log, it sends as a snapshot."""

from flotilla.raft.messages import Append, AppendReply, SnapshotChunk, SnapshotMeta, SnapshotReply
from tests.paper.group import elect, flush, group, inject, only, propose, terms, tick
from tests.scenarios.cluster import Cluster


def with_lagging_follower() -> Cluster:
    """Node 3 lacks entries that the leader, node 1, has compacted away."""
    cluster = group()
    elect(cluster, 1)
    cluster.cuts = {(1, 3), (3, 1)}
    propose(cluster, 1, b"a", b"b", b"c")
    cluster.settle()
    cluster.members[1].compact(4)
    cluster.cuts.clear()
    return cluster


def test_7_a_lagging_follower_gets_a_snapshot_and_the_log_after_it() -> None:
    cluster = with_lagging_follower()
    propose(cluster, 1, b"d")
    tick(cluster, 1)
    cluster.settle()
    assert cluster.members[3].state == [b"a", b"b", b"c", b"d"]
    assert cluster.node(3).log.base == 3


def test_7_a_snapshot_is_sent_only_when_the_log_does_not_reach_back() -> None:
    cluster = with_lagging_follower()
    tick(cluster, 1)
    sent: list[SnapshotChunk] = []
    for _ in range(10):
        for node_id in cluster.members:
            while cluster.has_work(node_id):
                cluster.process_ready(node_id)
        sent += only(cluster.deliver(lambda message: True), SnapshotChunk)
    assert {chunk.to for chunk in sent} == {3}


def test_7_a_snapshot_names_the_last_entry_it_covers_and_the_configuration() -> None:
    cluster = with_lagging_follower()
    meta = cluster.members[1].store.snapshot()
    assert meta is not None
    assert (meta.index, meta.term, meta.configuration.voters) == (4, 1, (1, 2, 3))


def snapshot_of(cluster: Cluster, data: bytes = b"a\nb\nc", *, index: int = 4, term: int = 1) -> SnapshotMeta:
    return SnapshotMeta(index, term, index, term, cluster.node(1).configuration, len(data))


def test_7_chunks_are_joined_in_order() -> None:
    cluster = group()
    meta = snapshot_of(cluster)
    (first,) = only(inject(cluster, SnapshotChunk(2, 1, 1, meta, 0, b"a\n")), SnapshotReply)
    (gap,) = only(inject(cluster, SnapshotChunk(2, 1, 1, meta, 4, b"c")), SnapshotReply)
    assert (first.offset, gap.offset) == (2, 2)
    (installed,) = only(inject(cluster, SnapshotChunk(2, 1, 1, meta, 2, b"b\nc")), AppendReply)
    assert (installed.accepted, installed.index) == (True, meta.log_index)
    assert cluster.members[1].state == [b"a", b"b", b"c"]
    assert cluster.node(1).log.committed == 4


def test_7_a_snapshot_replaces_a_conflicting_log() -> None:
    cluster = group([1, 2, 2, 2, 2], [], [])
    inject(cluster, SnapshotChunk(2, 1, 3, snapshot_of(cluster, term=3), 0, b"a\nb\nc"))
    assert terms(cluster, 1) == []
    assert (cluster.node(1).log.base, cluster.node(1).log.last_index) == (4, 4)


def test_7_a_log_that_reaches_the_snapshot_stays() -> None:
    cluster = group([1, 1, 1, 1, 1, 1], [], [])
    (reply,) = only(inject(cluster, SnapshotChunk(2, 1, 1, snapshot_of(cluster), 0, b"a\nb\nc")), AppendReply)
    assert (reply.accepted, reply.index) == (True, 4)
    assert terms(cluster, 1) == [1] * 6


def test_7_an_old_snapshot_never_takes_the_state_back() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"x", b"y", b"z", b"last")
    cluster.settle()
    inject(cluster, SnapshotChunk(1, 2, 1, snapshot_of(cluster, b"a"), 0, b"a"))
    assert cluster.members[2].state == [b"x", b"y", b"z", b"last"]


def test_7_a_restarted_server_goes_on_from_its_snapshot() -> None:
    cluster = with_lagging_follower()
    cluster.crash(1)
    cluster.restart(1)
    assert cluster.members[1].state == [b"a", b"b", b"c"]
    assert (cluster.node(1).log.base, cluster.node(1).log.handed) == (3, 4)


def test_7_appends_go_on_after_the_snapshot() -> None:
    cluster = with_lagging_follower()
    tick(cluster, 1)
    cluster.settle()
    propose(cluster, 1, b"next")
    sent = [message for message in only(flush(cluster, 1), Append) if message.to == 3]
    assert [(message.prev_index, len(message.entries)) for message in sent] == [(4, 1)]
