"""What a leader does: propose, replicate, commit, confirm reads, hand over, fall asleep.

Appends are made when a Ready is taken, not when a proposal comes in: all proposals of a turn travel in
one message per follower. An entry commits when a quorum has it durably *and* it is of this term; the
entry that opens the term makes older ones commit with it (paper 5.4.2).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flotilla.raft import quorum
from flotilla.raft.configuration import encode_configuration
from flotilla.raft.membership import ConfigurationChange, apply_change, leave_joint
from flotilla.raft.messages import (
    CONFIG,
    DATA,
    NOOP,
    Append,
    AppendReply,
    CommitNews,
    Entry,
    Heartbeat,
    HeartbeatReply,
    Message,
    Proposal,
    Quiesce,
    ReadReply,
    ReadRequest,
    ReadState,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
)
from flotilla.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress
from flotilla.raft.roles import LEADER
from flotilla.types.errors import (
    ConfigurationChangeError,
    CorruptionError,
    FlotillaError,
    InvalidArgumentError,
    NotLeaderError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, Index, NodeId

if TYPE_CHECKING:
    from flotilla.raft.node import RaftNode


def begin(node: "RaftNode") -> None:
    """The election is won: nothing is known of the others, and an entry of the own term must commit first."""
    first_own = node.log.last_index + 1
    node.progress = {member: Progress(first_own) for member in _tracked(node)}
    own_log_written(node)
    node.log.append([Entry(first_own, node.term, NOOP, b"")])
    # Until that entry is applied a change of an earlier leader may still be under way.
    node.pending_configuration_index = first_own


def _tracked(node: "RaftNode") -> tuple[NodeId, ...]:
    members = node.configuration.members()
    return members if node.id in members else tuple(sorted((*members, node.id)))


# Inputs of the caller.


def _require_leading(node: "RaftNode") -> None:
    if node.role != LEADER:
        raise NotLeaderError(node.leader)
    if node.transferee != NO_NODE:
        raise UnavailableError(f"leadership is being handed to node {node.transferee}")


def propose(node: "RaftNode", data: bytes | memoryview) -> Index:
    _require_leading(node)
    entry = Entry(node.log.last_index + 1, node.term, DATA, data)
    size = entry.size_bytes
    if node.uncommitted and (
        len(node.uncommitted) >= node.options.proposal_count_max
        or node.uncommitted_bytes + size > node.options.proposal_bytes_max
    ):
        raise OverloadedError(f"{len(node.uncommitted)} proposals, {node.uncommitted_bytes} bytes, wait for a quorum")
    node.wake()
    node.idle_ticks = 0
    node.log.append([entry])
    node.uncommitted.append((entry.index, size))
    node.uncommitted_bytes += size
    return entry.index


def propose_change(node: "RaftNode", change: ConfigurationChange) -> Index:
    _require_leading(node)
    if node.pending_configuration_index > node.log.handed:
        raise ConfigurationChangeError("a membership change or the term's first entry has not been applied yet")
    configuration = apply_change(node.configuration, change)
    node.wake()
    return _append_configuration(node, encode_configuration(configuration))


def _append_configuration(node: "RaftNode", data: bytes) -> Index:
    """In force from here on, for this leader at once: its own commit needs the new quorums already."""
    entry = Entry(node.log.last_index + 1, node.term, CONFIG, data)
    node.idle_ticks = 0
    node.log.append([entry])
    node.pending_configuration_index = entry.index
    known = node.progress
    node.progress = {member: known.get(member) or _newcomer(entry.index) for member in _tracked(node)}
    if node.transferee != NO_NODE and not node.configuration.is_voter(node.transferee):
        node.transferee = NO_NODE
    return entry.index


def read(node: "RaftNode") -> int:
    if node.role != LEADER and node.leader == NO_NODE:
        raise NotLeaderError()
    if node.reads.count() >= node.options.read_count_max:
        raise OverloadedError("too many reads wait for a quorum")
    read_id = node.reads.fresh_id()
    node.wake()
    if node.role == LEADER:
        _add_read(node, NO_NODE, read_id)
    else:
        node.reads.forwarded[read_id] = None
        node.messages.append(ReadRequest(node.id, node.leader, node.term, read_id))
    return read_id


def transfer(node: "RaftNode", to: NodeId) -> None:
    if node.role != LEADER:
        raise NotLeaderError(node.leader)
    if to not in node.configuration.voters:
        raise InvalidArgumentError(f"node {to} is not a voter")
    if to == node.id or to == node.transferee:
        return
    node.wake()
    node.transferee = to
    node.election_elapsed = 0
    progress = node.progress[to]
    progress.probe_sent = False
    if progress.match == node.log.last_index:
        node.messages.append(TimeoutNow(node.id, to, node.term))


# Time.


def tick(node: "RaftNode") -> None:
    options = node.options
    node.idle_ticks += 1
    node.heartbeat_elapsed += 1
    node.news_ticks += 1
    if node.election_elapsed >= options.election_ticks:
        node.election_elapsed = 0
        node.transferee = NO_NODE
        if options.check_quorum and not _heard_quorum(node):
            # The vote of this term stays as it is: stepping down is no licence to vote again.
            node.become_follower(node.term, NO_NODE)
            return
    for peer, progress in node.progress.items():
        if progress.state == SNAPSHOT:
            progress.snapshot_wait_ticks += 1
            if progress.snapshot_wait_ticks >= options.election_ticks:
                _send_chunk(node, peer, progress)
    if node.heartbeat_elapsed >= options.heartbeat_ticks:
        if _can_sleep(node):
            _broadcast(node, lambda peer: Quiesce(node.id, peer, node.term, node.log.committed))
            node.quiescent = True
        else:
            _send_heartbeats(node)


def _heard_quorum(node: "RaftNode") -> bool:
    active = {peer for peer, progress in node.progress.items() if progress.recent_active or peer == node.id}
    for progress in node.progress.values():
        progress.recent_active = False
    return quorum.has_quorum(node.configuration, active)


def _send_heartbeats(node: "RaftNode") -> None:
    """Also carries the newest round of asking for reads: a lost round is repeated by the next heartbeat."""
    node.heartbeat_elapsed = 0
    node.reads.sequence_sent = node.reads.sequence
    committed = node.log.committed
    for peer, progress in node.progress.items():
        if peer != node.id:
            commit = min(progress.match, committed)
            progress.commit_sent = max(progress.commit_sent, commit)
            node.messages.append(Heartbeat(node.id, peer, node.term, commit, node.reads.sequence))


def _broadcast(node: "RaftNode", make: Callable[[NodeId], Message]) -> None:
    node.messages += [make(peer) for peer in node.progress if peer != node.id]


def _can_sleep(node: "RaftNode") -> bool:
    """Nothing is under way and everybody has everything, so silence says the same as a heartbeat."""
    log = node.log
    if node.options.quiesce_ticks == 0 or node.idle_ticks < node.options.quiesce_ticks:
        return False
    if log.handed != log.last_index or node.reads.count() or node.transferee or node.configuration.is_joint:
        return False
    return all(
        peer == node.id or (progress.match == log.last_index and progress.recent_active and peer not in node.down_peers)
        for peer, progress in node.progress.items()
    )


def woken(node: "RaftNode") -> None:
    node.heartbeat_elapsed = node.options.heartbeat_ticks
    for progress in node.progress.values():
        progress.recent_active = True


def peer_down(node: "RaftNode", peer: NodeId) -> None:
    progress = node.progress.get(peer)
    if progress is None:
        return
    node.wake()
    progress.recent_active = False
    if progress.state == REPLICATE:
        progress.become_probe()


def peer_up(node: "RaftNode", peer: NodeId) -> None:
    progress = node.progress.get(peer)
    if progress is not None:
        node.wake()
        progress.probe_sent = False


# Sending.


def has_work(node: "RaftNode") -> bool:
    if node.reads.sequence > node.reads.sequence_sent or _should_leave_joint(node):
        return True
    last, committed = node.log.last_index, node.log.committed
    return any(
        peer != node.id and (_wants_append(node, progress, last) or _wants_commit_news(node, progress, committed))
        for peer, progress in node.progress.items()
    )


def _wants_append(node: "RaftNode", progress: Progress, last: Index) -> bool:
    if progress.needs_snapshot:
        return progress.state != SNAPSHOT
    if progress.state == PROBE:
        return not progress.probe_sent
    return progress.next <= last and not progress.is_paused(
        node.options.inflight_bytes_max, node.options.inflight_count_max
    )


def _wants_commit_news(node: "RaftNode", progress: Progress, committed: Index) -> bool:
    return (
        node.news_ticks >= node.options.commit_news_ticks
        and progress.state == REPLICATE
        and progress.commit_sent < min(committed, progress.match)
    )


def flush(node: "RaftNode") -> None:
    """Called when a Ready is taken: everything the followers should have by now."""
    if _should_leave_joint(node):
        _append_configuration(node, encode_configuration(leave_joint(node.configuration)))
    if node.reads.sequence > node.reads.sequence_sent:
        _send_heartbeats(node)
    last = node.log.last_index
    for peer, progress in node.progress.items():
        if peer == node.id:
            continue
        while _wants_append(node, progress, last):
            if not _send_append(node, peer, progress):
                break
        if _wants_commit_news(node, progress, node.log.committed):
            _send_commit_news(node, peer, progress)
    node.news_ticks = 0


def _send_commit_news(node: "RaftNode", peer: NodeId, progress: Progress) -> None:
    commit = min(node.log.committed, progress.match)
    progress.commit_sent = commit
    node.messages.append(CommitNews(node.id, peer, node.term, commit))


def _send_append(node: "RaftNode", peer: NodeId, progress: Progress) -> bool:
    log = node.log
    prev_index = progress.next - 1
    if prev_index < log.base or progress.needs_snapshot:
        _start_snapshot(node, peer, progress)
        return False
    entries: list[Entry] = []
    if progress.next <= log.last_index:
        entries = log.entries(progress.next, log.last_index + 1, node.options.append_bytes_max)
        if not entries:
            return False
    last = prev_index + len(entries)
    size = sum(entry.size_bytes for entry in entries)
    node.messages.append(Append(node.id, peer, node.term, prev_index, log.term(prev_index), log.committed, entries))
    progress.commit_sent = max(progress.commit_sent, min(log.committed, last))
    progress.sent(last, size)
    return True


def _send_empty_append(node: "RaftNode", peer: NodeId, progress: Progress) -> None:
    """Asks whether what was sent so far has arrived; a refusal shows what was lost."""
    prev_index = progress.next - 1
    if prev_index < node.log.base:
        # The log moved on meanwhile: find out by probing that a snapshot is needed.
        progress.become_probe()
        return
    node.messages.append(
        Append(node.id, peer, node.term, prev_index, node.log.term(prev_index), node.log.committed, [])
    )


def _start_snapshot(node: "RaftNode", peer: NodeId, progress: Progress) -> None:
    meta = node.log.stored.snapshot()
    if meta is None:
        node.snapshot_wanted = True
        progress.probe_sent = True
        return
    # The log that still exists goes along, so it begins where ours begins.
    base = node.log.base
    progress.become_snapshot(replace(meta, log_index=base, log_term=node.log.term(base)))
    _send_chunk(node, peer, progress)


def _send_chunk(node: "RaftNode", peer: NodeId, progress: Progress) -> None:
    meta = progress.snapshot
    assert meta is not None
    progress.snapshot_wait_ticks = 0
    data = _read_chunk(node, meta.index, progress.snapshot_offset)
    if data is None:
        # A newer snapshot took its place, or must: begin again at the next heartbeat's answer.
        progress.become_probe()
        progress.probe_sent = True
        return
    node.messages.append(SnapshotChunk(node.id, peer, node.term, meta, progress.snapshot_offset, data))


def _read_chunk(node: "RaftNode", index: Index, offset: int) -> bytes | None:
    try:
        return node.log.stored.snapshot_chunk(index, offset, node.options.snapshot_chunk_bytes_max)
    except CorruptionError:
        node.snapshot_wanted = True
        return None


# Answers.


def _on_append_reply(node: "RaftNode", reply: AppendReply) -> None:
    progress = node.progress.get(reply.sender)
    if progress is None:
        return
    progress.recent_active = True
    if not reply.accepted:
        hint = node.log.find_not_newer(reply.hint_index, reply.hint_term)
        progress.refused(reply.index, hint)
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
        _advance_commit(node)
    if reply.sender == node.transferee and progress.match == node.log.last_index:
        node.messages.append(TimeoutNow(node.id, reply.sender, node.term))


def _on_heartbeat_reply(node: "RaftNode", reply: HeartbeatReply) -> None:
    progress = node.progress.get(reply.sender)
    if progress is None:
        return
    progress.recent_active = True
    progress.probe_sent = False
    if progress.state == REPLICATE and progress.match < node.log.last_index:
        _send_empty_append(node, reply.sender, progress)
    if reply.read_id:
        node.reads.acknowledge(reply.sender, reply.read_id)
        _confirm_reads(node)


def _on_snapshot_reply(node: "RaftNode", reply: SnapshotReply) -> None:
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
        _send_chunk(node, reply.sender, progress)


def _on_read_request(node: "RaftNode", request: ReadRequest) -> None:
    if node.reads.count() < node.options.read_count_max:
        _add_read(node, request.sender, request.read_id)


def propose_unanswered(node: "RaftNode", data: bytes | memoryview) -> None:
    """A refused proposal is as good as a lost message: who cares sends it again."""
    with suppress(FlotillaError):
        propose(node, data)


def _on_proposal(node: "RaftNode", proposal: Proposal) -> None:
    propose_unanswered(node, proposal.data)


def own_log_written(node: "RaftNode") -> None:
    """The own copy counts like any other: when it is durable."""
    progress = node.progress.get(node.id)
    if progress is not None and progress.accepted(node.log.durable):
        _advance_commit(node)


def _advance_commit(node: "RaftNode") -> None:
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


def _add_read(node: "RaftNode", asking: NodeId, read_id: int) -> None:
    node.idle_ticks = 0
    if node.log.term(node.log.committed) != node.term:
        node.reads.deferred.append((asking, read_id))
        return
    node.reads.add(node.log.committed, asking, read_id)
    _confirm_reads(node)


def _confirm_reads(node: "RaftNode") -> None:
    acknowledged = {**node.reads.acknowledged, node.id: node.reads.sequence}
    confirmed = quorum.committed_index(node.configuration, acknowledged)
    for asking, read_id, index in node.reads.take_confirmed(confirmed):
        if asking == NO_NODE:
            node.read_states.append(ReadState(read_id, index))
        else:
            # The asker can serve the read only when it knows of the commit.
            progress = node.progress.get(asking)
            if progress is not None and progress.commit_sent < min(node.log.committed, progress.match):
                _send_commit_news(node, asking, progress)
            node.messages.append(ReadReply(node.id, asking, node.term, read_id, index))


# Membership.


def _should_leave_joint(node: "RaftNode") -> bool:
    configuration = node.configuration
    return configuration.is_joint and configuration.auto_leave and node.pending_configuration_index <= node.log.handed


def configuration_committed(node: "RaftNode") -> None:
    """A leader leads until the configuration that removes it has committed, then hands over to the best voter."""
    index, configuration = node.log.configurations[-1]
    if configuration.is_voter(node.id) or index > node.log.committed:
        return
    heir = max((node.progress[voter].match, voter) for voter in configuration.voters)[1]
    commit = node.log.committed
    _broadcast(node, lambda peer: CommitNews(node.id, peer, node.term, min(commit, node.progress[peer].match)))
    node.messages.append(TimeoutNow(node.id, heir, node.term))
    node.become_follower(node.term, NO_NODE)


def _newcomer(index: Index) -> Progress:
    progress = Progress(index)
    # A fresh member must not look like a dead one at the next quorum check.
    progress.recent_active = True
    return progress


STEPS: dict[type[Message], Callable[["RaftNode", Any], None]] = {
    AppendReply: _on_append_reply,
    HeartbeatReply: _on_heartbeat_reply,
    SnapshotReply: _on_snapshot_reply,
    ReadRequest: _on_read_request,
    Proposal: _on_proposal,
}
