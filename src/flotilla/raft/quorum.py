"""Decisions of a majority: the committed index, the outcome of a vote, the presence of a quorum.

Functions only. A joint configuration (paper, section 6) decides by both of its halves at once: an entry
commits when both have it, a vote is won when both grant it and lost when one refuses it.

An empty half agrees to everything, which makes a simple configuration the joint one with nothing
outgoing. An entirely empty configuration therefore commits `EVERYTHING` and wins every vote. It
belongs to a replica that does not know its group yet; that replica never stands for election,
so nothing is ever decided that way.
"""

from collections.abc import Container, Mapping

from flotilla.raft.messages import Configuration
from flotilla.types.ids import Index, NodeId

#: The outcome of a vote so far. PENDING: the missing votes decide.
PENDING = 1
LOST = 2
WON = 3

#: The index an empty half has committed: no bound.
EVERYTHING: Index = (1 << 62) - 1


def majority_size(voters: tuple[NodeId, ...]) -> int:
    """How many of the voters make a majority."""
    return len(voters) // 2 + 1


def majority_committed(voters: tuple[NodeId, ...], match: Mapping[NodeId, Index]) -> Index:
    """The highest index that a majority of the voters has. A voter without an entry in `match` has nothing."""
    if not voters:
        return EVERYTHING
    # Ascending, the element here and all above it are a majority, and no larger element has that.
    return sorted([match.get(voter, 0) for voter in voters])[(len(voters) - 1) // 2]


def committed_index(configuration: Configuration, match: Mapping[NodeId, Index]) -> Index:
    """The highest index that the whole configuration has; `match` is the last index on each voter's disk."""
    committed = majority_committed(configuration.voters, match)
    if configuration.outgoing:
        return min(committed, majority_committed(configuration.outgoing, match))
    return committed


def majority_vote(voters: tuple[NodeId, ...], votes: Mapping[NodeId, bool]) -> int:
    """WON, LOST or PENDING. A voter absent from `votes` has not voted; votes of other nodes do not count."""
    if not voters:
        return WON
    granted = 0
    unanswered = 0
    for voter in voters:
        vote = votes.get(voter)
        if vote is None:
            unanswered += 1
        elif vote:
            granted += 1
    needed = majority_size(voters)
    if granted >= needed:
        return WON
    return PENDING if granted + unanswered >= needed else LOST


def vote_result(configuration: Configuration, votes: Mapping[NodeId, bool]) -> int:
    """WON when both halves are won, LOST as soon as one is lost, PENDING otherwise."""
    incoming = majority_vote(configuration.voters, votes)
    if not configuration.outgoing:
        return incoming
    outgoing = majority_vote(configuration.outgoing, votes)
    if incoming == outgoing:
        return incoming
    return LOST if LOST in (incoming, outgoing) else PENDING


def has_quorum(configuration: Configuration, active: Container[NodeId]) -> bool:
    """Whether the nodes in `active` are a quorum."""
    return _has_majority(configuration.voters, active) and _has_majority(configuration.outgoing, active)


def _has_majority(voters: tuple[NodeId, ...], active: Container[NodeId]) -> bool:
    if not voters:
        return True
    present = 0
    for voter in voters:
        if voter in active:
            present += 1
    return present >= majority_size(voters)
