"""The choice of a poll: priorities and the share of the oldest, delays, messages that came back, and none twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.partition.commands.partition_commands import TrimTo
from flotilla.partition.explain import delivery_states as states
from flotilla.partition.leader import queue_leader
from flotilla.types.operations.queue import FAIL, RELEASE, LeaseRange
from tests.unit.partition.leading import GROUP, Leading, offsets, runs
from tests.unit.partition.naive_group import Message, NaiveGroup

# Priorities.


def test_higher_priorities_come_first_and_offsets_ascend_within() -> None:
    here = Leading()
    for priority in (0, 7, 3, 7):
        here.append(2, priority=priority)
    assert offsets(here.poll(3)) == [2, 3, 6]
    assert offsets(here.poll(3)) == [7, 4, 5]


def test_a_quarter_of_each_poll_is_for_the_oldest() -> None:
    here = Leading()
    here.append(4, priority=0)
    here.append(20, priority=7)
    assert offsets(here.poll(8)) == [*range(4, 10), 0, 1]


def test_messages_that_came_back_count_as_the_oldest() -> None:
    here = Leading()
    here.append(10, priority=0)
    here.append(10, priority=1)
    here.append(10, priority=0)
    (lease_id, *_) = here.poll(30)[0]
    here.leader.settle(GROUP, RELEASE, [LeaseRange(lease_id, 15, 17), LeaseRange(lease_id, 2, 4)], "", 0, here.now_ms)
    here.append(20, priority=7)
    assert offsets(here.poll(8)) == [*range(30, 36), 2, 3]


def test_with_polls_of_one_every_fourth_is_for_the_oldest() -> None:
    here = Leading()
    here.append(2, priority=0)
    here.append(20, priority=7)
    assert [offsets(here.poll(1))[0] for _ in range(8)] == [2, 3, 4, 0, 5, 6, 7, 1]


def test_empty_polls_do_not_count_towards_the_fourth() -> None:
    here = Leading()
    for _ in range(3):
        here.poll(1)
    here.append(1, priority=0)
    here.append(1, priority=7)
    assert offsets(here.poll(1)) == [1]


def test_messages_that_came_back_keep_their_place() -> None:
    here = Leading()
    here.append(3, priority=1)
    here.append(3, priority=5)
    leases = here.poll()
    here.settle([LeaseRange(leases[0].lease_id, 1, 5)], RELEASE)
    assert offsets(here.poll(2)) == [3, 4]
    assert offsets(here.poll(2)) == [1, 2]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5)), min_size=1, max_size=8),
    st.lists(st.integers(1, 12), min_size=1, max_size=10),
)
def test_polls_choose_as_the_simplest_choice_would(batches: list[tuple[int, int]], polls: list[int]) -> None:
    here = Leading()
    model = NaiveGroup(here.rules, now_ms=here.now_ms)
    for priority, count in batches:
        first = here.append(count, priority=priority)
        for offset in range(first, first + count):
            model.append(offset, Message(priority, 0, None))
    for count in polls:
        got = offsets(here.poll(count))
        assert got == model.choose(count)
        model.polls += bool(got)
        for offset in got:
            model.lease(offset, 1, 10**9)


# Delays.


def test_a_delayed_message_comes_when_it_is_due_and_not_before() -> None:
    here = Leading()
    here.append(1, deliver_at_ms=2_000)
    here.append(1)
    assert offsets(here.poll()) == [1]
    assert here.leader.next_event_ms(here.now_ms) == 2_000
    assert not here.pass_ms(999)
    assert here.poll() == []
    assert here.pass_ms(1)
    assert offsets(here.poll()) == [0]


def test_pain_1_a_delay_longer_than_the_lease_is_one_delivery() -> None:
    here = Leading()
    here.append(1, deliver_at_ms=here.now_ms + 24 * 3_600_000)
    for _ in range(24 * 60 - 1):
        here.pass_ms(60_000)
        assert here.poll(visibility_ms=30_000) == []
    here.pass_ms(60_000)
    leases = here.poll(visibility_ms=30_000)
    assert [(each.first, each.attempt) for each in leases] == [(0, 1)]


def test_delays_come_due_in_the_order_of_their_times() -> None:
    here = Leading()
    for deliver_at_ms in (3_000, 1_500, 2_000, 1_500):
        here.append(1, deliver_at_ms=deliver_at_ms)
    found = []
    while len(found) < 4:
        due_ms = here.leader.next_event_ms(here.now_ms)
        assert due_ms is not None
        here.pass_ms(due_ms - here.now_ms)
        found.append(offsets(here.poll(visibility_ms=3_600_000)))
        if found[-1] == [0]:
            break
    assert found == [[1, 3], [2], [0]]


def test_a_group_that_opens_later_gets_what_is_due_by_then() -> None:
    here = Leading()
    here.append(1, deliver_at_ms=1_500)
    here.append(1, deliver_at_ms=9_000)
    here.pass_ms(1_000)
    here.open("late")
    assert offsets(here.poll(group="late")) == [0]
    here.pass_ms(7_000)
    assert offsets(here.poll(group="late")) == [1]
    assert offsets(here.poll()) == [0, 1]


def test_delays_survive_the_leader() -> None:
    here = Leading()
    here.append(2, deliver_at_ms=1_500)
    here.append(2, deliver_at_ms=4_000)
    here.pass_ms(1_000)
    here.change_leader()
    assert offsets(here.poll()) == [0, 1]
    here.pass_ms(2_000)
    assert offsets(here.poll()) == [2, 3]


def test_a_leader_with_a_slow_clock_does_not_deliver_early() -> None:
    """The one before it had seen the time, and its member still has the message."""
    here = Leading()
    here.append(1, deliver_at_ms=1_500)
    here.pass_ms(500)
    held = here.poll()
    here.now_ms = 1_200
    here.change_leader()
    assert here.extend(held, 60_000) == []
    assert here.settle(held, RELEASE) == []
    assert here.state(0) == states.DELAYED
    assert here.poll() == []
    here.pass_ms(300)
    assert offsets(here.poll()) == [0]
    assert here.poll() == []


def test_a_batch_that_is_due_when_it_comes_is_ready_at_once() -> None:
    here = Leading()
    here.append(1, deliver_at_ms=here.now_ms)
    assert offsets(here.poll()) == [0]


def test_a_delayed_stretch_that_is_trimmed_in_its_midst_keeps_the_rest() -> None:
    here = Leading()
    here.append(5, deliver_at_ms=2_000)
    here.log.command(TrimTo(2, here.now_ms))
    here.pass_ms(1_000)
    assert offsets(here.poll()) == [2, 3, 4]


def test_due_stretches_that_all_groups_have_read_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_leader, "_DUE_KEPT", 10)
    here = Leading()
    for wave in range(20):
        for number in range(5):
            here.append(1, deliver_at_ms=here.now_ms + 10 + number)
        here.pass_ms(100)
        assert offsets(here.poll()) == list(range(5 * wave, 5 * wave + 5))
    assert len(here.leader.delays) <= 15


# No message is leased twice.


def test_a_message_waits_for_the_newest_of_its_times() -> None:
    """Timers of what it waited for before mean nothing."""
    here = Leading()
    here.append(1)
    first = here.poll(visibility_ms=100)
    here.settle(first, RELEASE, delay_ms=500)
    here.settle(first)
    (command,) = here.take()
    here.leader.failed(command)
    here.settle(here.poll(), FAIL, delay_ms=2_000)
    here.flush()
    here.pass_ms(1_000)
    assert here.poll() == []
    here.pass_ms(1_000)
    assert [each.attempt for each in here.poll()] == [2]


def test_runs_that_were_split_are_granted_as_runs_again() -> None:
    here = Leading()
    here.append(100)
    (lease,) = here.poll()
    here.settle([LeaseRange(lease.lease_id, offset, offset + 1) for offset in range(100)], RELEASE)
    assert runs(here.poll()) == [(0, 100)]


def test_new_messages_are_found_after_those_that_were_left() -> None:
    here = Leading()
    here.append(2)
    here.poll(1)
    here.append(2)
    assert runs(here.poll()) == [(1, 4)]


@pytest.mark.parametrize("settled", [(), (0, 2), (1, 3)])
def test_a_new_leader_begins_with_unsettled_messages(settled: tuple[int, ...]) -> None:
    here = Leading()
    here.append(4)
    (lease,) = here.poll()
    here.settle([LeaseRange(lease.lease_id, offset, offset + 1) for offset in settled])
    here.flush()
    here.change_leader()
    assert offsets(here.poll()) == [offset for offset in range(4) if offset not in settled]
    assert here.describe().ready == 0
    assert here.state(3) == (states.ACKED if 3 in settled else states.LEASED)
