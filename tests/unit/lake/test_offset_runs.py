"""Runs of offsets are joined without losing or doubling one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.lake.runs import Run, append_runs, join_runs
from flotilla.types.errors import CorruptionError


def test_adjacent_runs_are_appended_as_one() -> None:
    assert append_runs([Run(0, 0, 5)], [Run(0, 5, 7), Run(0, 9, 10)]) == [Run(0, 0, 7), Run(0, 9, 10)]
    assert append_runs([Run(0, 0, 5)], [Run(1, 5, 7)]) == [Run(0, 0, 5), Run(1, 5, 7)]


runs = st.builds(
    lambda partition, first, count: Run(partition, first, first + count),
    st.integers(0, 3),
    st.integers(0, 30),
    st.integers(1, 10),
)


@given(st.lists(runs, max_size=8))
def test_joined_runs_have_the_same_offsets(given_runs: list[Run]) -> None:
    offsets = [(run.partition, offset) for run in given_runs for offset in range(run.first, run.end)]
    if len(set(offsets)) != len(offsets):
        with pytest.raises(CorruptionError):
            join_runs(given_runs)
        return
    joined = join_runs(given_runs)
    assert sorted((run.partition, offset) for run in joined for offset in range(run.first, run.end)) == sorted(offsets)
    for one, other in pairwise(joined):
        assert one.partition != other.partition or one.end < other.first
