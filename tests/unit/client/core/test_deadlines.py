"""Calls end in the order of their deadlines, whatever came and went in between."""

from hypothesis import given
from hypothesis import strategies as st

from flotilla.client._core.deadlines import Deadlines

ITEMS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("put"), ITEMS, st.integers(1, 9)),
    st.tuples(st.just("discard"), ITEMS, st.just(0)),
    st.tuples(st.just("pop"), st.just(0), st.integers(0, 9)),
)


@given(st.lists(STEPS))
def test_as_a_plain_table(steps):
    deadlines: Deadlines[int] = Deadlines()
    table: dict[int, int] = {}
    for step, item, number in steps:
        if step == "put":
            deadlines.put(item, number)
            table[item] = number
        elif step == "discard":
            deadlines.discard(item)
            table.pop(item, None)
        else:
            popped = deadlines.pop_overdue(number)
            first_ms = min(table.values(), default=None)
            if first_ms is None or first_ms > number:
                assert popped is None
            else:
                assert table.pop(popped) == first_ms
        assert deadlines.next_ms == min(table.values(), default=None)


def test_equal_deadlines_end_in_the_order_in_which_they_came():
    deadlines: Deadlines[str] = Deadlines()
    for item in "cab":
        deadlines.put(item, 5)
    assert [deadlines.pop_overdue(5) for _ in range(4)] == ["c", "a", "b", None]


def test_discarded_items_are_removed_although_an_earlier_one_waits():
    deadlines: Deadlines[int] = Deadlines()
    deadlines.put(0, 1)
    for number in range(1, 1_000):
        deadlines.put(number, 1_000 + number)
        deadlines.discard(number)
        assert len(deadlines._heap) < 50
    assert deadlines.next_ms == 1


def test_nothing_is_kept_of_discarded_items():
    deadlines: Deadlines[int] = Deadlines()
    for number in range(10):
        deadlines.put(number, 1_000)
    for number in range(10):
        deadlines.discard(number)
    assert not deadlines._heap


def test_deadlines_that_were_replaced_are_forgotten():
    deadlines: Deadlines[int] = Deadlines()
    for number in range(1_000):
        deadlines.put(0, 1_000 - number)
        assert len(deadlines._heap) < 50
    assert deadlines.next_ms == 1
