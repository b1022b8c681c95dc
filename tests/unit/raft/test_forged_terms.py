"""A term that no election can have reached is not adopted: it would use up the terms of the group for good."""

from collections.abc import Callable

import pytest

from flotilla.raft.messages import Append, AppendReply, Heartbeat, Message, VoteReply, VoteRequest
from flotilla.raft.node import TERM_JUMP_MAX
from flotilla.raft.roles import LEADER
from tests.unit.raft.test_repair_ends import ALL, assert_serves, campaign, new_cluster, propose

FORGED: list[Callable[[int], Message]] = [
    lambda term: Append(3, 1, term, 0, 0, 0, []),
    lambda term: Heartbeat(3, 1, term, 0),
    lambda term: VoteRequest(3, 1, term, 9, term, transfer=True),
    lambda term: VoteReply(3, 1, term, granted=False),
    lambda term: AppendReply(3, 1, term, 0, accepted=False),
]


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("led_by", [1, 2])
def test_a_term_far_ahead_is_ignored(forged: Callable[[int], Message], led_by: int) -> None:
    cluster = new_cluster()
    campaign(cluster, led_by)
    propose(cluster, led_by, b"one")
    before = cluster.node(1).term
    for ahead in (TERM_JUMP_MAX, 2**62):
        cluster.call(1, lambda raft, ahead=ahead: raft.step(forged(before + ahead)))
        cluster.settle()
    assert [cluster.node(node).term for node in ALL] == [before] * 3
    assert cluster.node(led_by).role == LEADER
    assert_serves(cluster, ALL)


def test_a_damaged_replica_ignores_it_as_well() -> None:
    cluster = new_cluster()
    campaign(cluster, 1)
    before = cluster.node(2).term
    cluster.node(2).unsettled = True
    cluster.call(2, lambda raft: raft.step(Heartbeat(1, 2, before + 2**62, 0)))
    assert cluster.node(2).term == before
