"""Thesis 3.10, 4.2.3, 6.2 and 9.6: handing over, and not being disturbed by servers that are cut off."""

import pytest

from flotilla.raft.messages import AppendReply, Heartbeat, HeartbeatReply, TimeoutNow, VoteReply, VoteRequest
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from flotilla.types.errors import InvalidArgumentError, NotLeaderError, UnavailableError
from flotilla.types.ids import Index, Term
from tests.paper.group import ELECTION_TICKS, elect, flush, group, inject, only, propose, tick, vote_request


def test_3_10_the_leader_asks_an_up_to_date_target_to_stand_at_once() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.node(1).transfer(2)
    assert [message.to for message in only(flush(cluster, 1), TimeoutNow)] == [2]


def test_3_10_a_lagging_target_is_brought_up_first() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"x")
    cluster.node(1).transfer(2)
    assert only(flush(cluster, 1), TimeoutNow) == []
    assert len(only(inject(cluster, AppendReply(2, 1, 1, index=2, accepted=True)), TimeoutNow)) == 1


def test_3_10_no_new_proposals_during_a_transfer() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.node(1).transfer(2)
    with pytest.raises(UnavailableError):
        propose(cluster, 1, b"x")


def test_3_10_the_target_wins_although_the_others_hear_the_leader() -> None:
    cluster = group(pre_vote=True, check_quorum=True)
    elect(cluster, 1)
    cluster.node(1).transfer(3)
    cluster.settle()
    assert (cluster.node(3).role, cluster.node(3).term) == (LEADER, 2)
    assert cluster.node(1).role == FOLLOWER


def test_3_10_a_transfer_that_takes_too_long_is_cancelled() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.cuts = {(1, 2)}
    cluster.node(1).transfer(2)
    cluster.settle()
    tick(cluster, 1, ELECTION_TICKS)
    propose(cluster, 1, b"x")
    cluster.settle()
    assert cluster.members[1].state == [b"x"]


def test_3_10_only_a_leader_transfers_and_only_to_a_voter() -> None:
    cluster = group()
    elect(cluster, 1)
    with pytest.raises(NotLeaderError):
        cluster.node(2).transfer(3)
    with pytest.raises(InvalidArgumentError):
        cluster.node(1).transfer(9)


def test_4_2_3_a_server_that_hears_a_leader_gives_no_vote_and_keeps_its_term() -> None:
    cluster = group(check_quorum=True)
    elect(cluster, 1)
    assert inject(cluster, vote_request(3, 2, 9, last=(9, 9))) == []
    assert cluster.node(2).term == 1


def test_4_2_3_a_leader_is_not_unseated_by_a_request() -> None:
    cluster = group(check_quorum=True)
    elect(cluster, 1)
    assert inject(cluster, vote_request(3, 1, 9, last=(9, 9))) == []
    assert (cluster.node(1).role, cluster.node(1).term) == (LEADER, 1)


def test_4_2_3_after_the_shortest_election_time_a_server_listens_again() -> None:
    cluster = group(check_quorum=True)
    elect(cluster, 1)
    tick(cluster, 2, ELECTION_TICKS)
    (reply,) = only(inject(cluster, vote_request(3, 2, 9, last=(9, 9))), VoteReply)
    assert reply.granted


def test_4_2_3_a_vote_request_of_a_transfer_is_accepted() -> None:
    cluster = group(check_quorum=True)
    elect(cluster, 1)
    request = VoteRequest(3, 2, 2, last_index=1, last_term=1, transfer=True)
    (reply,) = only(inject(cluster, request), VoteReply)
    assert reply.granted


def test_6_2_a_leader_without_a_quorum_steps_down_within_an_election_timeout() -> None:
    cluster = group(check_quorum=True)
    elect(cluster, 1)
    cluster.cuts = {(1, 2), (1, 3)}
    tick(cluster, 1, 2 * ELECTION_TICKS)
    assert (cluster.node(1).role, cluster.node(1).leader) == (FOLLOWER, 0)


def test_6_2_stepping_down_keeps_term_and_vote() -> None:
    cluster = group(check_quorum=True)
    elect(cluster, 1)
    tick(cluster, 1, 2 * ELECTION_TICKS)
    assert (cluster.node(1).role, cluster.node(1).term, cluster.node(1).vote) == (FOLLOWER, 1, 1)
    (reply,) = only(inject(cluster, vote_request(3, 1, 1, last=(9, 9))), VoteReply)
    assert not reply.granted


def test_6_2_a_leader_that_hears_a_quorum_stays() -> None:
    cluster = group(voters=5, check_quorum=True)
    elect(cluster, 1)
    for _ in range(10):
        tick(cluster, 1, ELECTION_TICKS)
        inject(cluster, HeartbeatReply(2, 1, 1))
        inject(cluster, HeartbeatReply(3, 1, 1))
    assert cluster.node(1).role == LEADER


def test_9_6_a_pre_vote_changes_neither_term_nor_vote() -> None:
    cluster = group(pre_vote=True)
    tick(cluster, 1, ELECTION_TICKS)
    node = cluster.node(1)
    assert (node.role, node.term, node.vote) == (PRE_CANDIDATE, 0, 0)
    requests = only(flush(cluster, 1), VoteRequest)
    assert [(request.to, request.term, request.pre) for request in requests] == [(2, 1, True), (3, 1, True)]
    (reply,) = only(inject(cluster, requests[0]), VoteReply)
    assert reply.granted
    assert (cluster.node(2).term, cluster.node(2).vote) == (0, 0)


def test_9_6_an_election_starts_when_a_majority_would_vote() -> None:
    cluster = group(voters=5, pre_vote=True)
    tick(cluster, 1, ELECTION_TICKS)
    flush(cluster, 1)
    inject(cluster, VoteReply(2, 1, 1, granted=True, pre=True))
    assert cluster.node(1).role == PRE_CANDIDATE
    inject(cluster, VoteReply(3, 1, 1, granted=True, pre=True))
    assert (cluster.node(1).role, cluster.node(1).term) == (CANDIDATE, 1)


def test_9_6_pre_votes_are_no_votes() -> None:
    cluster = group(voters=5, pre_vote=True)
    tick(cluster, 1, ELECTION_TICKS)
    flush(cluster, 1)
    for voter in (2, 3, 4, 5):
        inject(cluster, VoteReply(voter, 1, 1, granted=True, pre=True))
    assert cluster.node(1).role == CANDIDATE


@pytest.mark.parametrize(("last", "granted"), [((2, 2), True), ((2, 1), False), ((1, 9), False)])
def test_9_6_a_log_that_could_not_win_is_refused_a_pre_vote(last: tuple[Term, Index], granted: bool) -> None:
    cluster = group([2, 2], [], [], pre_vote=True)
    (reply,) = only(inject(cluster, VoteRequest(2, 1, 3, last[1], last[0], pre=True)), VoteReply)
    assert reply.granted == granted


def test_9_6_a_server_that_hears_a_leader_grants_no_pre_vote() -> None:
    cluster = group(pre_vote=True, check_quorum=True)
    elect(cluster, 1)
    assert inject(cluster, VoteRequest(3, 2, 2, 9, 9, pre=True)) == []


def test_9_6_a_server_that_was_cut_off_comes_back_without_a_higher_term() -> None:
    cluster = group(pre_vote=True, check_quorum=True)
    elect(cluster, 1)
    cluster.cuts = {(3, 1), (3, 2), (1, 3), (2, 3)}
    tick(cluster, 3, 20 * ELECTION_TICKS)
    cluster.settle()
    assert cluster.node(3).term == 1
    cluster.cuts.clear()
    inject(cluster, Heartbeat(1, 3, 1, commit=1))
    assert (cluster.node(3).role, cluster.node(1).role) == (FOLLOWER, LEADER)


def test_9_6_a_server_with_a_higher_term_is_brought_back() -> None:
    cluster = group(pre_vote=True, check_quorum=True)
    elect(cluster, 1)
    cluster.node(3).become_follower(5, 0)
    tick(cluster, 1)
    cluster.settle()
    tick(cluster, 1, 2 * ELECTION_TICKS)
    tick(cluster, 2, 2 * ELECTION_TICKS)
    cluster.settle()
    leaders = [member.node for member in cluster.members.values() if member.node.role == LEADER]
    assert len(leaders) == 1
    assert leaders[0].term > 5
