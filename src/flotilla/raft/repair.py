"""A replica whose disk lost the bodies of some entries fetches them again before it votes or serves.

Place and term of each damaged entry are still known, and (index, term) names its content, so an intact
copy of any member will do. Meanwhile the node takes part in nothing: it stands for no election, gives no
vote, accepts no append, since each would rest on entries that it does not have. Others may be repairing too;
they still serve each other what is intact.

What the leader answers decides when nobody has a copy:
  absent     its log has another entry there, or none: by leader completeness ours never committed; it is dropped
  compacted  it lies before the leader's log: a snapshot comes instead; our intact suffix stays behind it
"""

from bisect import insort
from typing import TYPE_CHECKING

from flotilla.raft.follower import receive_chunk
from flotilla.raft.messages import (
    CONFIG,
    Append,
    CommitNews,
    Entry,
    Heartbeat,
    Message,
    Quiesce,
    RepairReply,
    RepairRequest,
    SnapshotChunk,
)
from flotilla.raft.roles import FOLLOWER, LEADER
from flotilla.types.ids import NO_NODE, Index

if TYPE_CHECKING:
    from flotilla.raft.node import RaftNode

#: How often a request is repeated while there is no answer.
_RETRY_TICKS = 3


def begin(node: "RaftNode") -> None:
    """Reading met damage: stop taking part, and ask."""
    for low, high in node.log.found_damage:
        _add(node, low, high)
    node.log.found_damage = []
    if node.role != FOLLOWER:
        node.become_follower(node.term, NO_NODE)
    node.wake()
    _ask(node)


def tick(node: "RaftNode") -> None:
    if node.election_elapsed % _RETRY_TICKS == 0:
        _ask(node)


def _add(node: "RaftNode", low: Index, high: Index) -> None:
    ranges: list[tuple[Index, Index]] = []
    for first, end in sorted([*node.damaged, (low, high)]):
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], end))
        else:
            ranges.append((first, end))
    node.damaged = ranges


def _ask(node: "RaftNode") -> None:
    """Everyone is asked: any intact copy will do, and only a leader's word counts for what nobody has."""
    low, high = node.damaged[0]
    for peer in node.configuration.members():
        if peer != node.id:
            node.messages.append(RepairRequest(node.id, peer, 0, low, high))


def serve(node: "RaftNode", request: RepairRequest) -> None:
    """Answers with what is intact here."""
    log = node.log
    leads = node.role == LEADER
    reply = RepairReply(node.id, request.sender, node.term if leads else 0, request.low)
    if request.low <= log.base:
        reply.compacted = leads
    elif request.low > log.last_index:
        reply.absent = leads
    else:
        end = min(request.high, log.last_index + 1)
        for low, high in node.damaged:
            if low <= request.low < high:
                return
            if request.low < low:
                end = min(end, low)
        reply.entries = log.entries(request.low, end, node.options.append_bytes_max)
    if reply.entries or reply.compacted or reply.absent:
        node.messages.append(reply)
    if reply.compacted:
        progress = node.progress.get(request.sender)
        if progress is not None:
            progress.needs_snapshot = True


def step(node: "RaftNode", message: Message) -> None:
    """The only messages a damaged replica listens to."""
    if isinstance(message, RepairReply):
        _on_reply(node, message)
    elif isinstance(message, SnapshotChunk) and message.term >= node.term:
        _follow(node, message)
        _on_snapshot_chunk(node, message)
    elif isinstance(message, Append | Heartbeat | CommitNews | Quiesce) and message.term >= node.term:
        _follow(node, message)


def _follow(node: "RaftNode", message: Message) -> None:
    """A newer term is always safe to adopt; who leads it is good to know."""
    if message.term > node.term:
        node.become_follower(message.term, message.sender)
    node.leader = message.sender


def _on_reply(node: "RaftNode", reply: RepairReply) -> None:
    low, _ = node.damaged[0]
    if reply.low != low:
        return
    speaks_for_term = reply.term >= node.term and reply.term > 0
    if reply.absent:
        if speaks_for_term:
            _drop_from(node, low)
    elif reply.compacted:
        # A leader's snapshot is on its way; see _on_snapshot_chunk.
        return
    else:
        _take_entries(node, reply.entries, authoritative=speaks_for_term)
    if node.damaged:
        if node.damaged[0][0] != low:
            _ask(node)
    else:
        node.election_elapsed = 0


def _take_entries(node: "RaftNode", entries: list[Entry], *, authoritative: bool) -> None:
    for entry in entries:
        if not node.damaged or entry.index != node.damaged[0][0]:
            return
        if entry.term != node.log.term(entry.index):
            if authoritative and entry.index > node.log.committed:
                _drop_from(node, entry.index)
            return
        low, high = node.damaged[0]
        node.repaired.append(entry)
        if entry.kind == CONFIG and entry.index > node.log.handed:
            insort(node.log.configuration_indexes, entry.index)
        if low + 1 < high:
            node.damaged[0] = (low + 1, high)
        else:
            node.damaged.pop(0)


def _drop_from(node: "RaftNode", index: Index) -> None:
    """A leader of at least our term has something else there: nothing from here on was ever committed."""
    if index <= node.log.committed:
        return
    node.log.truncate(index)
    node.truncate_from = index if node.truncate_from == 0 else min(index, node.truncate_from)
    node.repaired = [entry for entry in node.repaired if entry.index < index]
    node.damaged = [(low, min(high, index)) for low, high in node.damaged if low < index]


def _on_snapshot_chunk(node: "RaftNode", chunk: SnapshotChunk) -> None:
    """A snapshot from the leader mends all damage up to its beginning; the rest must have been mended before."""
    meta = chunk.meta
    log = node.log
    if node.repaired or any(high - 1 > meta.log_index for _, high in node.damaged):
        return
    keeps_suffix = log.matches(meta.log_index, meta.log_term)
    if not keeps_suffix and meta.log_index <= log.last_index:
        return
    snapshot = receive_chunk(node, chunk)
    if snapshot is None:
        return
    suffix: list[Entry] = []
    low = meta.log_index + 1
    while keeps_suffix and low <= log.last_index:
        suffix += log.entries(low, log.last_index + 1, node.options.append_bytes_max)
        if log.found_damage:
            begin(node)
            return
        low = suffix[-1].index + 1
    node.install(snapshot, suffix, chunk.sender)
