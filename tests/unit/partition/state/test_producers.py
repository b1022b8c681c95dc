"""The window against repetition: what is new, what is known, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.partition.state.producers import NEW, Duplicate, New, ProducerTable
from flotilla.types.errors import OutOfWindowError, ProducerFencedError, SequenceGapError

P = 7


def table(entries_max: int = 100, window_ms: int = 1000) -> ProducerTable:
    return ProducerTable(entries_max, window_ms)


def stored() -> ProducerTable:
    """Producer 7, epoch 2: records 0-2 at offset 10, 3 at 20, 4-8 at 30; 9 comes next."""
    found = table()
    found.record(P, 2, 0, 3, 10)
    found.record(P, 2, 3, 1, 20)
    found.record(P, 2, 4, 5, 30)
    return found


@pytest.mark.parametrize(
    ("epoch", "sequence", "count", "expected"),
    [
        (2, 9, 1, NEW),
        (2, 9, 1000, NEW),
        (2, 0, 3, Duplicate(10)),
        (2, 3, 1, Duplicate(20)),
        (2, 4, 5, Duplicate(30)),
        # A part of a stored batch is where it is in that batch.
        (2, 5, 2, Duplicate(31)),
        (2, 8, 1, Duplicate(34)),
        (2, 2, 1, Duplicate(12)),
        # Over the border of two batches, or half known: there is no one answer.
        (2, 0, 4, SequenceGapError),
        (2, 8, 2, SequenceGapError),
        (2, 4, 6, SequenceGapError),
        # Ahead.
        (2, 10, 1, SequenceGapError),
        (2, 2**31, 1, SequenceGapError),
        # Before the first: from the other side of the circle.
        (2, 2**32 - 1, 1, OutOfWindowError),
        # Other epochs.
        (1, 9, 1, ProducerFencedError),
        (1, 0, 3, ProducerFencedError),
        (3, 0, 3, NEW),
        (3, 9, 1, SequenceGapError),
    ],
)
def test_batches_of_a_known_producer(epoch, sequence, count, expected):
    found = stored().check(P, epoch, sequence, count)
    if isinstance(expected, type):
        assert type(found) is expected
    else:
        assert found == expected


@pytest.mark.parametrize(("sequence", "expected"), [(0, New), (1, OutOfWindowError)])
def test_a_stranger_begins_at_zero(sequence, expected):
    assert isinstance(stored().check(8, 0, sequence, 1), expected)


def test_a_check_changes_nothing():
    found = stored()
    before = (len(found), found.producers[P].next_sequence)
    for sequence in (0, 9, 10):
        found.check(P, 2, sequence, 1)
        found.check(8, 0, sequence, 1)
    assert (len(found), found.producers[P].next_sequence) == before
    assert list(found.producers) == [P]


def test_a_new_epoch_ends_the_old_one_and_its_answers():
    found = stored()
    found.record(P, 3, 0, 2, 40)
    assert found.check(P, 3, 0, 2) == Duplicate(40)
    assert found.check(P, 3, 2, 1) is NEW
    assert isinstance(found.check(P, 2, 9, 1), ProducerFencedError)
    # Sequence 4 was stored by the old epoch: for the new one it is ahead.
    assert isinstance(found.check(P, 3, 4, 5), SequenceGapError)


def test_sequences_go_round():
    found = table()
    top = 2**32
    found.record(P, 0, top - 4, 3, 10)
    found.record(P, 0, top - 1, 4, 20)
    found.record(P, 0, 3, 2, 30)
    assert found.check(P, 0, 5, 1) is NEW
    assert found.check(P, 0, top - 4, 3) == Duplicate(10)
    assert found.check(P, 0, top - 1, 4) == Duplicate(20)
    assert found.check(P, 0, 1, 2) == Duplicate(22)
    assert found.check(P, 0, 3, 2) == Duplicate(30)
    assert isinstance(found.check(P, 0, top - 5, 1), OutOfWindowError)


def test_the_window_is_bounded_by_count_and_the_oldest_leave_first():
    found = table(entries_max=3)
    for number in range(5):
        found.record(P, 0, number, 1, 100 + number)
    assert len(found) == 3
    assert isinstance(found.check(P, 0, 1, 1), OutOfWindowError)
    assert found.check(P, 0, 2, 1) == Duplicate(102)


def test_a_producer_that_left_the_window_may_go_on_but_not_repeat():
    found = table(entries_max=2)
    found.record(P, 4, 0, 5, 0)
    found.record(8, 0, 0, 1, 5)
    found.record(8, 0, 1, 1, 6)
    assert P not in found.producers
    assert found.check(P, 4, 5, 1) is NEW
    assert isinstance(found.check(P, 4, 0, 5), OutOfWindowError)
    assert isinstance(found.check(P, 4, 6, 1), SequenceGapError)
    assert isinstance(found.check(P, 3, 5, 1), ProducerFencedError)
    assert found.check(P, 5, 0, 1) is NEW
    found.record(P, 4, 5, 1, 7)
    assert found.check(P, 4, 5, 1) == Duplicate(7)
    assert P not in found.idle


def test_the_memory_of_idle_producers_is_bounded_too():
    found = table(entries_max=2)
    for producer in range(1, 7):
        found.record(producer, 0, 0, 1, producer)
    assert list(found.producers) == [5, 6]
    assert list(found.idle) == [3, 4]
    assert isinstance(found.check(2, 0, 1, 1), OutOfWindowError)


def test_slots_that_left_are_given_back():
    found = table(entries_max=10)
    for number in range(10_000):
        found.record(P, 0, number, 1, number)
    assert len(found.producers[P].offsets) < 200
    assert found.check(P, 0, 9_990, 1) == Duplicate(9_990)
    assert isinstance(found.check(P, 0, 9_989, 1), OutOfWindowError)


def test_giving_slots_back_keeps_epochs_apart():
    found = table(entries_max=50)
    for number in range(100):
        found.record(P, 0, number, 1, number)
    for number in range(14):
        found.record(P, 1, number, 1, 100 + number)
    assert found.producers[P].head == 0, "the slots of 64 batches were freed"
    assert [found.check(P, 1, number, 1) for number in range(14)] == [Duplicate(100 + n) for n in range(14)]
    assert isinstance(found.check(P, 1, 64, 1), SequenceGapError)


# Time.


def test_batches_older_than_the_window_are_forgotten():
    found = table(window_ms=1000)
    found.record(P, 0, 0, 1, 0)
    found.stamp(5_000, 1)
    found.record(P, 0, 1, 1, 1)
    found.stamp(5_999, 2)
    assert found.check(P, 0, 0, 1) == Duplicate(0)
    found.stamp(6_000, 2)
    assert isinstance(found.check(P, 0, 0, 1), OutOfWindowError)
    assert found.check(P, 0, 1, 1) == Duplicate(1)
    found.stamp(6_999, 2)
    # The last batch is gone, and with it the producer: after a whole window nothing is remembered.
    assert len(found) == 0
    assert found.check(P, 0, 0, 1) is NEW
    assert not found.idle


def test_a_batch_after_a_long_rest_is_not_forgotten_by_the_next_stamp():
    """No stamp for a week: batches stored since are as old as the next stamp says, not as the last one."""
    found = table(window_ms=1000)
    found.record(P, 0, 0, 1, 0)
    found.stamp(5_000, 1)
    found.record(P, 0, 1, 1, 1)
    found.stamp(900_000, 2)
    assert found.check(P, 0, 1, 1) == Duplicate(1)
    assert isinstance(found.check(P, 0, 0, 1), OutOfWindowError)


def test_an_idle_producer_is_forgotten_in_time():
    found = table(entries_max=1, window_ms=1000)
    found.record(P, 0, 0, 1, 0)
    found.record(8, 0, 0, 1, 1)
    found.stamp(1, 2)
    assert P in found.idle
    found.stamp(1_001, 2)
    assert P not in found.idle


def test_stamps_are_wanted_only_where_they_help():
    found = table(window_ms=2560)
    assert not found.wants_stamp(10**6, 0)
    found.record(P, 0, 0, 1, 0)
    assert found.wants_stamp(0, 1)
    found.stamp(100, 1)
    assert not found.wants_stamp(2_000, 1), "nothing was stored since"
    assert found.wants_stamp(2_660, 1), "something can be forgotten"
    found.record(P, 0, 1, 1, 1)
    assert not found.wants_stamp(109, 2), "too soon to matter"
    assert found.wants_stamp(110, 2)
    found.stamp(110, 2)
    found.stamp(2_670, 2)
    assert not found.wants_stamp(10**6, 2), "an empty window needs no time"


def test_marks_are_bounded():
    found = table(window_ms=2560)
    for now_ms in range(10_000):
        found.record(P, 0, now_ms, 1, now_ms)
        found.stamp(now_ms, now_ms + 1)
    assert len(found.marks) <= 257


def test_other_bounds_hold_at_once():
    found = table(entries_max=10)
    for number in range(10):
        found.record(P, 0, number, 1, number)
    found.configure(3, 500)
    assert len(found) == 3
    assert found.check(P, 0, 7, 1) == Duplicate(7)
    assert isinstance(found.check(P, 0, 6, 1), OutOfWindowError)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=50), st.integers(0, 2**32 - 1))
def test_every_part_of_every_batch_is_found_where_it_is(counts, start):
    found = table()
    sequence = start
    offset = 0
    for count in counts:
        found.record(P, 0, sequence & (2**32 - 1), count, offset)
        sequence += count
        offset += count + 1
    sequence = start
    offset = 0
    for count in counts:
        for into in range(count):
            first = (sequence + into) & (2**32 - 1)
            assert found.check(P, 0, first, count - into) == Duplicate(offset + into)
        sequence += count
        offset += count + 1
    assert found.check(P, 0, sequence & (2**32 - 1), 1) is NEW
