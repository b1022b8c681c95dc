"""What is left of a refusal when an earlier attempt may have been carried out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE, LeaseRange, Settled


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 15), st.integers(1, 5))), st.sets(st.integers(0, 20)))
def test_an_ending_is_refused_where_the_message_is_not_settled(drawn, settled):
    expired = [LeaseRange(lease_id, first, first + count) for lease_id, first, count in drawn]
    known = [
        LeaseRange(lease_id, offset, offset + 1)
        for lease_id, first, end in expired
        for offset in range(first, end)
        if offset in settled
    ]
    left = Settled(expired, known).refused_again(ACK)
    assert left == Settled(expired, known).refused_again(REJECT)
    assert _offsets(left) == _offsets(expired) - {place for place in _offsets(expired) if place[1] in settled}
    assert all(run.first < run.end for run in left)


@pytest.mark.parametrize("kind", [FAIL, RELEASE])
def test_a_message_that_was_given_back_is_not_refused(kind):
    assert Settled([LeaseRange(1, 0, 5)]).refused_again(kind) == []


def _offsets(ranges: list[LeaseRange]) -> set[tuple[int, int]]:
    return {(lease_id, offset) for lease_id, first, end in ranges for offset in range(first, end)}
