"""Ranges of offsets: split, limited, stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the spark extra")

from flotilla.lake.offset_range import OffsetRange, from_json, limit_bytes, limit_records, split, to_json

PLACES = st.tuples(st.sampled_from("ab"), st.integers(0, 3))
SIZES = st.dictionaries(PLACES, st.tuples(st.integers(0, 50), st.integers(0, 200)), min_size=1)


@given(SIZES, st.none() | st.integers(1, 40), st.integers(1, 100))
def test_pieces_are_the_whole(sizes, count_min, records_max):
    whole = [OffsetRange(*place, first, first + size) for place, (first, size) in sizes.items()]
    pieces = split(whole, count_min=count_min, records_max=records_max)
    found = [(piece.topic, piece.partition, offset) for piece in pieces for offset in range(piece.first, piece.end)]
    wanted = [(each.topic, each.partition, offset) for each in whole for offset in range(each.first, each.end)]
    assert found == wanted
    assert all(0 < len(piece) <= records_max for piece in pieces)
    if count_min is not None:
        assert len(pieces) >= min(count_min, len(wanted))


@given(SIZES, st.integers(1, 500))
def test_a_limit_is_used_up_and_no_partition_starves(sizes, records_max):
    start = {place: first for place, (first, _) in sizes.items()}
    end = {place: first + size for place, (first, size) in sizes.items()}
    limited = limit_records(start, end, records_max)
    taken = {place: limited[place] - start[place] for place in end}
    assert sum(taken.values()) == min(records_max, sum(size for _, size in sizes.values()))
    assert all(0 <= taken[place] <= end[place] - start[place] for place in end)
    waiting = [place for place in end if end[place] > start[place]]
    if records_max >= len(waiting):
        assert all(taken[place] for place in waiting)


@given(SIZES, st.integers(1, 5_000))
def test_a_limit_of_bytes_lets_every_partition_go_on(sizes, bytes_max):
    start = {place: first for place, (first, _) in sizes.items()}
    end = {place: first + size for place, (first, size) in sizes.items()}
    limited = limit_bytes(start, end, bytes_max, dict.fromkeys(end, 10))
    taken = {place: limited[place] - start[place] for place in end}
    assert all(0 <= taken[place] <= end[place] - start[place] for place in end)
    assert all(taken[place] for place in end if end[place] > start[place])
    assert sum(taken.values()) * 10 <= max(bytes_max, 0) + 10 * len(end)


def test_a_partition_that_is_new_begins_at_the_beginning():
    assert limit_records({}, {("t", 0): 10}, 4) == {("t", 0): 4}


def test_positions_survive_a_checkpoint_and_what_is_kept_beside_them():
    position = {("t", 10): 5, ("t", 2): 3, ("s", 0): 0}
    written = to_json(position)
    assert written == {"s": {"0": 0}, "t": {"2": 3, "10": 5}}
    assert from_json({**written, "@group": "g"}) == position
