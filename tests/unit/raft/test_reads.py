"""Read rounds: fresh numbers, and one round for all waiting reads."""

import pytest

from flotilla.raft.reads import ReadQueue


def test_reads_that_come_before_a_round_is_sent_share_it():
    reads = ReadQueue(first_id=0)
    reads.add(10, asking=0, read_id=1)
    reads.add(11, asking=2, read_id=7)
    assert reads.sequence == 1
    reads.sequence_sent = 1
    reads.add(12, asking=0, read_id=2)
    assert reads.sequence == 2
    assert reads.take_confirmed(1) == [(0, 1, 10), (2, 7, 11)]
    assert reads.take_confirmed(1) == []
    assert reads.take_confirmed(2) == [(0, 2, 12)]


def test_an_older_reply_never_confirms_a_younger_read():
    reads = ReadQueue(first_id=0)
    reads.add(10, asking=0, read_id=1)
    reads.sequence_sent = 1
    reads.add(20, asking=0, read_id=2)
    reads.sequence_sent = 2
    reads.acknowledge(3, 1)
    reads.acknowledge(3, 1)
    assert reads.acknowledged == {3: 1}
    reads.acknowledge(3, 2)
    reads.acknowledge(3, 1)
    assert reads.acknowledged == {3: 2}


def test_a_reply_to_a_round_that_was_never_sent_is_a_bug():
    with pytest.raises(AssertionError):
        ReadQueue(first_id=0).acknowledge(2, 1)


def test_ids_go_on_from_the_first():
    reads = ReadQueue(first_id=1 << 40)
    assert [reads.fresh_id() for _ in range(3)] == [(1 << 40) + 1, (1 << 40) + 2, (1 << 40) + 3]


def test_the_end_of_leadership_drops_all_reads_and_returns_the_own_ones():
    reads = ReadQueue(first_id=0)
    reads.deferred.append((0, 5))
    reads.add(10, asking=0, read_id=6)
    reads.add(10, asking=3, read_id=9)
    reads.forwarded[8] = None
    assert reads.drop_all() == [6, 5, 8]
    assert reads.count() == 0
    assert reads.sequence == 0
