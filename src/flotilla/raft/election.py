"""Elections: pre-vote, vote, and early elections after a lost link.

A candidate requests real votes only after a quorum granted the pre-vote (thesis 9.6), or when the leader
transfers leadership to it. A voter that hears a leader refuses both, so that a node that was cut off cannot
unseat a working leader (thesis 4.2.3). A candidate's own vote counts when it is durable, like any other.
"""

from collections.abc import Callable
from typing import Any

from flotilla.raft import leader, quorum, reasons
from flotilla.raft.messages import Message, TimeoutNow, VoteReply, VoteRequest
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from flotilla.raft.state import RaftState
from flotilla.types.ids import NO_NODE, NodeId


def start(node: RaftState) -> None:
    """Stands for election, if this node may: the election timeout passed, or a link broke."""
    if not node.is_promotable():
        return
    if node.options.pre_vote:
        _ask_in_advance(node)
    else:
        _ask_for_votes(node, transfer=False)


def leader_link_lost(node: RaftState) -> None:
    """The link to the leader broke. Voters stand one after the other, in the order of `successors`."""
    lost = node.leader
    node.leadership.standing = reasons.LOST_LINK
    node.wake()
    node.leader = NO_NODE
    if node.role != FOLLOWER or not node.is_promotable():
        return
    place = _place_in_line(node, lost)
    if place == 0:
        start(node)
    else:
        _stand_within(node, place * node.options.succession_ticks)


def leader_heard(node: RaftState, leader_id: NodeId) -> None:
    """A message of the term's leader came in: a sign of life, but a weak one while the link to it is down.

    Such a message may have been in flight since before the leader died. A leader that lives sends another soon.
    """
    node.leader = leader_id
    node.election_elapsed = 0
    node.has_stood_again = False
    if leader_id in node.down_peers:
        node.leadership.standing = reasons.LOST_LINK
        place = _place_in_line(node, leader_id)
        _stand_within(node, node.leader_patience_ticks() + place * node.options.succession_ticks)
        return
    node.leadership.standing = reasons.ELECTION_TIMEOUT
    if node.election_timeout < node.options.election_ticks:
        # The hint was wrong, or the link is back.
        node.election_timeout = node.draw_election_timeout()


def _place_in_line(node: RaftState, lost: NodeId) -> int:
    """How many voters stand before this one after `lost` is gone."""
    line = node.configuration.successors(lost, node.options.succession_turn)
    return line.index(node.id) if node.id in line else len(line)


def _stand_instead(node: RaftState, asking: NodeId) -> None:
    """The asking node's log is behind and cannot win: this node stands, if it is a candidate already or in line."""
    if node.role == PRE_CANDIDATE:
        # The asking node may have ignored the request of this one, because it still heard the leader then.
        _request_of(node, asking, pre=True, transfer=False)
    elif node.role == FOLLOWER and node.leader == NO_NODE and node.election_timeout < node.options.election_ticks:
        start(node)


def _stand_within(node: RaftState, wait_ticks: int) -> None:
    node.election_timeout = min(node.election_timeout, node.election_elapsed + wait_ticks)


def _ask_in_advance(node: RaftState) -> None:
    node.become_pre_candidate()
    node.votes[node.id] = True
    _request(node, pre=True, transfer=False)
    if quorum.vote_result(node.configuration, node.votes) == quorum.WON:
        _ask_for_votes(node, transfer=False)


def _ask_for_votes(node: RaftState, *, transfer: bool) -> None:
    node.become_candidate()
    # The own vote counts once it is durable, so it comes back after the sync.
    node.after_sync.append(VoteReply(node.id, node.id, node.term, granted=True))
    _request(node, pre=False, transfer=transfer)


def _request(node: RaftState, *, pre: bool, transfer: bool) -> None:
    for peer in node.configuration.members():
        if peer != node.id and node.configuration.is_voter(peer):
            _request_of(node, peer, pre=pre, transfer=transfer)


def _request_of(node: RaftState, peer: NodeId, *, pre: bool, transfer: bool) -> None:
    out = node.messages if pre else node.after_sync
    term = node.term + 1 if pre else node.term
    last_index, last_term = node.log.last_index, node.log.last_term()
    out.append(VoteRequest(node.id, peer, term, last_index, last_term, pre=pre, transfer=transfer))


def _on_vote_request(node: RaftState, request: VoteRequest) -> None:
    """Any role: a node votes once in a term, for a candidate whose log is at least as complete.

    A replica without a configuration may be a member that lost its disk, with its acknowledgements and its vote.
    It does not vote until the group's log has brought it a configuration.
    """
    may_vote = bool(node.configuration.voters) and (
        node.vote == request.sender
        or (node.vote == NO_NODE and node.leader == NO_NODE)
        or (request.pre and request.term > node.term)
    )
    granted = may_vote and node.is_up_to_date(request.last_index, request.last_term)
    if request.pre:
        # It promises nothing. The reply carries the term of the request, by which the sender recognises it.
        term = request.term if granted else node.term
        node.messages.append(VoteReply(node.id, request.sender, term, granted=granted, pre=True))
        if node.role == CANDIDATE and request.term == node.term:
            # The sender has not seen the vote request of this node, or ignored it; it may still vote.
            _request_of(node, request.sender, pre=False, transfer=False)
        elif may_vote and not granted:
            _stand_instead(node, request.sender)
        return
    node.after_sync.append(VoteReply(node.id, request.sender, node.term, granted=granted))
    if granted:
        assert node.vote in (NO_NODE, request.sender), "a second vote in one term"
        node.vote = request.sender
        node.election_elapsed = 0


def _on_vote_reply(node: RaftState, reply: VoteReply) -> None:
    if node.role == PRE_CANDIDATE:
        if not reply.pre or (reply.granted and reply.term != node.term + 1):
            return
    elif reply.pre:
        return
    node.votes.setdefault(reply.sender, reply.granted)
    result = quorum.vote_result(node.configuration, node.votes)
    if result == quorum.WON:
        if node.role == PRE_CANDIDATE:
            _ask_for_votes(node, transfer=False)
        else:
            leader.begin(node)
    elif result == quorum.LOST:
        # The term stays, and so does the vote in it.
        node.become_follower(node.term, NO_NODE)
    elif node.role == CANDIDATE and not reply.granted:
        _consider_split_vote(node)


def _consider_split_vote(node: RaftState) -> None:
    """Candidates split the vote, and the voters that could still decide it are down: stand again, in order.

    Waiting for an election timeout would be as safe and far slower. The term rises only after another pre-vote.
    Once only: where messages take longer than the candidates' delays differ, randomness must decide (paper 5.2).
    """
    if node.has_stood_again:
        return
    voters = [voter for voter in node.configuration.members() if node.configuration.is_voter(voter)]
    missing = {voter: False for voter in voters if voter in node.down_peers}
    if quorum.vote_result(node.configuration, {**missing, **node.votes}) == quorum.LOST:
        node.has_stood_again = True
        place = sum(1 for voter in voters if voter < node.id and voter not in missing)
        # Delays twice as far apart as the first time, which was not enough.
        _stand_within(node, 1 + 2 * place * node.options.succession_ticks)


def _on_timeout_now(node: RaftState, message: TimeoutNow) -> None:
    """The leader transfers leadership: stand without a pre-vote, and mark the request as a transfer."""
    if node.role != LEADER and node.is_promotable():
        node.leadership.standing = message.reason
        _ask_for_votes(node, transfer=True)


VOTER_STEPS: dict[type[Message], Callable[[RaftState, Any], None]] = {
    VoteRequest: _on_vote_request,
    TimeoutNow: _on_timeout_now,
}

CANDIDATE_STEPS: dict[type[Message], Callable[[RaftState, Any], None]] = {
    VoteReply: _on_vote_reply,
}
