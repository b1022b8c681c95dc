"""When records were stored: never taken for older than they are, and known closely enough."""

from hypothesis import given
from hypothesis import strategies as st

from flotilla.partition.state.stored_times import GAP_MS_MIN, StoredTimes


def test_records_before_a_stamp_are_older_than_it():
    stored = StoredTimes()
    stored.note(10_000, 5)
    stored.note(20_000, 9)
    assert [stored.end_before(time_ms) for time_ms in (9_999, 10_000, 19_999, 20_000)] == [0, 5, 5, 9]


def test_redundant_stamps_are_not_kept():
    stored = StoredTimes()
    stored.note(10_000, 0)
    stored.note(10_000, 5)
    stored.note(10_000 + GAP_MS_MIN - 1, 6)
    stored.note(20_000, 5)
    assert list(stored.ends) == [5]


def test_a_stamp_is_due_when_something_is_stored_that_none_speaks_of():
    stored = StoredTimes()
    assert not stored.is_due(0, 0, 5_000)
    assert stored.is_due(0, 1, 5_000)
    stored.note(10_000, 1)
    assert not stored.is_due(90_000, 1, 5_000)
    assert not stored.is_due(14_999, 2, 5_000)
    assert stored.is_due(15_000, 2, 5_000)


def test_stamps_of_trimmed_records_are_dropped():
    stored = StoredTimes()
    for number in range(1, 6):
        stored.note(number * 10_000, number * 10)
    stored.forget_below(25)
    assert list(stored.ends) == [30, 40, 50]


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 50)), max_size=200), st.integers(0, 10**7))
def test_nothing_is_taken_for_older_than_it_is(steps, asked_ms):
    stored = StoredTimes()
    now_ms, end = 0, 0
    at: dict[int, int] = {}
    for elapsed_ms, count in steps:
        now_ms += elapsed_ms
        for offset in range(end, end + count):
            at[offset] = now_ms
        end += count
        stored.note(now_ms, end)
    old = stored.end_before(asked_ms)
    assert all(at[offset] <= asked_ms for offset in range(old))


def test_the_number_of_stored_times_is_bounded():
    stored = StoredTimes()
    for number in range(1, 200_000):
        stored.note(number * GAP_MS_MIN, number)
    assert len(stored.ends) < 4_096
    # Within two and a half days, times are known to the hour.
    span_ms = 200_000 * GAP_MS_MIN
    old = stored.end_before(span_ms // 2)
    assert span_ms // 2 - 3_600_000 < old * GAP_MS_MIN <= span_ms // 2
