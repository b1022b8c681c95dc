"""Priorities and times of delivery by offset, against a plain list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.partition.state.batch_index import PRIORITIES, BatchIndex, Stretch
from flotilla.types.limits import TIME_MS_MAX

batches = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 3, 7]), st.sampled_from([0, 0, 50, 60])), max_size=30
)


def filled(rows):
    index, kinds = BatchIndex(), []
    for count, priority, deliver_at_ms in rows:
        first = len(kinds)
        kinds += [(priority, deliver_at_ms)] * count
        index.append(first, len(kinds), priority, deliver_at_ms)
    return index, kinds


@given(batches, st.data())
def test_the_index_knows_every_offset(rows, data):
    index, kinds = filled(rows)
    start = data.draw(st.integers(0, len(kinds)))
    index.trim(start)
    if data.draw(st.booleans()):
        index.reopen(len(kinds))
    # What comes after a trim, or a restart, continues what is left.
    for count, priority, deliver_at_ms in rows[:5]:
        kinds += [(priority, deliver_at_ms)] * count
        index.append(len(kinds) - count, len(kinds), priority, deliver_at_ms)
    assert index.count == len(kinds) - start
    for offset in range(start, len(kinds)):
        assert (index.priority_of(offset), index.deliver_at_ms_of(offset)) == kinds[offset]
    pieces = list(index.within(start, len(kinds)))
    assert [offset for piece in pieces for offset in range(piece.first, piece.end)] == list(range(start, len(kinds)))
    for priority in range(PRIORITIES):
        found, at = [], start
        while (run := index.plain_from(priority, at)) is not None:
            found += range(*run)
            at = run[1]
        assert found == [offset for offset in range(start, len(kinds)) if kinds[offset] == (priority, 0)]
    low = data.draw(st.integers(start, len(kinds)))
    delayed = list(index.delayed_from(low))
    assert delayed == sorted(delayed, key=lambda stretch: stretch.first)
    looks_max = data.draw(st.integers(1, 4))
    for priority in range(PRIORITIES):
        due, at = [], low
        while at < len(kinds):
            stretch, at = index.next_due(at, len(kinds), priority, 50, looks_max)
            due += [] if stretch is None else [stretch]
        assert due == [each for each in delayed if each.deliver_at_ms <= 50 and each.priority == priority]
    assert index.delayed_priorities_present() == sorted(set(index.delayed_priorities))
    assert {offset: piece for piece in delayed for offset in range(piece.first, piece.end)}.keys() == {
        offset for offset in range(low, len(kinds)) if kinds[offset][1]
    }


def test_neighbours_that_are_alike_are_one_stretch():
    index, _ = filled([(100, 0, 0)] * 1000 + [(1, 2, 900)] * 3 + [(1, 2, 0), (1, 0, 0)])
    assert index.plain_from(0, 0) == (0, 100_000)
    assert index.plain_from(0, 5) == (5, 100_000)
    assert index.plain_from(0, 100_000) == (100_004, 100_005)
    assert index.plain_from(0, 100_005) is None
    assert list(index.delayed_from(0)) == [Stretch(900, 100_000, 100_003, 2)]
    assert list(index.delayed_from(100_001)) == [Stretch(900, 100_001, 100_003, 2)]
    assert index.delayed_count == 1
    assert list(index.within(99_999, 100_004)) == [
        Stretch(0, 99_999, 100_000, 0),
        Stretch(900, 100_000, 100_003, 2),
        Stretch(0, 100_003, 100_004, 2),
    ]


@given(batches, st.data())
def test_messages_that_are_made_due_are_known_by_their_new_time(rows, data):
    index, kinds = filled(rows)
    index.trim(data.draw(st.integers(0, len(kinds))))
    start = len(kinds) - index.count
    for offset in data.draw(st.lists(st.integers(start, max(len(kinds) - 1, start)), max_size=5)):
        if offset == len(kinds):
            continue
        priority, time_ms = kinds[offset]
        begun = index.make_due(offset, 55)
        if time_ms > 55:
            kinds[offset] = (priority, 55)
            assert begun[0] == (55, offset)
            assert all(index.delayed_at(first).deliver_at_ms == time_ms for time_ms, first in begun)
        else:
            assert begun == []
        index.reopen(len(kinds))
        # The next batch continues the last stretch, or begins one.
        kinds.append((3, 55))
        index.append(len(kinds) - 1, len(kinds), 3, 55)
    for offset in range(start, len(kinds)):
        assert (index.priority_of(offset), index.deliver_at_ms_of(offset)) == kinds[offset]
    assert index.count == len(kinds) - start


def test_offsets_outside_of_the_log_have_no_stretch():
    index, _ = filled([(3, 4, 0), (3, 4, 7)])
    index.trim(2)
    assert index.stretch_at(1) is None
    assert index.stretch_at(2) == Stretch(0, 2, 3, 4)
    assert index.stretch_at(6) is None
    assert (index.priority_of(9), index.deliver_at_ms_of(9)) == (0, 0)
    index.trim(6)
    assert index.count == index.delayed_count == 0


@pytest.mark.parametrize(
    ("given_priority", "given_ms", "priority", "deliver_at_ms"),
    [(255, 0, 7, 0), (255, -1, 7, 0), (3, -5, 3, 0), (3, 2**63 - 1, 3, TIME_MS_MAX)],
)
def test_no_value_stops_it(given_priority, given_ms, priority, deliver_at_ms):
    index, _ = filled([(2, given_priority, given_ms)] * 2)
    assert list(index.within(0, 4)) == [Stretch(deliver_at_ms, 0, 4, priority)]
