"""Sections 5.1 and 5.2: terms, and how a leader is elected."""

from random import Random

import pytest

from flotilla.raft.messages import Append, AppendReply, Configuration, Heartbeat, HeartbeatReply, VoteReply, VoteRequest
from flotilla.raft.node import RaftNode
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER
from tests.paper.group import ELECTION_TICKS, append, elect, flush, group, inject, only, tick, vote_request
from tests.scenarios.store import MemoryLog


@pytest.mark.parametrize("role", [FOLLOWER, CANDIDATE, LEADER])
def test_5_1_a_server_that_sees_a_larger_term_adopts_it_and_follows(role: int) -> None:
    cluster = group()
    if role == CANDIDATE:
        cluster.node(1).campaign()
    elif role == LEADER:
        elect(cluster, 1)
    assert cluster.node(1).role == role
    inject(cluster, Heartbeat(2, 1, 7, commit=0))
    assert (cluster.node(1).role, cluster.node(1).term, cluster.node(1).leader) == (FOLLOWER, 7, 2)


def test_5_1_a_request_with_a_stale_term_is_rejected() -> None:
    cluster = group([3, 3], [3, 3], [3, 3])
    assert inject(cluster, vote_request(2, 1, 2, last=(3, 2))) == []
    (refusal,) = only(inject(cluster, append(2, 1, 2, (3, 2), 2)), AppendReply)
    assert (refusal.accepted, refusal.term) == (False, 3)
    assert cluster.node(1).log.last_index == 2


def test_5_1_a_stale_answer_is_ignored() -> None:
    cluster = group()
    cluster.node(1).campaign()
    flush(cluster, 1)
    cluster.node(1).campaign()
    flush(cluster, 1)
    inject(cluster, VoteReply(2, 1, 1, granted=True))
    assert (cluster.node(1).role, cluster.node(1).term) == (CANDIDATE, 2)


def test_5_1_a_term_has_at_most_one_leader() -> None:
    cluster = group(voters=5)
    cluster.node(1).campaign()
    cluster.node(2).campaign()
    cluster.settle()
    assert [member.node.role for member in cluster.members.values()].count(LEADER) <= 1


def test_5_2_servers_start_as_followers() -> None:
    assert all(member.node.role == FOLLOWER for member in group().members.values())


def test_5_2_a_leader_sends_heartbeats_to_all() -> None:
    cluster = group()
    elect(cluster, 1)
    tick(cluster, 1)
    assert [message.to for message in only(flush(cluster, 1), Heartbeat)] == [2, 3]


def test_5_2_a_server_stays_follower_while_it_hears_from_a_leader() -> None:
    cluster = group()
    elect(cluster, 1)
    for _ in range(10):
        tick(cluster, 2, ELECTION_TICKS)
        inject(cluster, Heartbeat(1, 2, 1, commit=0))
    assert cluster.node(2).role == FOLLOWER


def test_5_2_a_follower_that_hears_nothing_starts_an_election() -> None:
    cluster = group()
    tick(cluster, 1, ELECTION_TICKS)
    node = cluster.node(1)
    assert (node.role, node.term, node.vote) == (CANDIDATE, 1, 1)
    assert [(request.to, request.term) for request in only(flush(cluster, 1), VoteRequest)] == [(2, 1), (3, 1)]


def test_5_2_a_server_votes_at_most_once_per_term() -> None:
    cluster = group()
    (first,) = only(inject(cluster, vote_request(2, 1, 1)), VoteReply)
    (second,) = only(inject(cluster, vote_request(3, 1, 1)), VoteReply)
    (again,) = only(inject(cluster, vote_request(2, 1, 1)), VoteReply)
    assert (first.granted, second.granted, again.granted) == (True, False, True)


def test_5_2_a_candidate_votes_for_itself_only() -> None:
    cluster = group()
    cluster.node(1).campaign()
    flush(cluster, 1)
    (reply,) = only(inject(cluster, vote_request(2, 1, 1)), VoteReply)
    assert not reply.granted


@pytest.mark.parametrize(
    ("voters", "granted", "role"),
    [
        (1, 0, LEADER),
        (3, 0, CANDIDATE),
        (3, 1, LEADER),
        (4, 1, CANDIDATE),
        (4, 2, LEADER),
        (5, 1, CANDIDATE),
        (5, 2, LEADER),
    ],
)
def test_5_2_a_candidate_wins_with_the_votes_of_a_majority(voters: int, granted: int, role: int) -> None:
    cluster = group(voters=voters)
    cluster.node(1).campaign()
    flush(cluster, 1)
    for voter in range(2, 2 + granted):
        inject(cluster, VoteReply(voter, 1, 1, granted=True))
    assert cluster.node(1).role == role


def test_5_2_a_repeated_vote_counts_once() -> None:
    cluster = group(voters=5)
    cluster.node(1).campaign()
    flush(cluster, 1)
    for _ in range(3):
        inject(cluster, VoteReply(2, 1, 1, granted=True))
    assert cluster.node(1).role == CANDIDATE


def test_5_2_a_candidate_yields_to_a_leader_of_its_term() -> None:
    cluster = group()
    cluster.node(1).campaign()
    flush(cluster, 1)
    inject(cluster, append(2, 1, 1, (0, 0), 1))
    assert (cluster.node(1).role, cluster.node(1).leader) == (FOLLOWER, 2)
    assert cluster.node(1).log.last_index == 1


def test_5_2_a_candidate_ignores_a_leader_of_an_older_term() -> None:
    cluster = group([2], [2], [2])
    cluster.node(1).campaign()
    flush(cluster, 1)
    inject(cluster, Heartbeat(2, 1, 2, commit=0))
    assert (cluster.node(1).role, cluster.node(1).term) == (CANDIDATE, 3)


def test_5_2_after_a_split_vote_a_new_term_decides() -> None:
    cluster = group(voters=4)
    cluster.cuts = {(1, 4), (2, 3)}
    cluster.node(1).campaign()
    cluster.node(2).campaign()
    cluster.settle()
    assert [cluster.node(node_id).role for node_id in (1, 2)] == [CANDIDATE, CANDIDATE]
    cluster.cuts.clear()
    tick(cluster, 1, ELECTION_TICKS)
    cluster.settle()
    assert (cluster.node(1).role, cluster.node(1).term) == (LEADER, 2)


def test_5_2_election_timeouts_are_random_between_once_and_twice_the_time() -> None:
    configuration = Configuration(voters=(1, 2, 3))
    node = RaftNode(1, MemoryLog(configuration), random=Random(7), configuration=configuration)
    seen = set()
    for _ in range(300):
        node.become_follower(node.term, 0)
        seen.add(node.election_timeout)
    assert seen == set(range(node.options.election_ticks, 2 * node.options.election_ticks))


def test_5_2_heartbeats_are_answered() -> None:
    cluster = group()
    elect(cluster, 1)
    assert len(only(inject(cluster, Heartbeat(1, 2, 1, commit=1)), HeartbeatReply)) == 1


def test_5_2_a_new_leader_makes_itself_known_at_once() -> None:
    cluster = group()
    cluster.node(1).campaign()
    flush(cluster, 1)
    assert [message.to for message in only(inject(cluster, VoteReply(2, 1, 1, granted=True)), Append)] == [2, 3]
