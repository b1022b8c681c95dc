"""The admission of batches by a leader: offsets, and batches that it has seen."""

import pytest

from flotilla.partition.leader.produce_admission import Assigned, DuplicateInFlight, ProduceAdmission
from flotilla.partition.state.producers import Duplicate
from flotilla.types.errors import OutOfWindowError, ProducerFencedError, SequenceGapError
from tests.unit.partition.batches import facts, new_log

P = 7


def leading(**bounds):
    log = new_log(**bounds)
    return log, ProduceAdmission(log.machine)


def admit(leader, sequence, count=1, *, epoch=0, producer=P):
    return leader.admit(facts(count, producer, epoch, sequence), f"{producer}/{epoch}/{sequence}")


def test_offsets_are_given_before_anything_is_committed():
    log, leader = leading()
    log.append(count=5)
    leader = ProduceAdmission(log.machine)
    assert [leader.admit(facts(count), None) for count in (2, 3, 1)] == [Assigned(5), Assigned(7), Assigned(10)]
    assert leader.next_offset == 11
    assert log.machine.next_offset == 5


def in_flight():
    """Producer 7 has 0-1 stored at offset 0, and 2-4, 5, 6-9 in flight at 2, 5 and 6."""
    log, leader = leading()
    assert admit(leader, 0, 2) == Assigned(0)
    assert admit(leader, 2, 3) == Assigned(2)
    assert admit(leader, 5) == Assigned(5)
    assert admit(leader, 6, 4) == Assigned(6)
    log.append(count=2, producer=P)
    return log, leader


@pytest.mark.parametrize(
    ("epoch", "sequence", "count", "expected"),
    [
        (0, 10, 1, Assigned(10)),
        (0, 0, 2, Duplicate(0)),
        (0, 1, 1, Duplicate(1)),
        (0, 2, 3, DuplicateInFlight("7/0/2", 2)),
        (0, 3, 2, DuplicateInFlight("7/0/2", 3)),
        (0, 5, 1, DuplicateInFlight("7/0/5", 5)),
        (0, 6, 4, DuplicateInFlight("7/0/6", 6)),
        # Other borders than in flight.
        (0, 2, 4, SequenceGapError),
        (0, 5, 2, SequenceGapError),
        (0, 6, 5, SequenceGapError),
        (0, 1, 2, SequenceGapError),
        (0, 11, 1, SequenceGapError),
        (1, 0, 1, Assigned(10)),
        (1, 10, 1, SequenceGapError),
    ],
)
def test_repetitions_of_batches_in_flight(epoch, sequence, count, expected):
    _, leader = in_flight()
    found = admit(leader, sequence, count, epoch=epoch)
    if isinstance(expected, type):
        assert type(found) is expected
        assert leader.next_offset == 10
    else:
        assert found == expected


def test_an_epoch_in_flight_fences_the_one_before():
    _, leader = in_flight()
    assert admit(leader, 0, epoch=1) == Assigned(10)
    assert isinstance(admit(leader, 10), ProducerFencedError)
    assert isinstance(admit(leader, 6, 4), ProducerFencedError)
    assert admit(leader, 0, epoch=1) == DuplicateInFlight("7/1/0", 10)
    assert admit(leader, 1, epoch=1) == Assigned(11)


def test_sequences_wrap_around_while_in_flight():
    top = 2**32
    log = new_log()
    log.append(producer=P, sequence=top - 3)
    leader = ProduceAdmission(log.machine)
    assert admit(leader, top - 2, 4) == Assigned(1)
    assert admit(leader, 2, 2) == Assigned(5)
    assert admit(leader, top - 2, 4) == DuplicateInFlight(f"7/0/{top - 2}", 1)
    assert admit(leader, 0, 2) == DuplicateInFlight(f"7/0/{top - 2}", 3)
    assert admit(leader, 2, 2) == DuplicateInFlight("7/0/2", 5)
    assert admit(leader, top - 3) == Duplicate(0)


def test_an_applied_batch_is_stored_and_not_in_flight_any_more():
    log, leader = in_flight()
    log.append(count=3, producer=P, sequence=2)
    assert admit(leader, 2, 3) == Duplicate(2)
    assert admit(leader, 5) == DuplicateInFlight("7/0/5", 5)


def test_producers_do_not_disturb_each_other():
    _, leader = in_flight()
    assert admit(leader, 0, producer=8) == Assigned(10)
    assert isinstance(admit(leader, 1, producer=9), OutOfWindowError)
    assert admit(leader, 10) == Assigned(11)
    assert admit(leader, 1, producer=8) == Assigned(12)


def test_a_retracted_batch_leaves_no_trace():
    _, leader = in_flight()
    assert admit(leader, 10, 5) == Assigned(10)
    leader.retract(10)
    assert leader.admit(facts(2), None) == Assigned(10)
    leader.retract(10)
    assert admit(leader, 0, epoch=1) == Assigned(10)
    leader.retract(10)
    # The older epoch is in force again, with all its batches in flight.
    assert admit(leader, 6, 4) == DuplicateInFlight("7/0/6", 6)
    assert admit(leader, 10) == Assigned(10)


def test_only_the_last_batch_can_be_retracted():
    _, leader = in_flight()
    with pytest.raises(AssertionError):
        leader.retract(5)


def test_the_next_leader_knows_what_survived():
    log, leader = in_flight()
    log.append(count=3, producer=P, sequence=2)
    leader.end()
    with pytest.raises(AssertionError):
        admit(leader, 10)
    leader = ProduceAdmission(log.machine)
    assert admit(leader, 2, 3) == Duplicate(2)
    assert admit(leader, 5) == Assigned(5)
    assert isinstance(admit(leader, 10), SequenceGapError)


def test_a_producer_may_leave_the_window_while_its_batch_is_in_flight():
    """Admitted because it was known, applied when it is not: the batch is stored all the same."""
    log = new_log(entries_max=1)
    log.append(producer=P)
    leader = ProduceAdmission(log.machine)
    others = (8, 9)
    assert [admit(leader, 0, producer=producer) for producer in others] == [Assigned(1), Assigned(2)]
    assert admit(leader, 1) == Assigned(3)
    for producer in others:
        log.append(producer=producer)
    assert P not in log.machine.producers.producers
    log.append(producer=P, sequence=1)
    assert admit(leader, 1) == Duplicate(3)


def test_stamps_are_the_leaders_to_propose():
    log, leader = leading(window_ms=1000)
    assert not leader.wants_stamp(10**9)
    log.append(producer=P)
    assert leader.wants_stamp(1)
