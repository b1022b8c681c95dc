"""Idempotency keys: a window of stored keys, and keys in flight before it."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.partition.commands.partition_commands import ConfigureDedup, StampTime
from flotilla.partition.leader.produce_admission import Assigned, DuplicateInFlight, KnownKeys, ProduceAdmission
from flotilla.partition.state import idempotency_keys
from flotilla.partition.state.idempotency_keys import KeyTable, digests_of
from flotilla.partition.state.producers import Duplicate
from flotilla.types.errors import InvalidArgumentError, OutOfWindowError, OverloadedError
from tests.unit.partition.batches import facts, new_log

A, B, C, D = b"a", b"b", b"c", b"d"


def known(table):
    return [table.get(digest) for digest in digests_of((A, B, C, D))]


def test_keys_have_the_offset_of_their_record():
    table = KeyTable(3)
    table.record(10, (A, b"", B))
    table.record(20, (C,))
    assert known(table) == [10, 12, 20, None]
    assert len(table) == 3


def test_the_first_record_stays_the_first():
    table = KeyTable(3)
    table.record(10, (A,))
    table.record(20, (A, B))
    assert known(table) == [10, 21, None, None]
    table.forget_below(11, 1)
    assert known(table) == [None, 21, None, None]
    table.record(30, (A,))
    assert known(table) == [30, 21, None, None]


def test_the_count_takes_keys_that_are_older_than_the_horizon():
    log = new_log(entries_max=2, window_ms=100_000, horizon_ms=3_200)
    for key in (A, B, C):
        log.append(keys=[key])
    log.command(StampTime(1_000))
    log.append(keys=[D])
    log.append(keys=[b"e"])
    log.command(StampTime(1_100))
    assert known(log.machine.keys) == [0, 1, 2, 3]
    log.command(StampTime(4_199))
    assert known(log.machine.keys) == [0, 1, 2, 3]
    log.command(StampTime(4_200))
    assert known(log.machine.keys) == [None, None, None, 3]
    # As many as the count stay, whatever their age.
    log.command(StampTime(50_000))
    assert known(log.machine.keys) == [None, None, None, 3]
    log.command(StampTime(101_100))
    assert len(log.machine.keys) == 0


def test_a_full_table_takes_no_new_keys_and_knows_the_old_ones(monkeypatch):
    monkeypatch.setattr(idempotency_keys, "DEDUP_KEY_COUNT_MAX", 1)
    log = new_log(entries_max=2, window_ms=100_000, horizon_ms=3_200)
    log.append(keys=[A, B, C])
    leader = ProduceAdmission(log.machine)
    before = log.machine.snapshot()
    refused = leader.admit(facts(keys=[D]), "now")
    assert isinstance(refused, OverloadedError)
    assert refused.retryable
    assert leader.admit(facts(keys=[B]), "now") == Duplicate(1)
    assert leader.admit(facts(), None) == Assigned(3)
    leader.retract(3)
    assert (leader.next_offset, log.machine.snapshot()) == (3, before)
    log.command(StampTime(1_000))
    assert isinstance(leader.admit(facts(keys=[D]), "now"), OverloadedError)
    assert leader.wants_stamp(4_200)
    log.command(StampTime(4_200))
    # One mark covers all three, and two have to stay.
    assert isinstance(leader.admit(facts(keys=[D]), "now"), OverloadedError)
    log.command(StampTime(101_000))
    assert leader.admit(facts(keys=[D]), "now") == Assigned(3)


def test_a_key_across_the_border_of_two_is_not_found():
    table = KeyTable(10)
    first, second = (digest + (7).to_bytes(8, "little") for digest in digests_of((A, B)))
    table.buckets[0] = first + second
    table.recorded = 2
    assert table.get((first + second)[8:24]) is None
    assert known(table)[:2] == [7, 7]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.booleans()), max_size=400), st.integers(0, 9))
def test_a_table_knows_what_a_dict_would(steps, seed):
    """Keys come, the oldest are forgotten, snapshots are taken and restored."""
    table, twin = KeyTable(5), KeyTable(5)
    expected: dict[bytes, int] = {}
    order: list[tuple[bytes, int]] = []
    for offset, (number, forgotten, is_restored) in enumerate(steps):
        key = b"%d/%d" % (seed, number)
        table.record(offset, (key,))
        twin.record(offset, (key,))
        if key not in expected:
            expected[key] = offset
            order.append((key, offset))
        if not forgotten:
            for each in (table, twin):
                each.forget_below(offset - 3, sum(at < offset - 3 for _, at in order))
            expected = {key: at for key, at in expected.items() if at >= offset - 3}
        if is_restored:
            view = table.freeze()
            live = [bucket for step in view.steps() for bucket in step]
            table = KeyTable.restored(5, view._replace(buckets=live))
        assert len(table) == len(expected)
    assert [bytes(b) for s in table.freeze().steps() for b in s] == [bytes(b) for s in twin.freeze().steps() for b in s]
    digests = digests_of([b"%d/%d" % (seed, number) for number in range(61)])
    assert [table.get(digest) for digest in digests] == [
        expected.get(b"%d/%d" % (seed, number)) for number in range(61)
    ]


def test_a_key_takes_few_bytes():
    table = KeyTable(10)
    tracemalloc.start()
    for base_offset in range(0, 5_000, 100):
        table.record(base_offset, [b"key %d" % number for number in range(base_offset, base_offset + 100)])
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 5_000
    assert size_bytes < 36 * 5_000


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
