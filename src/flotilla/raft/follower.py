"""A follower's handling of its leader's messages: append, commit, install, become quiescent, read.

The reply to an append leaves only after a sync, so `accepted` always means durable. Where logs differ the
refusal carries a hint: the last index at which they may agree, judging by terms. With it the leader finds
the place in a few steps, not entry by entry.
"""

from collections.abc import Callable
from typing import Any

from flotilla.raft import election
from flotilla.raft.incoming_snapshot import IncomingSnapshot
from flotilla.raft.messages import (
    Append,
    AppendReply,
    CommitNews,
    Heartbeat,
    HeartbeatReply,
    Message,
    Quiesce,
    ReadReply,
    ReadState,
    Snapshot,
    SnapshotChunk,
    SnapshotReply,
    VerifyReply,
    VerifyRequest,
)
from flotilla.raft.state import RaftState
from flotilla.types.ids import Index, NodeId


def _on_append(node: RaftState, append: Append) -> None:
    election.leader_heard(node, append.sender)
    log = node.log
    if append.prev_index < log.committed:
        # An old message: entries committed here agree with every leader. The reply moves the leader on.
        _reply(node, append.sender, log.committed)
        return
    if not log.matches(append.prev_index, append.prev_term):
        hint = log.find_not_newer(append.prev_index, append.prev_term)
        node.after_sync.append(
            AppendReply(
                node.id,
                append.sender,
                node.term,
                index=append.prev_index,
                accepted=False,
                hint_index=hint,
                hint_term=log.term(hint),
            )
        )
        return
    for position, entry in enumerate(append.entries):
        if entry.index > log.last_index or log.term(entry.index) != entry.term:
            log.append(append.entries[position:])
            break
    last_new = append.prev_index + len(append.entries)
    node.agreed = max(node.agreed, last_new)
    log.commit_to(min(append.commit, last_new))
    _reply(node, append.sender, last_new)


def _reply(node: RaftState, leader: NodeId, index: Index) -> None:
    node.after_sync.append(AppendReply(node.id, leader, node.term, index=index, accepted=True))


def _commit_agreed(node: RaftState, leader: NodeId, commit: Index) -> None:
    """The leader says that `commit` is committed, and that this replica has it: it goes by an acknowledgement.

    A replica whose disk was put back may have forgotten that, and have other entries there that never committed. So it
    commits what a message of this leader has confirmed since its own start. For the rest it refuses at the end of its
    log, and the leader asks what it has (`VerifyRequest`).
    """
    log = node.log
    log.commit_to(min(commit, node.agreed))
    if log.committed < commit:
        hint = AppendReply(node.id, leader, node.term, index=min(commit, log.last_index), accepted=False)
        hint.hint_index, hint.hint_term = log.committed, log.term(log.committed)
        node.after_sync.append(hint)


def _on_heartbeat(node: RaftState, heartbeat: Heartbeat) -> None:
    election.leader_heard(node, heartbeat.sender)
    _commit_agreed(node, heartbeat.sender, heartbeat.commit)
    # The reply depends on the term alone: once that is durable, it need not wait for entries being written.
    out = node.messages if node.durable_term == node.term else node.after_sync
    out.append(HeartbeatReply(node.id, heartbeat.sender, node.term, heartbeat.read_id))


def _on_commit_news(node: RaftState, news: CommitNews) -> None:
    election.leader_heard(node, news.sender)
    node.log.commit_to(min(news.commit, node.agreed))


def _on_quiesce(node: RaftState, message: Quiesce) -> None:
    election.leader_heard(node, message.sender)
    if node.log.unreadable_to:
        return
    _commit_agreed(node, message.sender, message.commit)
    if node.log.committed < message.commit:
        return
    if message.sender not in node.down_peers and not node.reads.forwarded:
        node.quiescent = True


def _on_snapshot_chunk(node: RaftState, chunk: SnapshotChunk) -> None:
    election.leader_heard(node, chunk.sender)
    meta = chunk.meta
    log = node.log
    if meta.log_index <= log.committed or log.matches(meta.log_index, meta.log_term):
        # The log reaches the start of the snapshot's log already: appends can go on from there.
        log.commit_to(meta.log_index)
        node.incoming = None
        _reply(node, chunk.sender, log.committed)
        return
    snapshot = receive_chunk(node, chunk)
    if snapshot is not None:
        node.install(snapshot, [], chunk.sender)


def receive_chunk(node: RaftState, chunk: SnapshotChunk) -> Snapshot | None:
    """Adds a chunk to those received, and replies with the size so far. Returns the snapshot once it is complete."""
    meta = chunk.meta
    if meta.size_bytes > node.options.snapshot_bytes_max:
        return None
    incoming = node.incoming
    if incoming is None or incoming.meta != meta:
        incoming = node.incoming = IncomingSnapshot(chunk)
    incoming.add(chunk)
    if incoming.size_bytes < meta.size_bytes:
        term = node.term if chunk.term else 0
        offset = incoming.size_bytes
        node.messages.append(SnapshotReply(node.id, chunk.sender, term, index=meta.index, offset=offset))
        return None
    node.incoming = None
    return Snapshot(meta, tuple(incoming.pieces))


def _on_verify_request(node: RaftState, request: VerifyRequest) -> None:
    """The leader doubts that this replica has what it acknowledged. If it has not, its votes must not rely on it."""
    election.leader_heard(node, request.sender)
    log = node.log
    holds = request.index <= log.committed or (
        request.index <= log.durable and log.matches(request.index, request.index_term)
    )
    if holds:
        node.agreed = max(node.agreed, request.index)
    else:
        node.forgotten = max(node.forgotten, (request.index_term, request.index))
    reply = VerifyReply(node.id, request.sender, node.term, request.verify_id, holds, log.last_index)
    node.after_sync.append(reply)


def _on_read_reply(node: RaftState, reply: ReadReply) -> None:
    if node.reads.forwarded.pop(reply.read_id, True) is None:
        node.read_states.append(ReadState(reply.read_id, reply.index))


STEPS: dict[type[Message], Callable[[RaftState, Any], None]] = {
    Append: _on_append,
    Heartbeat: _on_heartbeat,
    CommitNews: _on_commit_news,
    Quiesce: _on_quiesce,
    SnapshotChunk: _on_snapshot_chunk,
    ReadReply: _on_read_reply,
    VerifyRequest: _on_verify_request,
}


def _on_leader_message(node: RaftState, message: Message) -> None:
    """Another candidate won this term: follow it, and handle the message as a follower."""
    node.become_follower(message.term, message.sender)
    STEPS[type(message)](node, message)


#: Messages of a leader that end a candidacy.
CANDIDATE_STEPS: dict[type[Message], Callable[[RaftState, Any], None]] = {
    Append: _on_leader_message,
    Heartbeat: _on_leader_message,
    SnapshotChunk: _on_leader_message,
}
