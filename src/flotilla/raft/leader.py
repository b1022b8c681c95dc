"""A leader's handling of ticks, replies and requests: quorum checks, commits, reads, transfers, quiescence.

An entry commits when a quorum has it durably *and* it is of this term; the entry that opens the term makes
older ones commit with it (paper 5.4.2). `proposals.py` decides what goes into the log, `replication.py`
what is sent to the followers.
"""

from collections.abc import Callable
from typing import Any

from flotilla.raft import farewell, proposals, quorum, reasons, replication, thrifty
from flotilla.raft.messages import (
    AppendReply,
    CommitNews,
    HeartbeatReply,
    Message,
    Proposal,
    Quiesce,
    ReadReply,
    ReadRequest,
    ReadState,
    SnapshotReply,
    TimeoutNow,
    VerifyReply,
    VerifyRequest,
)
from flotilla.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress
from flotilla.raft.roles import LEADER
from flotilla.raft.state import RaftState
from flotilla.types.errors import InvalidArgumentError, NotLeaderError, OverloadedError
from flotilla.types.ids import NO_NODE, NodeId


def begin(node: RaftState) -> None:
    """The election is won: the progress of the others is unknown, and an entry of the own term must commit first."""
    node.become_leader()
    first_own = node.log.last_index + 1
    node.progress = {member: Progress(first_own) for member in proposals.tracked_members(node)}
    farewell.take_over(node)
    own_log_written(node)
    proposals.open_term(node)


# Ticks.


def tick(node: RaftState) -> None:
    options = node.options
    node.idle_ticks += 1
    node.heartbeat_elapsed += 1
    node.news_ticks += 1
    node.lagging = thrifty.choose_lagging(node)
    if node.election_elapsed >= options.election_ticks:
        node.election_elapsed = 0
        node.transferee = NO_NODE
        if options.check_quorum and not _heard_quorum(node):
            # The vote of this term stays: a node that steps down must not vote again in it.
            node.become_follower(node.term, NO_NODE, reasons.NO_QUORUM)
            return
    farewell.tick(node)
    for peer, progress in node.progress.items():
        if progress.state == SNAPSHOT:
            progress.snapshot_wait_ticks += 1
            if progress.snapshot_wait_ticks >= options.election_ticks:
                replication.send_chunk(node, peer, progress)
    if node.heartbeat_elapsed >= options.heartbeat_ticks:
        if _can_quiesce(node):
            replication.broadcast(node, lambda peer: Quiesce(node.id, peer, node.term, node.log.committed))
            node.quiescent = True
        else:
            replication.send_heartbeats(node)


def _heard_quorum(node: RaftState) -> bool:
    active = {peer for peer, progress in node.progress.items() if progress.recent_active or peer == node.id}
    for progress in node.progress.values():
        progress.recent_active = False
    return quorum.has_quorum(node.configuration, active)


def _can_quiesce(node: RaftState) -> bool:
    """Nothing is pending and every member has every entry, so silence means the same as a heartbeat."""
    log = node.log
    if node.options.quiesce_ticks == 0 or node.idle_ticks < node.options.quiesce_ticks:
        return False
    if log.handed != log.last_index or node.reads.count() or node.transferee or node.configuration.is_joint:
        return False
    if node.departing:
        return False
    return all(
        peer == node.id or (progress.match == log.last_index and progress.recent_active and peer not in node.down_peers)
        for peer, progress in node.progress.items()
    )


def peer_down(node: RaftState, peer: NodeId) -> None:
    progress = node.progress.get(peer)
    if progress is None:
        return
    node.wake()
    node.lagging = frozenset()
    progress.recent_active = False
    if progress.state == REPLICATE:
        progress.become_probe()


def peer_up(node: RaftState, peer: NodeId) -> None:
    progress = node.progress.get(peer)
    if progress is not None:
        node.wake()
        progress.probe_sent = False


# Replies.


def _on_append_reply(node: RaftState, reply: AppendReply) -> None:
    progress = node.progress.get(reply.sender)
    if progress is None:
        farewell.replied(node, reply)
        return
    progress.recent_active = True
    if not reply.accepted:
        hint = node.log.find_not_newer(reply.hint_index, reply.hint_term)
        progress.refused(reply.index, hint)
        if reply.index <= progress.match:
            _verify(node, reply.sender, progress)
        return
    if reply.index > node.log.last_index:
        return
    news = progress.accepted(reply.index)
    if progress.state == PROBE or (progress.state == SNAPSHOT and progress.match >= node.log.base):
        progress.become_replicate()
    elif progress.snapshot is not None and reply.index >= progress.snapshot.log_index:
        progress.become_probe()
    if news:
        node.idle_ticks = 0
        if reply.index > node.log.committed:
            _advance_commit(node)
    if reply.sender == node.transferee and progress.match == node.log.last_index:
        node.messages.append(TimeoutNow(node.id, reply.sender, node.term, node.leadership.transfer))


def _on_heartbeat_reply(node: RaftState, reply: HeartbeatReply) -> None:
    progress = node.progress.get(reply.sender)
    if progress is None:
        return
    progress.recent_active = True
    progress.probe_sent = False
    if progress.state == REPLICATE and progress.match < node.log.last_index:
        replication.send_empty_append(node, reply.sender, progress)
    if progress.verify_id:
        _verify(node, reply.sender, progress)
    if reply.read_id:
        node.reads.acknowledge(reply.sender, reply.read_id)
        _confirm_reads(node)


def _on_snapshot_reply(node: RaftState, reply: SnapshotReply) -> None:
    progress = node.progress.get(reply.sender)
    if progress is None:
        return
    progress.recent_active = True
    meta = progress.snapshot
    if meta is None or meta.index != reply.index:
        return
    node.idle_ticks = 0
    if reply.offset != progress.snapshot_offset or reply.offset == 0:
        progress.snapshot_offset = reply.offset
        replication.send_chunk(node, reply.sender, progress)


def _verify(node: RaftState, peer: NodeId, progress: Progress) -> None:
    """Asks a replica that refused at or below its own acknowledgement whether it still has it.

    A refusal alone is no proof: it may be older than the acknowledgement. The reply to this id is not.
    """
    if progress.match < max(node.log.base, 1):
        return
    if progress.verify_id == 0:
        progress.verify_id = node.reads.fresh_id()
    index = progress.match
    node.messages.append(VerifyRequest(node.id, peer, node.term, index, node.log.term(index), progress.verify_id))


def _on_verify_reply(node: RaftState, reply: VerifyReply) -> None:
    progress = node.progress.get(reply.sender)
    if progress is None or reply.verify_id != progress.verify_id:
        return
    progress.recent_active = True
    progress.verify_id = 0
    if reply.holds:
        # It may have asked because it waits to commit what it has; see `follower._commit_agreed`.
        replication.send_commit_news(node, reply.sender, progress)
    else:
        node.forgotten_counts[reply.sender] = node.forgotten_counts.get(reply.sender, 0) + 1
        if node.configuration.is_voter(reply.sender):
            node.forgetful |= {reply.sender}
        progress.forgotten(min(reply.last_index, node.log.last_index))


def _on_read_request(node: RaftState, request: ReadRequest) -> None:
    if node.reads.count() < node.options.read_count_max:
        _add_read(node, request.sender, request.read_id)


def _on_proposal(node: RaftState, proposal: Proposal) -> None:
    proposals.propose_unanswered(node, proposal.data)


def own_log_written(node: RaftState) -> None:
    """The own copy counts like any other: when it is durable."""
    progress = node.progress.get(node.id)
    if progress is not None and progress.accepted(node.log.durable):
        _advance_commit(node)


def _advance_commit(node: RaftState) -> None:
    match = {peer: progress.match for peer, progress in node.progress.items()}
    index = min(quorum.committed_index(node.configuration, match), node.log.last_index)
    if index <= node.log.committed or node.log.term(index) != node.term:
        return
    node.log.commit_to(index)
    while node.uncommitted and node.uncommitted[0][0] <= index:
        node.uncommitted_bytes -= node.uncommitted.popleft()[1]
    deferred, node.reads.deferred = node.reads.deferred, []
    for asking, read_id in deferred:
        _add_read(node, asking, read_id)


# Reads.


def read(node: RaftState) -> int:
    if node.role != LEADER and node.leader == NO_NODE:
        raise NotLeaderError()
    if node.reads.count() >= node.options.read_count_max:
        raise OverloadedError(f"too many pending reads: the limit is {node.options.read_count_max}")
    read_id = node.reads.fresh_id()
    node.wake()
    if node.role == LEADER:
        _add_read(node, NO_NODE, read_id)
    else:
        node.reads.forwarded[read_id] = None
        node.messages.append(ReadRequest(node.id, node.leader, node.term, read_id))
    return read_id


def _add_read(node: RaftState, asking: NodeId, read_id: int) -> None:
    node.idle_ticks = 0
    if node.log.term(node.log.committed) != node.term:
        node.reads.deferred.append((asking, read_id))
        return
    node.reads.add(node.log.committed, asking, read_id)
    _confirm_reads(node)


def _confirm_reads(node: RaftState) -> None:
    acknowledged = {**node.reads.acknowledged, node.id: node.reads.sequence}
    confirmed = quorum.committed_index(node.configuration, acknowledged)
    for asking, read_id, index in node.reads.take_confirmed(confirmed):
        if asking == NO_NODE:
            node.read_states.append(ReadState(read_id, index))
        else:
            # The follower can serve the read only when it has every entry and knows the commit index.
            node.lagging = node.lagging - {asking}
            progress = node.progress.get(asking)
            if progress is not None and progress.commit_sent < min(node.log.committed, progress.match):
                replication.send_commit_news(node, asking, progress)
            node.messages.append(ReadReply(node.id, asking, node.term, read_id, index))


# Transfer of leadership.


def transfer(node: RaftState, to: NodeId, reason: int) -> None:
    if node.role != LEADER:
        raise NotLeaderError(node.leader)
    if to not in node.configuration.voters:
        raise InvalidArgumentError(f"node {to} is not a voter")
    if to == node.id or to == node.transferee:
        return
    node.wake()
    node.lagging = frozenset()
    node.transferee = to
    node.leadership.transfer = reason
    node.election_elapsed = 0
    progress = node.progress[to]
    progress.probe_sent = False
    if progress.match == node.log.last_index:
        node.messages.append(TimeoutNow(node.id, to, node.term, reason))


def configuration_committed(node: RaftState) -> None:
    """A leader leads until the configuration that removes it has committed, then transfers to the best voter."""
    index, configuration = node.log.configurations[-1]
    if configuration.is_voter(node.id) or index > node.log.committed:
        return
    heir = max((node.progress[voter].match, voter) for voter in configuration.voters)[1]
    commit = node.log.committed
    replication.broadcast(
        node, lambda peer: CommitNews(node.id, peer, node.term, min(commit, node.progress[peer].match))
    )
    node.messages.append(TimeoutNow(node.id, heir, node.term, reasons.REMOVED))
    node.become_follower(node.term, NO_NODE, reasons.REMOVED)


STEPS: dict[type[Message], Callable[[RaftState, Any], None]] = {
    AppendReply: _on_append_reply,
    HeartbeatReply: _on_heartbeat_reply,
    SnapshotReply: _on_snapshot_reply,
    VerifyReply: _on_verify_reply,
    ReadRequest: _on_read_request,
    Proposal: _on_proposal,
}
