"""Partitions are spread evenly, and no more of them change hands than must."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.metadata.assignment import NO_OWNER, STRATEGY_BY_NAME, assign_round_robin, assign_sticky

STRATEGIES = list(STRATEGY_BY_NAME.values())


@st.composite
def groups(draw, members_max=12, partitions_max=60):
    """Members, and an owner for each partition: uneven, incomplete, whatever history may have led to."""
    members = [f"m{number}" for number in range(draw(st.integers(1, members_max)))]
    owners = draw(st.lists(st.sampled_from([NO_OWNER, *members]), max_size=partitions_max))
    return draw(st.permutations(members)), owners


def counts(members, targets):
    found = Counter(targets)
    return [found[member] for member in members]


def moves(owners, targets):
    """Partitions that a member has to release."""
    return sum(owner not in (NO_OWNER, target) for owner, target in zip(owners, targets, strict=True))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(groups())
def test_every_member_gets_an_even_share(strategy, group):
    members, owners = group
    targets = strategy(members, owners)
    assert len(targets) == len(owners)
    assert set(targets) <= set(members)
    shares = counts(members, targets)
    assert max(shares) - min(shares) <= 1


@given(groups(members_max=4, partitions_max=6))
def test_sticky_moves_as_few_as_any_even_spread(group):
    members, owners = group
    spreads = (
        targets
        for targets in product(members, repeat=len(owners))
        if max(counts(members, targets)) - min(counts(members, targets)) <= 1
    )
    assert moves(owners, assign_sticky(members, owners)) == min(moves(owners, targets) for targets in spreads)


@given(groups())
def test_sticky_moves_only_partitions_above_a_share(group):
    """Counted: a member gives up what it has above its share, and as many as possible keep the larger share."""
    members, owners = group
    share, rest = divmod(len(owners), len(members))
    above = [held - share for held in counts(members, owners) if held > share]
    assert moves(owners, assign_sticky(members, owners)) == sum(above) - min(len(above), rest)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(groups())
def test_without_a_change_nothing_moves(strategy, group):
    members, owners = group
    targets = strategy(members, owners)
    assert strategy(members, targets) == targets


@given(groups())
def test_sticky_takes_partitions_for_a_new_member_only(group):
    members, owners = group
    before = assign_sticky(members, owners)
    after = assign_sticky([*members, "new"], before)
    assert all(target in (owner, "new") for owner, target in zip(before, after, strict=True))
    assert after.count("new") == len(owners) // (len(members) + 1)


@given(groups())
def test_sticky_leaves_remaining_members_their_partitions(group):
    members, owners = group
    before = assign_sticky(members, owners)
    gone = members[0]
    left = [NO_OWNER if owner == gone else owner for owner in before]
    after = assign_sticky(members[1:], left)
    if len(members) > 1:
        assert moves(left, after) == 0
    else:
        assert after == [NO_OWNER] * len(owners)


def test_round_robin_goes_by_number_alone():
    assert assign_round_robin(["b", "a"], ["a", "a", NO_OWNER, "b", "b"]) == ["b", "a", "b", "a", "b"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_members_or_partitions_there_are_no_owners(strategy):
    assert strategy([], [NO_OWNER, NO_OWNER]) == [NO_OWNER, NO_OWNER]
    assert strategy(["a"], []) == []
