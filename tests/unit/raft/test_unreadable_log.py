"""A log that cannot be read for a while costs the reads of that while, and nothing else."""

from flotilla.raft.messages import Configuration, Entry
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.types.errors import NotLoadedError
from tests.scenarios.cluster import Cluster

ALL = (1, 2, 3)


def lagging_cluster() -> Cluster:
    """Node 1 leads, and node 3 lacks three entries."""
    cluster = Cluster()
    for node in ALL:
        cluster.add(node, Configuration(voters=ALL), options=RaftOptions())
    cluster.call(1, lambda raft: raft.campaign())
    cluster.settle()
    cluster.cuts = {(1, 3), (3, 1)}
    cluster.call(1, lambda raft: raft.peer_down(3))
    for payload in (b"a", b"b", b"c"):
        cluster.call(1, lambda raft, payload=payload: raft.propose(payload))
        cluster.settle()
    cluster.cuts = set()
    return cluster


def tick(cluster: Cluster, count: int = 3) -> None:
    for _ in range(count):
        for node in ALL:
            cluster.call(node, lambda raft: raft.tick())
        cluster.settle()


def test_a_leader_goes_on_and_catches_a_follower_up_when_it_can_read_again() -> None:
    cluster = lagging_cluster()
    cluster.members[1].store.is_unreadable = True
    cluster.call(1, lambda raft: raft.peer_up(3))
    tick(cluster)
    assert cluster.node(1).role == LEADER
    assert not cluster.node(1).has_ready(), "it must not ask for another turn before the next tick"
    assert cluster.members[3].state == []
    cluster.members[1].store.is_unreadable = False
    tick(cluster)
    assert cluster.members[3].state == [b"a", b"b", b"c"]


def test_a_replica_applies_later_what_it_cannot_read_now() -> None:
    cluster = lagging_cluster()
    cluster.members[3].store.is_unreadable = True
    cluster.call(1, lambda raft: raft.peer_up(3))
    tick(cluster)
    assert cluster.node(3).log.committed == 4
    assert not cluster.node(3).has_ready()
    cluster.members[3].store.is_unreadable = False
    tick(cluster)
    assert cluster.members[3].state == [b"a", b"b", b"c"]


def test_a_follower_that_needs_old_entries_from_disk_holds_up_nobody_else() -> None:
    cluster = lagging_cluster()
    log = cluster.node(1).log
    read = cluster.members[1].store.entries

    def entries(low: int, high: int, max_bytes: int) -> list[Entry]:
        if low <= 4:
            raise NotLoadedError(1)
        return read(low, high, max_bytes)

    cluster.members[1].store.entries = entries  # type: ignore[method-assign]
    cluster.call(1, lambda raft: raft.peer_up(3))
    tick(cluster)
    assert log.unreadable_to == 2, "node 3 lacks the entry after the leader's own"
    cluster.call(1, lambda raft: raft.propose(b"d"))
    cluster.settle()
    assert cluster.members[1].state == cluster.members[2].state == [b"a", b"b", b"c", b"d"]
    assert cluster.members[3].state == []
    cluster.members[1].store.entries = read  # type: ignore[method-assign]
    cluster.call(1, lambda raft: raft.log_loaded())
    cluster.settle()
    tick(cluster)
    assert cluster.members[3].state == [b"a", b"b", b"c", b"d"]
