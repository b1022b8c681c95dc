"""The messages that a leader sends: appends, news of the commit index, heartbeats, chunks of a snapshot.

Appends are made when a Ready is taken, not when a proposal comes in: all proposals of a turn travel in
one message per follower. `progress.py` bounds what may be in flight to a follower; `leader.py` handles
the replies.
"""

from collections.abc import Callable
from dataclasses import replace

from flotilla.raft import farewell, proposals, thrifty
from flotilla.raft.messages import Append, CommitNews, Entry, Heartbeat, Message, SnapshotChunk
from flotilla.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress
from flotilla.raft.state import RaftState
from flotilla.types.errors import CorruptionError, NotLoadedError, StorageFailedError
from flotilla.types.ids import Index, NodeId


def has_work(node: RaftState) -> bool:
    """Whether `flush` would send anything."""
    if node.reads.sequence > node.reads.sequence_sent or proposals.should_leave_joint(node):
        return True
    if node.departing and farewell.has_work(node):
        return True
    own, last, news = node.id, node.log.last_index, _due_news(node)
    for peer, progress in node.progress.items():
        if peer == own or progress.has_been_sent(last, news):
            continue
        if _wants_append(node, peer, progress, last) or _wants_commit_news(progress, news):
            return True
    return False


def flush(node: RaftState) -> None:
    """Called when a Ready is taken: sends everything that the followers should have by now."""
    if proposals.should_leave_joint(node):
        proposals.propose_to_leave_joint(node)
    if node.reads.sequence > node.reads.sequence_sent:
        send_heartbeats(node)
    own, last, news = node.id, node.log.last_index, _due_news(node)
    for peer, progress in node.progress.items():
        if peer == own or progress.has_been_sent(last, news):
            continue
        while _wants_append(node, peer, progress, last):
            if not _send_append(node, peer, progress):
                break
        if _wants_commit_news(progress, news):
            send_commit_news(node, peer, progress)
    if node.departing:
        farewell.flush(node)
    node.news_ticks = 0


def _wants_append(node: RaftState, peer: NodeId, progress: Progress, last: Index) -> bool:
    if progress.needs_snapshot:
        return progress.state != SNAPSHOT
    if progress.next <= node.log.unreadable_to:
        return False
    if progress.state == PROBE:
        return not progress.probe_sent
    if node.learner_credit_bytes <= 0 and peer in node.configuration.learners:
        return False
    if progress.next > last or (peer in node.lagging and thrifty.may_wait(node, progress, last)):
        return False
    return not progress.is_paused(node.options.inflight_bytes_max, node.options.inflight_count_max)


def _due_news(node: RaftState) -> Index:
    """The commit index that followers should know by now; 0 while it may wait for the next append."""
    return node.log.committed if node.news_ticks >= node.options.commit_news_ticks else 0


def _wants_commit_news(progress: Progress, news: Index) -> bool:
    return progress.state == REPLICATE and progress.commit_sent < min(news, progress.match)


# To all followers.


def send_heartbeats(node: RaftState) -> None:
    """Heartbeats also carry the newest read round; the next heartbeat repeats a lost one."""
    node.heartbeat_elapsed = 0
    node.reads.sequence_sent = node.reads.sequence
    committed = node.log.committed
    for peer, progress in node.progress.items():
        if peer != node.id:
            commit = min(progress.match, committed)
            progress.commit_sent = max(progress.commit_sent, commit)
            node.messages.append(Heartbeat(node.id, peer, node.term, commit, node.reads.sequence))


def broadcast(node: RaftState, make: Callable[[NodeId], Message]) -> None:
    node.messages += [make(peer) for peer in node.progress if peer != node.id]


# To one follower.


def send_commit_news(node: RaftState, peer: NodeId, progress: Progress) -> None:
    commit = min(node.log.committed, progress.match)
    progress.commit_sent = commit
    node.messages.append(CommitNews(node.id, peer, node.term, commit))


def _send_append(node: RaftState, peer: NodeId, progress: Progress) -> bool:
    log = node.log
    prev_index = progress.next - 1
    if prev_index < log.base or progress.needs_snapshot:
        _start_snapshot(node, peer, progress)
        return False
    entries: list[Entry] = []
    if progress.next <= log.last_index:
        entries = log.entries(progress.next, log.last_index + 1, _append_bytes_max(node, peer))
        if not entries:
            return False
    last = prev_index + len(entries)
    size = sum([entry.size_bytes for entry in entries])
    node.messages.append(Append(node.id, peer, node.term, prev_index, log.term(prev_index), log.committed, entries))
    progress.commit_sent = max(progress.commit_sent, min(log.committed, last))
    progress.sent(last, size)
    if peer in node.configuration.learners:
        node.learner_credit_bytes -= size
    return True


def _append_bytes_max(node: RaftState, peer: NodeId) -> int:
    if peer in node.configuration.learners:
        return max(1, min(node.options.append_bytes_max, node.learner_credit_bytes))
    return node.options.append_bytes_max


def send_empty_append(node: RaftState, peer: NodeId, progress: Progress) -> None:
    """Finds out whether the appends so far have arrived; a refusal shows which were lost."""
    prev_index = progress.next - 1
    if prev_index < node.log.base:
        # The log was compacted meanwhile: a probe will find that a snapshot is needed.
        progress.become_probe()
        return
    node.messages.append(
        Append(node.id, peer, node.term, prev_index, node.log.term(prev_index), node.log.committed, [])
    )


# Snapshots.


def _start_snapshot(node: RaftState, peer: NodeId, progress: Progress) -> None:
    meta = node.log.stored.snapshot()
    if meta is None:
        node.snapshot_wanted = True
        progress.probe_sent = True
        return
    # The follower's log will begin where ours begins: the entries from there on are sent as well.
    base = node.log.base
    progress.become_snapshot(replace(meta, log_index=base, log_term=node.log.term(base)))
    send_chunk(node, peer, progress)


def send_chunk(node: RaftState, peer: NodeId, progress: Progress) -> None:
    meta = progress.snapshot
    assert meta is not None
    progress.snapshot_wait_ticks = 0
    progress.is_chunk_due = False
    try:
        data = _read_chunk(node, meta.index, progress.snapshot_offset)
    except NotLoadedError:
        progress.is_chunk_due = True
        return
    if data is None:
        # A newer snapshot took its place, or must: start again at the next heartbeat reply.
        progress.become_probe()
        progress.probe_sent = True
        return
    node.messages.append(SnapshotChunk(node.id, peer, node.term, meta, progress.snapshot_offset, data))


def send_loaded_chunks(node: RaftState) -> None:
    """A part of the log was loaded: sends the chunks that wait for one."""
    for peer, progress in node.progress.items():
        if progress.is_chunk_due and progress.state == SNAPSHOT:
            send_chunk(node, peer, progress)


def _read_chunk(node: RaftState, index: Index, offset: int) -> bytes | None:
    try:
        return node.log.stored.snapshot_chunk(index, offset, node.options.snapshot_chunk_bytes_max)
    except CorruptionError:
        node.snapshot_wanted = True
        return None
    except NotLoadedError:
        raise
    except StorageFailedError:
        return None
