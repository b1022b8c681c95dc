"""Idempotency keys: a window of stored keys, and keys in flight before it."""

import pytest

from flotilla.partition.commands.partition_commands import ConfigureDedup, StampTime
from flotilla.partition.leader.produce_admission import Assigned, DuplicateInFlight, KnownKeys, ProduceAdmission
from flotilla.partition.state.idempotency_keys import KeyTable, digests_of
from flotilla.partition.state.producers import Duplicate
from flotilla.types.errors import InvalidArgumentError, OutOfWindowError
from tests.unit.partition.batches import facts, new_log

A, B, C, D = b"a", b"b", b"c", b"d"


def known(table):
    return [table.offsets.get(digest) for digest in digests_of((A, B, C, D))]


def test_the_window_is_bounded_by_count():
    table = KeyTable(3)
    table.record(10, (A, b"", B))
    table.record(20, (C,))
    assert known(table) == [10, 12, 20, None]
    table.record(30, (D,))
    assert known(table) == [None, 12, 20, 30]
    table.configure(1)
    assert known(table) == [None, None, None, 30]
    assert len(table) == 1


def test_the_first_record_stays_the_first():
    table = KeyTable(3)
    table.record(10, (A,))
    table.record(20, (A, B))
    assert known(table) == [10, 21, None, None]
    table.forget_below(11)
    assert known(table) == [None, 21, None, None]


def test_keys_are_forgotten_by_the_stamps_of_producers():
    log = new_log(window_ms=1_000)
    leader = ProduceAdmission(log.machine)
    assert not leader.wants_stamp(5_000)
    log.append(keys=[A])
    assert leader.wants_stamp(5_000), "nothing else would carry the time"
    log.command(StampTime(5_000))
    log.append(keys=[B])
    assert known(log.machine.keys) == [0, 1, None, None]
    log.command(StampTime(6_000))
    assert known(log.machine.keys) == [None, 1, None, None]
    log.command(StampTime(7_000))
    assert len(log.machine.keys) == 0
    assert not leader.wants_stamp(50_000)


def test_bounds_come_through_the_log():
    log = new_log()
    log.command(ConfigureDedup(1_000, 60_000, 1))
    assert log.machine.keys.entries_max == 1_000


def in_flight():
    """A and B stored at 0 and 1, C in flight at 2."""
    log = new_log()
    log.append(keys=[A, B])
    leader = ProduceAdmission(log.machine)
    assert leader.admit(facts(keys=[C]), "third") == Assigned(2)
    return log, leader


@pytest.mark.parametrize(
    ("keys", "producer", "expected"),
    [
        ([D], 0, Assigned(3)),
        ([D, b""], 0, Assigned(3)),
        ([b"", b""], 0, Assigned(3)),
        ([A, B], 0, Duplicate(0)),
        ([B], 0, Duplicate(1)),
        ([B, C], 0, DuplicateInFlight("third", 1)),
        ([C], 0, DuplicateInFlight("third", 2)),
        # Not as they are stored: the producer must take them apart.
        ([B, A], 0, KnownKeys((0, 1), (1, 0))),
        ([A, b""], 0, KnownKeys((0,), (0,))),
        ([D, B], 0, KnownKeys((1,), (1,))),
        ([A, D, C], 0, KnownKeys((0, 2), (0, 2), "third")),
        # The sequence of one that counts was not used.
        ([A, B], 7, KnownKeys((0, 1), (0, 1))),
        ([C], 7, KnownKeys((0,), (2,), "third")),
        ([D], 7, Assigned(3)),
    ],
)
def test_a_key_is_stored_once(keys, producer, expected):
    _, leader = in_flight()
    assert leader.admit(facts(keys=keys, producer=producer), "now") == expected
    assert leader.next_offset == (3 + len(keys) if isinstance(expected, Assigned) else 3)


@pytest.mark.parametrize(("keys", "offsets"), [([C, D], (2, 3)), ([D, C], (3, 2))])
def test_the_answer_waits_for_the_newest_batch_in_flight(keys, offsets):
    _, leader = in_flight()
    assert leader.admit(facts(keys=[D]), "fourth") == Assigned(3)
    assert leader.admit(facts(keys=[*keys, b"e"]), "now") == KnownKeys((0, 1), offsets, "fourth")


def test_keys_of_a_retracted_batch_leave_no_trace():
    _, leader = in_flight()
    assert isinstance(leader.admit(facts(keys=[A, D], producer=7), "now"), KnownKeys)
    assert leader.admit(facts(keys=[D], producer=7), "now") == Assigned(3)
    assert isinstance(leader.admit(facts(keys=[b"e"], producer=8, sequence=5), "now"), OutOfWindowError)
    assert leader.admit(facts(keys=[b"e"], producer=8), "now") == Assigned(4)


def test_two_equal_keys_in_one_batch_are_refused():
    _, leader = in_flight()
    assert isinstance(leader.admit(facts(keys=[D, b"", D]), "now"), InvalidArgumentError)
    assert leader.next_offset == 3
    assert leader.admit(facts(keys=[D]), "now") == Assigned(3)


def test_the_sequence_is_judged_before_the_keys():
    log, leader = in_flight()
    log.append(keys=[C])
    log.append(producer=7, keys=[D])
    leader = ProduceAdmission(log.machine)
    assert leader.admit(facts(keys=[D], producer=7), "again") == Duplicate(3)


def test_keys_in_flight_are_stored_when_they_are_applied():
    log, leader = in_flight()
    log.append(keys=[C])
    assert leader.admit(facts(keys=[C]), "now") == Duplicate(2)
    assert leader.admit(facts(keys=[D]), "now") == Assigned(3)


def test_a_retracted_batch_takes_its_keys_along():
    _, leader = in_flight()
    assert leader.admit(facts(keys=[D], producer=7), "now") == Assigned(3)
    leader.retract(3)
    assert leader.admit(facts(), None) == Assigned(3)
    leader.retract(3)
    assert leader.admit(facts(keys=[D], producer=7), "now") == Assigned(3)


def test_the_next_leader_knows_what_survived():
    log, leader = in_flight()
    leader.end()
    leader = ProduceAdmission(log.machine)
    assert leader.admit(facts(keys=[C]), "now") == Assigned(2)
    assert leader.admit(facts(keys=[B]), "now") == Duplicate(1)
