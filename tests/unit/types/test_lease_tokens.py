"""Leases as texts: what is written is read again, and nothing else is."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.lease_tokens import LeasePlace, lease_token, leases_by_place, read_lease_token, tokens_of
from flotilla.types.operations.queue import LeaseRange


@given(st.integers(1, 2**63 - 1), st.integers(0, 2**32 - 1), st.integers(1, 2**64 - 1), st.integers(0, 2**63 - 1))
def test_a_token_is_read_as_it_was_written(topic_id: int, partition: int, lease_id: int, offset: int) -> None:
    numbers = (topic_id, partition, lease_id, offset)
    assert read_lease_token(lease_token(*numbers)) == numbers


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    try:
        topic_id, partition, lease_id, offset = read_lease_token(text)
    except InvalidArgumentError:
        return
    assert min(topic_id, lease_id) > 0
    assert min(partition, offset) >= 0


@pytest.mark.parametrize(
    "token",
    [
        "",
        "...",
        "1.2",
        "1.2.3",
        "1.2.3.4.5",
        "-1.2.3.4",
        "0.1.2.3",
        "1.1.0.3",
        "1.1. 2.3",
        "1.1.2.٣",
        "1.1.2.²",
        "1.1e1.2.3",
        f"{2**63}.1.1.0",
        f"1.{2**32}.1.0",
        f"1.0.{2**64}.0",
        f"1.0.1.{2**63}",
        # More digits than Python converts.
        f"1.0.1.{'9' * 5_000}",
    ],
)
def test_bad_lease_tokens(token: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no lease"):
        read_lease_token(token)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(1, 3), st.integers(0, 20))))
def test_runs_hold_the_same_messages_and_are_as_few_as_can_be(given_leases: list[tuple[int, int, int, int]]) -> None:
    runs = leases_by_place(lease_token(*lease) for lease in given_leases)
    again = [token for place, held in runs.items() for token in tokens_of(place, held)]
    assert sorted(again) == sorted({lease_token(*lease) for lease in given_leases})
    for held in runs.values():
        neighbours = pairwise(held)
        assert all(one.lease_id != next_one.lease_id or one.end < next_one.first for one, next_one in neighbours)


def test_a_thousand_in_a_row_are_one_run() -> None:
    found = leases_by_place(lease_token(5, 3, 9, offset) for offset in range(1000))
    assert found == {LeasePlace(5, 3): [LeaseRange(9, 0, 1000)]}
