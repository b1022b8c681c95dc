"""Sections 5.4 to 5.6: what a new leader must have, what may be counted, and what must be on disk."""

import pytest

from flotilla.raft.messages import Append, AppendReply, VoteReply, VoteRequest
from flotilla.raft.roles import CANDIDATE, LEADER
from flotilla.types.ids import Index, Term
from tests.paper.group import append, elect, flush, group, inject, only, propose, terms, tick, vote_request


@pytest.mark.parametrize(
    ("own", "last", "granted"),
    [
        ([1, 2], (2, 2), True),
        ([1, 2], (2, 3), True),
        ([1, 2], (3, 1), True),
        ([1, 2], (2, 1), False),
        ([1, 2], (1, 9), False),
        ([], (0, 0), True),
    ],
    ids=["equal", "longer", "a later term", "shorter", "longer but an earlier term", "both empty"],
)
def test_5_4_1_a_vote_goes_only_to_a_log_at_least_as_complete(
    own: list[Term], last: tuple[Term, Index], granted: bool
) -> None:
    cluster = group(own, [], [])
    (reply,) = only(inject(cluster, vote_request(2, 1, 5, last=last)), VoteReply)
    assert reply.granted == granted


def test_5_4_1_a_refused_vote_is_still_free() -> None:
    cluster = group([2, 2], [], [])
    inject(cluster, vote_request(2, 1, 5, last=(1, 1)))
    (reply,) = only(inject(cluster, vote_request(3, 1, 5, last=(2, 2))), VoteReply)
    assert reply.granted


def test_5_4_1_a_candidate_without_a_committed_entry_cannot_win() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.cuts = {(1, 3)}
    propose(cluster, 1, b"committed")
    cluster.settle()
    cluster.crash(1)
    cluster.node(3).campaign()
    cluster.settle()
    assert cluster.node(3).role != LEADER
    cluster.node(2).campaign()
    cluster.settle()
    assert cluster.members[2].state == [b"committed"]
    assert cluster.members[3].state == [b"committed"]


def test_5_4_2_an_entry_of_an_earlier_term_does_not_commit_by_counting() -> None:
    cluster = group([1, 2], [1], [1])
    cluster.node(1).campaign()
    flush(cluster, 1)
    inject(cluster, VoteReply(2, 1, 3, granted=True))
    assert cluster.node(1).role == LEADER
    inject(cluster, AppendReply(2, 1, 3, index=2, accepted=True))
    assert cluster.node(1).log.committed == 0
    inject(cluster, AppendReply(2, 1, 3, index=3, accepted=True))
    assert cluster.node(1).log.committed == 3


def test_5_4_2_figure_8_an_entry_on_a_majority_may_still_be_overwritten() -> None:
    cluster = group([1, 2], [1, 2], [1, 2], [1], [1, 3])
    elect(cluster, 5)
    assert all(terms(cluster, node_id) == [1, 3, 4] for node_id in cluster.members)


def test_5_4_3_a_new_leader_has_all_that_was_committed() -> None:
    cluster = group(voters=5)
    elect(cluster, 1)
    for leader in (2, 3, 4, 5):
        propose(cluster, leader - 1, f"by-{leader - 1}".encode())
        cluster.settle()
        elect(cluster, leader)
    assert cluster.members[5].state == [b"by-1", b"by-2", b"by-3", b"by-4"]


def test_5_5_a_follower_that_crashed_gets_what_it_missed() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.crash(3)
    propose(cluster, 1, b"a", b"b")
    cluster.settle()
    cluster.restart(3)
    tick(cluster, 1)
    cluster.settle()
    assert cluster.members[3].state == [b"a", b"b"]


def test_5_5_a_crash_before_the_answer_makes_the_same_append_come_twice() -> None:
    cluster = group()
    message = append(2, 1, 1, (0, 0), 1, 1)
    inject(cluster, message)
    cluster.crash(1)
    cluster.restart(1)
    (reply,) = only(inject(cluster, message), AppendReply)
    assert (reply.accepted, reply.index) == (True, 2)
    assert terms(cluster, 1) == [1, 1]


def test_5_6_a_vote_is_on_disk_before_it_is_sent() -> None:
    cluster = group()
    cluster.members[1].is_slow = True
    assert inject(cluster, vote_request(2, 1, 1)) == []
    cluster.finish_write(1)
    assert cluster.members[1].disk.hard_state.vote == 2
    assert len(only(cluster.network, VoteReply)) == 1


def test_5_6_a_vote_survives_a_crash() -> None:
    cluster = group()
    inject(cluster, vote_request(2, 1, 1))
    cluster.crash(1)
    cluster.restart(1)
    (reply,) = only(inject(cluster, vote_request(3, 1, 1)), VoteReply)
    assert not reply.granted


def test_5_6_a_vote_that_was_not_written_was_not_sent() -> None:
    cluster = group()
    cluster.members[1].is_slow = True
    assert inject(cluster, vote_request(2, 1, 1)) == []
    cluster.crash(1)
    cluster.restart(1)
    cluster.members[1].is_slow = False
    (reply,) = only(inject(cluster, vote_request(3, 1, 1)), VoteReply)
    assert reply.granted


def test_5_6_entries_are_on_disk_before_they_are_acknowledged() -> None:
    cluster = group()
    cluster.members[1].is_slow = True
    assert inject(cluster, append(2, 1, 1, (0, 0), 1)) == []
    cluster.finish_write(1)
    assert len(cluster.members[1].disk.stored) == 1
    assert [reply.index for reply in only(cluster.network, AppendReply)] == [1]


def test_5_6_a_candidates_term_and_vote_are_on_disk_before_it_asks() -> None:
    cluster = group()
    cluster.members[1].is_slow = True
    cluster.node(1).campaign()
    assert flush(cluster, 1) == []
    cluster.finish_write(1)
    assert (cluster.members[1].disk.hard_state.term, cluster.members[1].disk.hard_state.vote) == (1, 1)
    assert len(only(cluster.network, VoteRequest)) == 2


def test_5_6_a_candidates_own_vote_counts_when_it_is_on_disk() -> None:
    cluster = group(voters=1)
    cluster.members[1].is_slow = True
    cluster.node(1).campaign()
    flush(cluster, 1)
    assert cluster.node(1).role == CANDIDATE
    cluster.finish_write(1)
    assert cluster.node(1).role == LEADER


def test_5_6_a_restarted_leader_does_not_lead() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.crash(1)
    cluster.restart(1)
    tick(cluster, 1)
    assert cluster.node(1).role != LEADER
    assert cluster.node(1).term == 1


def test_thesis_10_2_1_a_leader_sends_while_its_own_disk_writes() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.members[1].is_slow = True
    propose(cluster, 1, b"x")
    assert [message.to for message in only(flush(cluster, 1), Append)] == [2, 3]
    assert len(cluster.members[1].disk.stored) == 1


def test_thesis_10_2_1_the_leaders_copy_counts_when_it_is_on_disk() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.members[1].is_slow = True
    propose(cluster, 1, b"x")
    flush(cluster, 1)
    inject(cluster, AppendReply(2, 1, 1, index=2, accepted=True))
    assert cluster.node(1).log.committed == 1
    while cluster.members[1].writes:
        cluster.finish_write(1)
    assert cluster.node(1).log.committed == 2


def test_thesis_10_2_1_followers_alone_can_commit_and_the_leader_applies_when_it_has_it() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.members[1].is_slow = True
    propose(cluster, 1, b"x")
    flush(cluster, 1)
    inject(cluster, AppendReply(2, 1, 1, index=2, accepted=True))
    inject(cluster, AppendReply(3, 1, 1, index=2, accepted=True))
    assert cluster.node(1).log.committed == 2
    assert cluster.members[1].state == []
    while cluster.members[1].writes:
        cluster.finish_write(1)
    flush(cluster, 1)
    assert cluster.members[1].state == [b"x"]
