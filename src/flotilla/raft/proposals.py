"""The entries that a leader appends to its log: data, configurations, and the entry that opens its term.

Uncommitted proposals are bounded by count and bytes; beyond that they are refused as overload. A change
of the members is in force from the moment it is in the log, and only one may be pending. Nothing is sent
from here: `replication.py` finds out what the followers lack when a Ready is taken.
"""

from contextlib import suppress

from flotilla.raft import farewell
from flotilla.raft.configuration import encode_configuration
from flotilla.raft.membership import ConfigurationChange, apply_change, leave_joint
from flotilla.raft.messages import CONFIG, DATA, NOOP, Entry
from flotilla.raft.progress import Progress
from flotilla.raft.roles import LEADER
from flotilla.raft.state import RaftState
from flotilla.types.errors import (
    ConfigurationChangeError,
    FlotillaError,
    NotLeaderError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, Index, NodeId


def open_term(node: RaftState) -> None:
    """An entry of the own term must commit before anything older counts (paper 5.4.2)."""
    first_own = node.log.last_index + 1
    node.log.append([Entry(first_own, node.term, NOOP, b"")])
    # Until that entry is applied a change of an earlier leader may still be pending.
    node.pending_configuration_index = first_own


def propose(node: RaftState, data: bytes | memoryview) -> Index:
    require_leading(node)
    entry = Entry(node.log.last_index + 1, node.term, DATA, data)
    size = entry.size_bytes
    if node.uncommitted and (
        len(node.uncommitted) >= node.options.proposal_count_max
        or node.uncommitted_bytes + size > node.options.proposal_bytes_max
    ):
        raise OverloadedError(
            f"too many uncommitted proposals: {len(node.uncommitted)}, {node.uncommitted_bytes} bytes"
        )
    node.wake()
    node.idle_ticks = 0
    node.log.append([entry])
    node.uncommitted.append((entry.index, size))
    node.uncommitted_bytes += size
    return entry.index


def propose_unanswered(node: RaftState, data: bytes | memoryview) -> None:
    """A refused proposal counts as a lost message: its sender retries."""
    with suppress(FlotillaError):
        propose(node, data)


def require_leading(node: RaftState) -> None:
    if node.role != LEADER:
        raise NotLeaderError(node.leader)
    if node.transferee != NO_NODE:
        raise UnavailableError(f"leadership is being transferred to node {node.transferee}")


# Membership.


def propose_change(node: RaftState, change: ConfigurationChange) -> Index:
    require_leading(node)
    if node.pending_configuration_index > node.log.handed:
        raise ConfigurationChangeError("a membership change or the term's first entry has not been applied yet")
    configuration = apply_change(node.configuration, change)
    node.wake()
    return append_configuration(node, encode_configuration(configuration))


def should_leave_joint(node: RaftState) -> bool:
    # Called several times for each message and hardly ever true: no further call before the first condition.
    configuration = node.log.configurations[-1][1]
    return configuration.auto_leave and configuration.is_joint and node.pending_configuration_index <= node.log.handed


def propose_to_leave_joint(node: RaftState) -> Index:
    return append_configuration(node, encode_configuration(leave_joint(node.configuration)))


def append_configuration(node: RaftState, data: bytes) -> Index:
    """The configuration is in force at once: the commit of this very entry needs the new quorums."""
    entry = Entry(node.log.last_index + 1, node.term, CONFIG, data)
    node.idle_ticks = 0
    node.log.append([entry])
    node.pending_configuration_index = entry.index
    known = node.progress
    farewell.begin(node, known, entry.index)
    node.progress = {member: known.get(member) or _newcomer(entry.index) for member in tracked_members(node)}
    node.forgetful = frozenset(filter(node.configuration.is_voter, node.forgetful))
    if node.transferee != NO_NODE and not node.configuration.is_voter(node.transferee):
        node.transferee = NO_NODE
    return entry.index


def tracked_members(node: RaftState) -> tuple[NodeId, ...]:
    """The members whose progress a leader tracks: all of them, and itself also while it is being removed."""
    members = node.configuration.members()
    return members if node.id in members else tuple(sorted((*members, node.id)))


def _newcomer(index: Index) -> Progress:
    progress = Progress(index)
    # A new member must not look like a dead one at the next quorum check.
    progress.recent_active = True
    return progress
