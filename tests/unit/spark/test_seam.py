"""Offsets at the seam of lake and log, and the lots of a replay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.lake.runs import Run, Span
from flotilla.spark.pipelines.query import seams
from flotilla.spark.pipelines.ranges import split_at_seam
from flotilla.spark.pipelines.replay import LOT_BLOCKS, Plan, ReplayOptions, check_options
from flotilla.types.errors import InvalidArgumentError


def test_the_seam_is_where_the_lake_ends() -> None:
    assert seams({0: Span(0, 10), 2: Span(5, 7)}, 4) == {0: 10, 1: -2, 2: 7, 3: -2}
    assert seams({}, 1) == {0: -2}


@pytest.mark.parametrize(
    ("wanted", "lake", "log"),
    [
        ((0, 5), [(0, 0, 5)], []),
        ((3, 12), [(0, 3, 10)], [(0, 10, 12)]),
        ((10, 12), [], [(0, 10, 12)]),
        ((11, 12), [], [(0, 11, 12)]),
        ((4, 4), [], []),
    ],
)
def test_each_offset_comes_from_one_side(wanted: tuple[int, int], lake: list[object], log: list[object]) -> None:
    assert split_at_seam({0: Span(*wanted)}, {0: Span(0, 10)}) == (lake, log)


def test_offsets_that_neither_has_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="offsets 2 to 4 of partition 0"):
        split_at_seam({0: Span(2, 12)}, {0: Span(5, 10)})
    assert split_at_seam({0: Span(2, 12)}, {}) == ([], [Run(0, 2, 12)])


@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3_000)), min_size=1, max_size=4),
    st.integers(1, 50),
)
def test_lots_have_every_offset_once_and_cut_no_block(spans: list[tuple[int, int]], block_rows: int) -> None:
    ranges = tuple((number, first, first + count) for number, (first, count) in enumerate(spans))
    plan = Plan("t", "into", ranges, None, None, block_rows, True)
    blocks: dict[tuple[int, int], int] = {}
    for number, first, end in ranges:
        position = first
        for lot in range(plan.lots):
            span = plan.lot(lot).get(number)
            if span is not None:
                assert span.first == position
                position = span.end
                for block in {span.first // block_rows, (span.end - 1) // block_rows}:
                    assert blocks.setdefault((number, block), lot) == lot, "a block is in one lot"
                assert span.end - span.first <= block_rows * LOT_BLOCKS
        assert position == end


def test_a_plan_is_known_by_its_name() -> None:
    plan = Plan("t", "into", ((0, 0, 5),), None, None, 10, True)
    assert plan.name == Plan("t", "into", ((0, 0, 5),), None, None, 10, True).name
    assert plan.name != Plan("t", "into", ((0, 0, 6),), None, None, 10, True).name
    assert len(plan.name) < 64


@pytest.mark.parametrize(
    "options",
    [
        ReplayOptions("s", "t"),
        ReplayOptions("s", "t", into_topic="a", into_group="b"),
        ReplayOptions("s", "t", into_topic="t"),
        ReplayOptions("s", "t", into_topic="a", rows_per_second=0),
    ],
)
def test_a_replay_that_makes_no_sense(options: ReplayOptions) -> None:
    with pytest.raises(InvalidArgumentError):
        check_options(options)


def test_a_shadow_group_has_a_topic_of_its_own() -> None:
    assert ReplayOptions("s", "t", into_group="g").target == "shadow.g.t"
