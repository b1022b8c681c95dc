"""Repair of a log: a replica whose disk lost the data of some entries fetches them before it votes or serves.

Index and term of each damaged entry are still known, and (index, term) identifies its content, so an intact
copy of any member will do. Meanwhile the node takes no part in consensus: it neither stands for election, nor
votes, nor accepts appends, since each would depend on entries that it does not have. Other members may be
repairing too; they still serve each other their intact entries.

Where no member has a copy, the leader's reply decides:
  absent     its log has another entry there, or none: by leader completeness ours never committed; it is dropped
  compacted  it lies before the leader's log: a snapshot comes instead; our intact suffix stays after it

A replica whose own snapshot is unreadable has lost the state before its log. That is the range from 0 on,
and only a snapshot of the leader repairs it.
"""

from dataclasses import replace

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
    Snapshot,
    SnapshotChunk,
)
from flotilla.raft.progress import SNAPSHOT
from flotilla.raft.roles import FOLLOWER, LEADER
from flotilla.raft.state import RaftState
from flotilla.types.ids import NO_NODE, Index

#: Interval between requests while there is no reply.
_RETRY_TICKS = 3
#: Bounds the requests to one peer at a time.
_RANGES_MAX = 8


def begin(node: RaftState) -> None:
    """A read found damage: stop taking part, and request the entries."""
    for low, high in node.log.found_damage:
        node.damaged = _joined([*node.damaged, (low, high)])
    node.log.found_damage = []
    if node.role != FOLLOWER:
        node.become_follower(node.term, NO_NODE)
    node.wake()
    _ask(node)


def tick(node: RaftState) -> None:
    if node.election_elapsed % _RETRY_TICKS == 0:
        _ask(node)


def _joined(ranges: list[tuple[Index, Index]]) -> list[tuple[Index, Index]]:
    joined: list[tuple[Index, Index]] = []
    for low, high in sorted(ranges):
        # The lost state stays apart: entries do not repair it.
        if joined and low < joined[-1][1] and joined[-1][0] > 0:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _ask(node: RaftState) -> None:
    """Asks every member: any intact copy will do, and only the leader's reply counts for entries without a copy."""
    for peer in node.configuration.members():
        if peer != node.id:
            for low, high in node.damaged[:_RANGES_MAX]:
                node.messages.append(RepairRequest(node.id, peer, 0, low, high))


def serve(node: RaftState, request: RepairRequest) -> None:
    """Replies with the intact entries of the range."""
    log = node.log
    leads = node.role == LEADER
    reply = RepairReply(node.id, request.sender, node.term if leads else 0, request.low)
    low, end = request.low, min(request.high, log.last_index + 1)
    if low <= log.base:
        reply.compacted = leads
        low = log.base + 1
        if leads:
            _offer_snapshot(node, request)
    elif low > log.last_index:
        reply.absent = leads
    for damaged_low, damaged_high in node.damaged:
        if low < damaged_high:
            end = min(end, max(damaged_low, low))
            break
    if low < end:
        reply.entries = log.entries(low, end, node.options.append_bytes_max)
    if reply.entries or reply.compacted or reply.absent:
        node.messages.append(reply)


def _offer_snapshot(node: RaftState, request: RepairRequest) -> None:
    """Entries before our log come with a snapshot. A lost state needs one that reaches the log of the sender."""
    meta = node.log.stored.snapshot()
    progress = node.progress.get(request.sender)
    if meta is None or (request.low == 0 and meta.index < request.high - 1):
        node.snapshot_wanted = True
    elif progress is not None and progress.state != SNAPSHOT:
        progress.needs_snapshot = True


def step(node: RaftState, message: Message) -> None:
    """Handles the only messages that a damaged replica accepts."""
    if not isinstance(message, RepairReply) and message.sender not in node.configuration.members():
        low, high = node.damaged[0]
        node.messages.append(RepairRequest(node.id, message.sender, 0, low, high))
    if isinstance(message, RepairReply):
        _on_reply(node, message)
    elif isinstance(message, SnapshotChunk) and message.term >= node.term:
        _follow(node, message)
        _on_snapshot_chunk(node, message)
    elif isinstance(message, Append | Heartbeat | CommitNews | Quiesce) and message.term >= node.term:
        _follow(node, message)


def _follow(node: RaftState, message: Message) -> None:
    """Adopts a newer term, which is always safe, and notes its leader."""
    if message.term > node.term:
        node.become_follower(message.term, message.sender)
    node.leader = message.sender


def _on_reply(node: RaftState, reply: RepairReply) -> None:
    speaks_for_term = reply.term >= node.term and reply.term > 0
    if reply.absent and speaks_for_term and _is_news(node, reply):
        _drop_from(node, reply.low)
    for entry in reply.entries:
        if not _mend(node, entry, authoritative=speaks_for_term):
            break
    if not node.damaged:
        node.election_elapsed = 0


def _is_news(node: RaftState, reply: RepairReply) -> bool:
    """Whether the reply concerns current damage. An entry of the leader's own term is in its log: the reply is old."""
    is_damaged = any(0 < low == reply.low for low, _ in node.damaged)
    return is_damaged and node.log.term(reply.low) < reply.term


def _mend(node: RaftState, entry: Entry, *, authoritative: bool) -> bool:
    """Takes an entry whose data is lost here. False: the entry there is another one, so the rest does not fit."""
    found = [damage for damage in node.damaged if 0 < damage[0] <= entry.index < damage[1]]
    if not found:
        return True
    if entry.term != node.log.term(entry.index):
        if authoritative:
            _drop_from(node, entry.index)
        return False
    low, high = found[0]
    place = node.damaged.index(found[0])
    rest = [(low, entry.index), (entry.index + 1, high)]
    node.damaged[place : place + 1] = [part for part in rest if part[0] < part[1]]
    node.repaired.append(entry)
    if entry.kind == CONFIG:
        node.log.add_configuration(entry)
    return True


def _drop_from(node: RaftState, index: Index) -> None:
    """A leader of at least our term has another entry at `index`: nothing from here on was ever committed."""
    if index <= node.log.committed:
        return
    node.log.truncate(index)
    node.truncate_from = index if node.truncate_from == 0 else min(index, node.truncate_from)
    node.repaired = [entry for entry in node.repaired if entry.index < index]
    node.damaged = [(low, min(high, index)) for low, high in node.damaged if low < index]


def _on_snapshot_chunk(node: RaftState, chunk: SnapshotChunk) -> None:
    """A snapshot of the leader repairs all damage up to its log; damage after that must be repaired before."""
    log = node.log
    meta = chunk.meta
    if meta.log_index < log.base <= meta.index:
        # Our log begins later than the leader's and stays; only the state is taken.
        meta = replace(meta, log_index=log.base, log_term=log.term(log.base))
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
    node.install(Snapshot(meta, snapshot.data), suffix, chunk.sender)
