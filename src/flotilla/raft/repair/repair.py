"""Repair: a replica whose disk lost the data of some entries fetches them again before it serves.

Index and term of each damaged entry are still known, and (index, term) identifies its content, so an intact copy of
any member will do. Meanwhile the replica neither stands for election nor accepts appends, since both depend on entries
that it does not have. It does vote: a vote depends on term, last index and last term alone, and without its vote the
only intact replica might never lead. Other members may be repairing too; they still serve each other intact entries.

Repaired entries may become durable later than the Ready that holds them. Until all of them are, the replica is as
damaged as before to the others, but for applying: it is *unsettled*.

Requests follow replies: a member that replied is asked for the next piece at once, so repair runs at the speed of the
network and of several members. All members are asked again for pieces without a reply.

If no member has a copy, the leader's reply decides:
  absent     its log has another entry there, or none: by leader completeness ours never committed, and it is dropped
  compacted  the entry lies before the leader's log: a snapshot comes instead. Our intact suffix stays, unless it
             conflicts with the snapshot's last entry, which is committed: then it never committed, and it is dropped

While nobody leads, members that have compacted the entry send a snapshot too (`member_snapshots`).

An entry is *doubtful* when a power cut may have torn its write, so that it was never acknowledged, or when it was
acknowledged and rotted since: the disk cannot tell. After a power cut of all machines a quorum may have the same
doubtful entry, and nobody can lead. If all voters reply that they have no intact copy, it is dropped: had it been
committed, one of them would have a copy, unless more disks rotted than a group survives. A single voter drops it at
once.

A replica whose own snapshot is unreadable has lost the state before its log. That is the range from 0 on, and only a
snapshot of the leader repairs it. What it had a snapshot of is committed, and a leader of its term has it. The leader
may not know that yet, and could never learn it from a quorum that consists of the two: so the request tells it.
"""

from collections.abc import Iterator
from dataclasses import replace

from flotilla.raft import election, reasons
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
    SnapshotMeta,
    SnapshotReply,
)
from flotilla.raft.progress import SNAPSHOT
from flotilla.raft.repair import member_snapshots
from flotilla.raft.roles import FOLLOWER, LEADER
from flotilla.raft.state import RaftState
from flotilla.types.ids import NO_NODE, Index, NodeId
from flotilla.types.limits import REPAIR_BYTES_MAX

#: Without a reply for this long, all members are asked again; later while some are known to work on requests.
_RETRY_TICKS = 3
_PATIENCE_TICKS = 10
#: Requests that wait here until a part of the log is loaded.
_WAITING_MAX = 64
#: Ranges that all members are asked for at a time.
_RANGES_MAX = 8
#: Entries that one member is asked for at a time, so that others can work on the rest.
_PIECE_ENTRIES_MAX = 1024
#: Requests to one member at a time: it reads and sends while earlier replies are stored here.
_REQUESTS_MAX = 12
#: A reply holds as much as this many appends: each costs both sides the same, whatever its size.
_REPLY_APPENDS = 2


def begin(node: RaftState) -> None:
    """A read found damage: stop serving, and request the entries.

    The request of a leader shows its followers that it has stepped down; see `leader_asks`.
    """
    is_going_on = bool(node.damaged) and any(node.repair_asked.values())
    # A search takes its time: what was cut off or written anew meanwhile is not in the log any more.
    stored = [(low, min(high, node.log.pending_first)) for low, high in node.log.found_damage]
    found = [(low, high) for low, high in stored if low < high]
    node.log.found_damage = []
    if not found and not node.damaged:
        return
    node.damaged = _joined([*node.damaged, *found])
    if node.role != FOLLOWER:
        node.become_follower(node.term, NO_NODE, reasons.DAMAGE)
    node.wake()
    if not is_going_on:
        _ask_all(node)


def is_over(node: RaftState) -> bool:
    """Whether all damage was repaired, and that will survive a crash. A replica that acknowledges says so."""
    node.unsettled = node.unsettled and node.log.stored.unsaved_repair_bytes() > 0
    return not node.damaged and not node.unsettled


def tick(node: RaftState) -> None:
    if not node.damaged:
        return
    node.repair_ticks += 1
    if node.repair_ticks >= (_PATIENCE_TICKS if any(node.repair_asked.values()) else _RETRY_TICKS):
        _ask_all(node)


def _joined(ranges: list[tuple[Index, Index]]) -> list[tuple[Index, Index]]:
    joined: list[tuple[Index, Index]] = []
    for low, high in sorted(ranges):
        # The lost state stays apart: entries do not repair it.
        if joined and low <= joined[-1][1] and joined[-1][0] > 0:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _ask_all(node: RaftState) -> None:
    """Asks every member: any intact copy will do, and only a leader can say that an entry never committed."""
    _drop_what_nobody_has(node)
    node.repair_ticks = 0
    node.repair_asked.clear()
    for peer in node.configuration.members():
        if peer != node.id:
            for low, high in node.damaged[:_RANGES_MAX]:
                node.messages.append(RepairRequest(node.id, peer, 0 if low else node.term, low, high))
    member_snapshots.ask_again(node)


def _ask_for_more(node: RaftState, peer: NodeId, piece_entries: int) -> None:
    """Asks a member that has replied for the first damage that no member was asked for, in pieces of that many.

    A disk that is slower than the network gets time: see `resume`.
    """
    asked = node.repair_asked.setdefault(peer, [])
    if node.log.stored.unsaved_repair_bytes() >= REPAIR_BYTES_MAX:
        return
    for gap_low, high in _not_asked_for(node):
        for low in range(gap_low, high, piece_entries):
            if len(asked) >= _REQUESTS_MAX:
                return
            piece = (low, min(low + piece_entries, high))
            asked.append(piece)
            node.messages.append(RepairRequest(node.id, peer, 0, *piece))


def _not_asked_for(node: RaftState) -> Iterator[tuple[Index, Index]]:
    """The damage that no member was asked for, ascending."""
    taken = sorted(piece for pieces in node.repair_asked.values() for piece in pieces)
    at = 0
    for damaged_low, high in node.damaged:
        low = damaged_low
        if low == 0:
            # Entries do not repair the lost state.
            continue
        while at < len(taken) and taken[at][0] < high:
            if low < taken[at][0]:
                yield low, taken[at][0]
            low = max(low, taken[at][1])
            if taken[at][1] > high:
                break
            at += 1
        if low < high:
            yield low, high


def resume(node: RaftState) -> None:
    """Repaired entries have left the memory: asks the members that have replied for more."""
    for peer in list(node.repair_asked) if node.damaged else ():
        _ask_for_more(node, peer, node.repair_piece)


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
        else:
            member_snapshots.offer(node, request.sender, reaching=request.high - 1 if request.low == 0 else 0)
    elif low > log.last_index or low in node.doubtful:
        reply.absent = True
    for damaged_low, damaged_high in node.damaged:
        if low < damaged_high:
            end = min(end, max(damaged_low, low))
            break
    if low < end:
        end = min(end, low + _PIECE_ENTRIES_MAX)
        reply.entries = log.entries(low, end, _REPLY_APPENDS * node.options.append_bytes_max)
        if not reply.entries and low <= log.unreadable_to and len(node.repair_waiting) < _WAITING_MAX:
            node.repair_waiting[request.sender, request.low] = request
    if reply.entries or reply.compacted or reply.absent:
        node.messages.append(reply)


def serve_waiting(node: RaftState) -> None:
    """A part of the log was loaded: serves the requests that wait for one."""
    waiting, node.repair_waiting = node.repair_waiting, {}
    for request in waiting.values():
        serve(node, request)


def _offer_snapshot(node: RaftState, request: RepairRequest) -> None:
    """Entries before our log come with a snapshot. A lost state needs one that reaches the log of the sender."""
    if request.low == 0 and request.term == node.term and request.high <= node.log.last_index + 1:
        node.log.commit_to(request.high - 1)
    meta = node.log.stored.snapshot()
    progress = node.progress.get(request.sender)
    if meta is None or (request.low == 0 and meta.index < request.high - 1):
        node.snapshot_wanted = True
    elif progress is not None and progress.state != SNAPSHOT:
        progress.needs_snapshot = True


def leader_asks(node: RaftState) -> None:
    """The leader asks for entries: it is damaged and has stepped down, so its followers must choose another."""
    if node.role == FOLLOWER and not node.damaged:
        election.leader_link_lost(node)


def step(node: RaftState, message: Message) -> None:
    """Handles the messages to a damaged replica, except requests for votes and repairs, which it serves as always."""
    is_stranger = message.sender not in node.configuration.members()
    if node.damaged and is_stranger and not isinstance(message, RepairReply):
        low, high = node.damaged[0]
        node.messages.append(RepairRequest(node.id, message.sender, 0, low, high))
    if isinstance(message, RepairReply):
        _on_reply(node, message)
    elif isinstance(message, SnapshotChunk) and message.term == 0:
        if node.damaged and member_snapshots.is_next(node, message):
            _on_snapshot_chunk(node, message)
    elif isinstance(message, SnapshotReply) and message.term == 0:
        member_snapshots.serve(node, message)
    elif isinstance(message, SnapshotChunk) and message.term >= node.term:
        _follow(node, message)
        if node.damaged:
            _on_snapshot_chunk(node, message)
    elif isinstance(message, Append | Heartbeat | CommitNews | Quiesce) and message.term >= node.term:
        _follow(node, message)


def _follow(node: RaftState, message: Message) -> None:
    """Adopts a newer term, which is always safe, and notes its leader."""
    if message.term > node.term:
        node.become_follower(message.term, message.sender)
    node.leader = message.sender
    node.election_elapsed = 0


def _on_reply(node: RaftState, reply: RepairReply) -> None:
    speaks_for_term = reply.term >= node.term and reply.term > 0
    if reply.absent and speaks_for_term and _is_news(node, reply):
        _drop_from(node, reply.low)
    elif reply.absent and reply.term == 0:
        _note_lacking(node, reply.sender, reply.low)
    conflict: Index = 0
    if reply.entries:
        conflict = _repair(node, reply.entries, authoritative=speaks_for_term)
        if conflict:
            _note_lacking(node, reply.sender, conflict)
    if not node.damaged:
        node.election_elapsed = 0
        node.repair_asked.clear()
    elif conflict:
        # The sender has nothing more for us. Asked at once it would say the same, as fast as the network carries it.
        node.repair_asked.pop(reply.sender, None)
    elif reply.entries:
        _go_on(node, reply)


def _go_on(node: RaftState, reply: RepairReply) -> None:
    """Asks the sender for more. A piece has as many entries as one reply holds, which depends on their sizes."""
    asked = node.repair_asked.get(reply.sender, [])
    count = len(reply.entries)
    piece = next((piece for piece in asked if piece[0] == reply.low), None)
    if piece is not None:
        asked.remove(piece)
        if count == piece[1] - piece[0]:
            # The reply may have had room for more.
            count *= 2
    elif asked:
        # A reply to a request of `_ask_all` while others are pending adds nothing.
        return
    node.repair_ticks = 0
    node.repair_piece = min(count, _PIECE_ENTRIES_MAX)
    _ask_for_more(node, reply.sender, node.repair_piece)


def _is_news(node: RaftState, reply: RepairReply) -> bool:
    """Whether the reply concerns current damage. An entry of the leader's own term is in its log: the reply is old."""
    is_damaged = any(0 < low == reply.low for low, _ in node.damaged)
    return is_damaged and node.log.term(reply.low) < reply.term


def _first_doubtful(node: RaftState) -> Index:
    """The first damaged entry that is doubtful; 0 when there is none."""
    return min((index for index in node.doubtful if index > node.log.committed), default=0)


def _note_lacking(node: RaftState, sender: NodeId, index: Index) -> None:
    if index == _first_doubtful(node):
        node.lacking.add(sender)
        _drop_what_nobody_has(node)


def _drop_what_nobody_has(node: RaftState) -> None:
    index = _first_doubtful(node)
    voters = set(node.configuration.voters) | set(node.configuration.outgoing)
    if index and node.id in voters and voters <= node.lacking | {node.id}:
        _drop_from(node, index)


def _repair(node: RaftState, entries: list[Entry], *, authoritative: bool) -> Index:
    """Takes those of the entries whose data is lost here. Not 0: the entry there is another one, the rest does not fit.

    The entries follow each other.
    """
    first, end = entries[0].index, entries[-1].index + 1
    conflict: Index = 0
    for low, high in [(max(low, first), min(high, end)) for low, high in node.damaged if low > 0]:
        for entry in entries[low - first : high - first] if low < high else ():
            if entry.term != node.log.term(entry.index):
                conflict = end = entry.index
                break
            node.repaired.append(entry)
            if entry.kind == CONFIG:
                node.log.add_configuration(entry)
        if conflict:
            break
    node.damaged = _without(node.damaged, first, end)
    if any(first <= index < end for index in node.doubtful):
        node.doubtful = {index for index in node.doubtful if not first <= index < end}
        node.lacking.clear()
    if conflict and authoritative:
        _drop_from(node, conflict)
    return conflict


def _without(ranges: list[tuple[Index, Index]], first: Index, end: Index) -> list[tuple[Index, Index]]:
    """The ranges without [first, end), and the lost state as it is."""
    kept: list[tuple[Index, Index]] = []
    for low, high in ranges:
        parts = [(low, high)] if low == 0 else [(low, min(high, first)), (max(low, end), high)]
        kept += [part for part in parts if part[0] < part[1]]
    return kept


def _drop_from(node: RaftState, index: Index) -> None:
    """A leader of at least our term has another entry at `index`: nothing from here on was ever committed."""
    if index <= node.log.committed:
        return
    node.log.truncate(index)
    node.truncate_from = index if node.truncate_from == 0 else min(index, node.truncate_from)
    node.repaired = [entry for entry in node.repaired if entry.index < index]
    node.damaged = [(low, min(high, index)) for low, high in node.damaged if low < index]
    node.doubtful = {doubtful for doubtful in node.doubtful if doubtful < index}
    node.lacking.clear()


def _on_snapshot_chunk(node: RaftState, chunk: SnapshotChunk) -> None:
    """A snapshot repairs all damage up to its log index; the rest must have been repaired before."""
    log = node.log
    meta = chunk.meta
    if meta.log_index < log.base <= meta.index:
        # Our log begins later than the leader's and stays; only the state is taken.
        meta = replace(meta, log_index=log.base, log_term=log.term(log.base))
    _drop_conflict(node, meta)
    if not _can_install(node, meta):
        return
    snapshot = receive_chunk(node, chunk)
    if snapshot is not None:
        node.received = (Snapshot(meta, snapshot.data), chunk.sender, [])
        install_received(node)


def _drop_conflict(node: RaftState, meta: SnapshotMeta) -> None:
    """The snapshot's last entry is committed: if ours is another one, neither it nor anything after it committed."""
    log = node.log
    is_in_log = max(log.base, log.committed) < meta.log_index <= log.last_index
    if is_in_log and not log.matches(meta.log_index, meta.log_term):
        _drop_from(node, meta.log_index)


def _can_install(node: RaftState, meta: SnapshotMeta) -> bool:
    log = node.log
    if node.repaired or any(high - 1 > meta.log_index for _, high in node.damaged):
        return False
    return meta.log_index > log.last_index or log.matches(meta.log_index, meta.log_term)


def install_received(node: RaftState) -> None:
    """Installs the received snapshot with the intact entries after it, as soon as all of these are read."""
    assert node.received is not None
    snapshot, sender, suffix = node.received
    meta, log = snapshot.meta, node.log
    if suffix and not log.matches(suffix[-1].index, suffix[-1].term):
        # The log was truncated meanwhile.
        suffix.clear()
    if not node.damaged or not _can_install(node, meta):
        node.received = None
        return
    low = meta.log_index + 1 + len(suffix)
    while log.matches(meta.log_index, meta.log_term) and low <= log.last_index:
        suffix += log.entries(low, log.last_index + 1, node.options.append_bytes_max)
        if log.found_damage:
            node.received = None
            begin(node)
            return
        if low <= log.unreadable_to:
            return
        low = suffix[-1].index + 1
    node.received = None
    node.install(snapshot, suffix, sender)
