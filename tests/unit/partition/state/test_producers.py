"""The window against repetition: what is new, what is known, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.partition.state import producers
from flotilla.partition.state.producers import NEW, Duplicate, New, ProducerTable
from flotilla.types.errors import OutOfWindowError, ProducerFencedError, SequenceGapError

P = 7


def table(entries_max: int = 100, window_ms: int = 1000, horizon_ms: int = 0) -> ProducerTable:
    """Without a horizon the count takes the oldest at once."""
    return ProducerTable(entries_max, window_ms, horizon_ms)


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


def test_other_bounds_hold_from_the_next_stamp_on():
    found = table(entries_max=10)
    for number in range(10):
        found.record(P, 0, number, 1, number)
    found.configure(3, 500)
    found.stamp(1, 10)
    assert len(found) == 3
    assert found.check(P, 0, 7, 1) == Duplicate(7)
    assert isinstance(found.check(P, 0, 6, 1), OutOfWindowError)


# The horizon.


def test_what_is_younger_than_the_horizon_stays_however_much_comes():
    found = table(entries_max=10, window_ms=100_000, horizon_ms=3_200)
    for number in range(1_000):
        found.record(P, 0, number, 1, number)
        if number % 10 == 9:
            found.stamp(number * 10, number + 1)
    # Ten milliseconds each: 320 are in the horizon, and a mark is up to a tenth of a second late.
    assert 320 <= len(found) <= 340
    assert found.check(P, 0, 680, 1) == Duplicate(680)
    assert isinstance(found.check(P, 0, 600, 1), OutOfWindowError)


def test_producers_that_came_once_are_remembered_for_the_horizon():
    found = table(entries_max=2, window_ms=100_000, horizon_ms=3_200)
    for number in range(50):
        found.record(number + 1, 0, 0, 1, number)
    found.stamp(1_000, 50)
    found.record(99, 0, 0, 1, 50)
    found.stamp(4_199, 51)
    assert len(found.producers) == 51
    assert all(found.check(number + 1, 0, 0, 1) == Duplicate(number) for number in range(50))
    found.stamp(4_200, 51)
    # Two batches stay, and two producers without any.
    assert (len(found.producers), len(found.idle)) == (2, 2)


def test_a_burst_is_forgotten_little_by_little():
    found = table(entries_max=10, window_ms=100_000, horizon_ms=3_200)
    for number in range(10_000):
        found.record(P, 0, number, 1, number)
    found.stamp(1, 10_000)
    found.stamp(3_201, 10_000)
    assert len(found) == 10_000 - 1_024
    for number in range(100):
        found.record(P, 0, 10_000 + number, 1, 10_000 + number)
    assert len(found) == 10_000 - 1_024 - 100


def test_a_full_table_has_room_again_when_the_horizon_is_over(monkeypatch):
    monkeypatch.setattr(producers, "DEDUP_BATCH_COUNT_MAX", 90)
    found = table(entries_max=10, window_ms=100_000, horizon_ms=3_200)
    for number in range(100):
        assert not found.is_full(P)
        found.record(P, 0, number, 1, number)
    assert found.is_full(P)
    found.stamp(1_000, 100)
    assert not found.wants_stamp(4_199, 100)
    # Nothing can be stored, and still time is asked for.
    assert found.wants_stamp(4_200, 100)
    found.stamp(4_200, 100)
    assert not found.is_full(P)
    assert len(found) == 10


def test_a_full_table_takes_known_producers(monkeypatch):
    monkeypatch.setattr(producers, "DEDUP_PRODUCER_COUNT_MAX", 30)
    found = table(entries_max=10, window_ms=100_000, horizon_ms=3_200)
    for number in range(1, 51):
        found.record(number, 0, 0, 1, number)
    assert not found.is_full(50)
    assert found.is_full(51)


def test_stamps_are_frequent_only_in_a_table_that_is_half_full():
    found = table(entries_max=100, window_ms=256_000, horizon_ms=3_200)
    found.record(P, 0, 0, 1, 0)
    found.stamp(1, 1)
    for number in range(1, 51):
        found.record(P, 0, number, 1, number)
        assert found.wants_stamp(200, number + 1) == (number >= 50)
    found.stamp(200, 51)
    assert not found.wants_stamp(299, 51)


def test_marks_are_thinned_out():
    found = table(entries_max=10, window_ms=25_600_000, horizon_ms=3_200)
    for number in range(2_000):
        found.record(P, 0, number, 1, number)
        found.stamp(number * 100, number + 1)
        assert len(found.marks) <= 1_025
    young = [mark.stamp_ms for mark in found.marks if mark.stamp_ms > 1_999 * 100 - 3_200]
    assert young == [number * 100 for number in range(1_968, 2_000)]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40)), min_size=1, max_size=200),
    st.integers(1, 4),
)
def test_nothing_younger_than_the_horizon_is_forgotten(steps, entries_max):
    """Each step is a batch of a producer, and the milliseconds until the next."""
    horizon_ms = 160
    found = table(entries_max, window_ms=25_600, horizon_ms=horizon_ms)
    next_sequence: dict[int, int] = {}
    sent: list[tuple[int, int, int, int]] = []
    now_ms = 1_000
    for offset, (producer, later_ms) in enumerate(steps):
        sequence = next_sequence.get(producer, 0)
        if found.check(producer, 0, sequence, 1) is not NEW:
            # Forgotten, which is said and not guessed: it begins anew.
            assert isinstance(found.check(producer, 0, sequence, 1), OutOfWindowError)
            sequence = 0
        found.record(producer, 0, sequence, 1, offset)
        next_sequence[producer] = sequence + 1
        sent.append((now_ms, producer, sequence, offset))
        now_ms += later_ms
        if found.wants_stamp(now_ms, offset + 1):
            found.stamp(now_ms, offset + 1)
        for sent_ms, producer, sequence, offset in sent:
            if now_ms - sent_ms < horizon_ms:
                assert found.check(producer, 0, sequence, 1) == Duplicate(offset)


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
