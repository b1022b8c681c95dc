"""What a node stores for consensus: a Ready as it is, and of a leader's append what a full disk takes."""

from dataclasses import replace

from flotilla.raft.messages import Append, CommitNews, Ready, SnapshotMeta
from flotilla.replica.ports import Store
from flotilla.types.ids import GroupId


def save(store: Store, group: GroupId, ready: Ready, snapshot: SnapshotMeta | None = None) -> None:
    """`snapshot`: that of the Ready, once its file is durable. Raises UnstorableError."""
    store.save(
        group,
        hard_state=ready.hard_state,
        entries=ready.entries,
        repaired=ready.repaired,
        truncate_from=ready.truncate_from,
        snapshot=snapshot,
    )


def admitted(store: Store, append: Append) -> Append | CommitNews:
    """The part of an append that a full disk takes. Without a reply the leader tries again with each heartbeat."""
    count = store.admits(append.entries)
    if count == len(append.entries):
        return append
    if count == 0:
        return CommitNews(append.sender, append.to, append.term, append.commit)
    return replace(append, entries=append.entries[:count])
