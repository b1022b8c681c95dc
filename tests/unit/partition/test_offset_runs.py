"""Runs against plain sets and dicts of offsets."""

from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.partition import offset_runs as runs
from flotilla.partition.offset_runs import RunMap, RunSet

TOP = 60

spans = st.tuples(st.integers(0, TOP), st.integers(0, 12)).map(lambda pair: (pair[0], min(pair[0] + pair[1], TOP)))


@pytest.fixture(autouse=True, params=[2, 512])
def _leaves(request, monkeypatch):
    """Leaves of two runs, so that a few dozen offsets cross the borders of many; and leaves as they are."""
    monkeypatch.setattr(runs, "_LEAF_RUNS_MAX", request.param)


def check_shape(found):
    """What holds between calls, whatever was done."""
    pieces = list(found._pieces(0, found.end))
    assert all(first < end for first, end, _ in pieces)
    for (_, end, value), (first, _, following) in pairwise(pieces):
        assert end < first or (end == first and value != following)
    assert found.count == sum(end - first for first, end, _ in pieces)
    assert len(found) == len(pieces)
    assert bool(found) == bool(pieces)
    assert (found.first, found.end) == ((pieces[0][0], pieces[-1][1]) if pieces else (0, 0))
    assert found._tops == [leaf.ends[-1] for leaf in found._leaves]
    assert all(0 < len(leaf.values) <= runs._LEAF_RUNS_MAX for leaf in found._leaves)
    assert all(len(leaf.firsts) == len(leaf.ends) == len(leaf.values) for leaf in found._leaves)


def offsets(pieces):
    return [offset for first, end in pieces for offset in range(first, end)]


@given(st.lists(spans.filter(lambda span: span[0] < span[1])), st.lists(spans))
def test_a_copy_goes_its_own_way(added, discarded):
    found = RunSet(added)
    before = list(found)
    other = found.copy()
    assert other == found
    for first, end in discarded:
        other.discard(first, end)
    other.add(0, 1)
    check_shape(other)
    check_shape(found)
    assert list(found) == before


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "advance"]), spans), max_size=40), spans)
def test_a_set_of_runs_is_a_set(steps, asked):
    found, model = RunSet(), set()
    for step, (first, end) in steps:
        inside = set(range(first, end))
        if step == "add":
            if first < end:
                assert found.add(first, end) == len(inside - model)
            model |= inside
        elif step == "discard":
            assert found.discard(first, end) == len(inside & model)
            model -= inside
        else:
            floor = next(offset for offset in range(first, TOP + 1) if offset not in model)
            assert found.advance(first) == floor
            model = {offset for offset in model if offset >= floor}
        check_shape(found)
        assert offsets(found) == sorted(model)
    assert [offset for offset in range(TOP) if found.contains(offset)] == sorted(model)
    assert offsets(found.within(*asked)) == [offset for offset in range(*asked) if offset in model]
    assert offsets(found.gaps(*asked)) == [offset for offset in range(*asked) if offset not in model]
    assert found.first_gap(*asked) == next(found.gaps(*asked), None)
    assert found == RunSet(found)
    assert RunSet((offset, offset + 1) for offset in sorted(model, reverse=True)) == found


@given(st.lists(st.tuples(spans, st.none() | st.integers(0, 2)), max_size=40), spans)
def test_a_map_of_runs_is_a_map(steps, asked):
    found, model = RunMap(), {}
    for (first, end), value in steps:
        if value is None:
            assert found.remove(first, end) == sum(model.pop(offset, None) is not None for offset in range(first, end))
        elif first < end:
            found.set(first, end, value)
            model.update(dict.fromkeys(range(first, end), value))
        check_shape(found)
        assert {offset: value for first, end, value in found for offset in range(first, end)} == model
    assert [found.get(offset) for offset in range(TOP + 1)] == [model.get(offset) for offset in range(TOP + 1)]
    pieces = list(found.within(*asked))
    assert {offset: value for first, end, value in pieces for offset in range(first, end)} == {
        offset: model[offset] for offset in range(*asked) if offset in model
    }


@given(
    before=st.lists(st.tuples(st.integers(0, TOP), st.integers(1, 9), st.integers(0, 2)), max_size=60),
    after=st.lists(st.tuples(st.integers(0, TOP), st.integers(0, 30), st.integers(0, 3)), max_size=20),
)
def test_a_view_of_runs_stays_as_it_was(before, after):
    found = RunMap()
    views = []
    for first, size, value in before + after:
        if value == 3 or not size:
            found.remove(first, first + size)
        else:
            found.set(first, first + size, value)
        if first % 5 == 0:
            views.append((found.freeze(), list(found)))
    check_shape(found)
    for view, known in views:
        columns = (view.firsts(), view.ends(), view.values())
        assert list(zip(*map(chain.from_iterable, columns), strict=True)) == known
        assert len(view) == len(known)


@given(added=st.lists(spans, max_size=30), floors=st.lists(st.integers(0, TOP), max_size=5))
def test_a_view_of_a_set_stays_as_it_was_while_its_floor_moves(added, floors):
    found = RunSet()
    for first, end in added:
        if first < end:
            found.add(first, end)
    view, known = found.freeze(), list(found)
    for floor in floors:
        found.advance(floor)
    check_shape(found)
    assert list(zip(chain(*view.firsts()), chain(*view.ends()), strict=True)) == known


def test_neighbours_are_one_run_and_holes_keep_them_apart():
    found = RunSet([(5, 10), (0, 3)])
    assert list(found) == [(0, 3), (5, 10)]
    assert found.add(3, 5) == 2
    assert list(found) == [(0, 10)]
    assert found.discard(4, 6) == 2
    assert list(found) == [(0, 4), (6, 10)]
    assert list(found.gaps(2, 12)) == [(4, 6), (10, 12)]
    assert found.advance(0) == 4
    assert list(found) == [(6, 10)]
    assert found.advance(5) == 5
    assert found.advance(8) == 10
    assert not found


@pytest.mark.parametrize(
    ("floor", "moved", "left"),
    [
        (1, 1, [(2, 4), (8, 10)]),
        (2, 4, [(8, 10)]),
        (3, 4, [(8, 10)]),
        (4, 4, [(8, 10)]),
        (5, 5, [(8, 10)]),
        (8, 10, []),
        (11, 11, []),
    ],
)
def test_a_floor_moves_over_the_run_that_it_touches_and_forgets_what_is_below(floor, moved, left):
    found = RunSet([(2, 4), (8, 10)])
    assert found.advance(floor) == moved
    assert list(found) == left
    check_shape(found)


def test_a_part_of_a_run_gets_another_value():
    found = RunMap()
    found.set(0, 10, "a")
    found.set(4, 6, "b")
    assert list(found) == [(0, 4, "a"), (4, 6, "b"), (6, 10, "a")]
    found.set(4, 6, "a")
    assert list(found) == [(0, 10, "a")]


def test_everything_can_go_at_once():
    found = RunSet((offset, offset + 1) for offset in range(0, 3000, 2))
    assert found.count == len(found) == 1500
    assert found.advance(2999) == 2999
    assert not found
    found.add(7, 9)
    found.clear()
    assert found == RunSet()
    assert found != RunMap()
