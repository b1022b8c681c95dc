"""Farewell: a member that is removed is sent the entry that removes it, and the news that it is committed.

The configuration without it is in force as soon as it is in the leader's log, so nothing that the removed member says
or has counts any more. But it should know that it is out: it then never stands for election, and its owner can tell
people. The leader keeps trying for a few election timeouts. It sends no snapshot: a member that is too far behind for
appends hears of its removal from others, or not at all, which is safe as well.
"""

from flotilla.raft.messages import Append, AppendReply, CommitNews
from flotilla.raft.progress import SNAPSHOT, Departure, Progress
from flotilla.raft.state import RaftState
from flotilla.types.ids import Index, NodeId

#: A farewell is given up after this many election timeouts.
PATIENCE_TIMEOUTS = 4


def begin(node: RaftState, tracked: dict[NodeId, Progress], index: Index) -> None:
    """The configuration at `index` is in force; `tracked` are the members before it."""
    members = node.configuration.members()
    for peer in members:
        # One that comes back is a new member.
        node.departing.pop(peer, None)
    for peer, progress in tracked.items():
        if peer not in members and peer != node.id and progress.state != SNAPSHOT:
            node.departing[peer] = Departure(index, progress.match, progress.next)


def take_over(node: RaftState) -> None:
    """A new leader: the newest configuration may remove members that the leader before had no time to tell."""
    configurations = node.log.configurations
    if len(configurations) > 1 and configurations[-1][0] > node.log.committed:
        index = configurations[-1][0]
        begin(node, {peer: Progress(node.log.last_index + 1) for peer in configurations[-2][1].members()}, index)


def tick(node: RaftState) -> None:
    options = node.options
    for peer, departure in list(node.departing.items()):
        departure.ticks += 1
        if departure.ticks >= PATIENCE_TIMEOUTS * options.election_ticks:
            del node.departing[peer]
        elif departure.ticks % options.heartbeat_ticks == 0:
            departure.is_due = True


def has_work(node: RaftState) -> bool:
    return any(departure.is_due or _is_over(node, departure) for departure in node.departing.values())


def flush(node: RaftState) -> None:
    for peer, departure in list(node.departing.items()):
        if _is_over(node, departure):
            node.messages.append(CommitNews(node.id, peer, node.term, departure.index))
            del node.departing[peer]
        elif departure.is_due:
            departure.is_due = False
            _send(node, peer, departure)


def _is_over(node: RaftState, departure: Departure) -> bool:
    """It has the entry, which is committed: it need only hear that."""
    return departure.match >= departure.index and node.log.committed >= departure.index


def _send(node: RaftState, peer: NodeId, departure: Departure) -> None:
    log = node.log
    first = min(departure.next, departure.index)
    prev_index = first - 1
    if prev_index < log.base:
        del node.departing[peer]
        return
    entries = log.entries(first, departure.index + 1, node.options.append_bytes_max)
    if not entries:
        # They cannot be read now.
        return
    node.messages.append(Append(node.id, peer, node.term, prev_index, log.term(prev_index), log.committed, entries))


def replied(node: RaftState, reply: AppendReply) -> None:
    departure = node.departing.get(reply.sender)
    if departure is None:
        return
    if reply.accepted:
        departure.is_due = departure.match < reply.index < departure.index
        departure.match = max(departure.match, reply.index)
        departure.next = departure.match + 1
    elif reply.index < departure.next:
        hint = node.log.find_not_newer(reply.hint_index, reply.hint_term)
        # It only goes back, so the exchange ends.
        departure.next = max(min(reply.index, hint + 1), 1)
        departure.is_due = True
