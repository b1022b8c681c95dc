"""Majorities of one and of two halves, against a naive count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.raft.messages import Configuration
from flotilla.raft.quorum import (
    EVERYTHING,
    LOST,
    PENDING,
    WON,
    committed_index,
    has_quorum,
    majority_committed,
    majority_size,
    majority_vote,
    vote_result,
)
from flotilla.types.ids import Index, NodeId

NODES = range(1, 8)
halves = st.lists(st.sampled_from(NODES), unique=True, max_size=7).map(lambda nodes: tuple(sorted(nodes)))
configurations = st.builds(Configuration, voters=halves, outgoing=halves)
matches = st.dictionaries(st.sampled_from(NODES), st.integers(0, 20))
ballots = st.dictionaries(st.sampled_from(NODES), st.booleans())


def naive_committed(voters: tuple[NodeId, ...], match: dict[NodeId, Index]) -> Index:
    held = [sum(match.get(voter, 0) >= index for voter in voters) for index in range(21)]
    return max(index for index, count in enumerate(held) if 2 * count > len(voters))


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_majority_is_more_than_half(count: int, size: int) -> None:
    assert majority_size(tuple(range(1, count + 1))) == size


@given(halves.filter(bool), matches)
def test_committed_is_the_highest_index_a_majority_has(voters: tuple[NodeId, ...], match: dict[NodeId, Index]) -> None:
    assert majority_committed(voters, match) == naive_committed(voters, match)


@given(configurations, matches)
def test_joint_committed_is_what_both_halves_have(configuration: Configuration, match: dict[NodeId, Index]) -> None:
    sides = [half for half in (configuration.voters, configuration.outgoing) if half]
    expected = min((naive_committed(half, match) for half in sides), default=EVERYTHING)
    assert committed_index(configuration, match) == expected


@given(configurations, matches, st.sampled_from(NODES), st.integers(0, 20))
def test_committed_never_falls_when_a_voter_advances(
    configuration: Configuration, match: dict[NodeId, Index], node: NodeId, more: int
) -> None:
    further = {**match, node: match.get(node, 0) + more}
    assert committed_index(configuration, further) >= committed_index(configuration, match)


@given(halves, ballots)
def test_a_vote_is_decided_once_no_missing_vote_can_change_it(
    voters: tuple[NodeId, ...], votes: dict[NodeId, bool]
) -> None:
    yes = sum(votes.get(voter, False) for voter in voters)
    at_best = sum(votes.get(voter, True) for voter in voters)
    wins_now, may_win = 2 * yes > len(voters) or not voters, 2 * at_best > len(voters) or not voters
    assert majority_vote(voters, votes) == (WON if wins_now else PENDING if may_win else LOST)


@given(configurations, ballots)
def test_joint_vote_needs_both_halves(configuration: Configuration, votes: dict[NodeId, bool]) -> None:
    results = {majority_vote(configuration.voters, votes), majority_vote(configuration.outgoing, votes)}
    expected = LOST if LOST in results else PENDING if PENDING in results else WON
    assert vote_result(configuration, votes) == expected


@given(configurations, ballots)
def test_a_decided_vote_stays_decided(configuration: Configuration, votes: dict[NodeId, bool]) -> None:
    result = vote_result(configuration, votes)
    if result == PENDING:
        return
    for late in (True, False):
        assert vote_result(configuration, {**dict.fromkeys(NODES, late), **votes}) == result


@given(configurations, st.sets(st.sampled_from(NODES)))
def test_active_nodes_are_a_quorum_when_their_votes_would_win(
    configuration: Configuration, active: set[NodeId]
) -> None:
    assert has_quorum(configuration, active) == (vote_result(configuration, dict.fromkeys(active, True)) == WON)


def test_an_empty_configuration_agrees_to_everything() -> None:
    assert committed_index(Configuration(), {}) == EVERYTHING
    assert vote_result(Configuration(), {}) == WON
    assert has_quorum(Configuration(), ())


def test_votes_of_strangers_and_learners_do_not_count() -> None:
    configuration = Configuration(voters=(1, 2, 3), learners=(4, 5))
    assert committed_index(configuration, {1: 9, 4: 9, 5: 9, 6: 9}) == 0
    assert vote_result(configuration, {1: True, 4: True, 5: True}) == PENDING
    assert not has_quorum(configuration, (1, 4, 5))
