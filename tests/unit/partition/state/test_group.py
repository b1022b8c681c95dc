"""One queue group: what is settled, what failed, what dies."""

import pytest

from flotilla.partition.offset_runs import RunSet
from flotilla.partition.state.group import Death, DeathRun, Failure, GroupState
from flotilla.types.limits import CUT_REASON_BYTES_MAX, GROUP_REASON_COUNT_MAX


def group(start=0, settled=()):
    state = GroupState(start, born=7)
    for first, end in settled:
        state.settle(first, end)
    return state


@pytest.mark.parametrize(
    ("settled", "floor", "above"),
    [
        ([(0, 5)], 5, []),
        ([(3, 5)], 0, [(3, 5)]),
        ([(3, 5), (0, 2)], 2, [(3, 5)]),
        ([(3, 5), (0, 3)], 5, []),
        ([(3, 5), (0, 4)], 5, []),
        ([(3, 5), (7, 9), (0, 7)], 9, []),
        ([(0, 5), (0, 5), (2, 4)], 5, []),
        ([(0, 5), (3, 8)], 8, []),
        ([(0, 5), (5, 8)], 8, []),
    ],
)
def test_the_floor_moves_over_settled_messages(settled, floor, above):
    state = group(settled=settled)
    assert state.floor == floor
    assert list(state.settled) == above
    assert [state.is_settled(offset) for offset in range(10)] == [
        offset < floor or RunSet(above).contains(offset) if above else offset < floor for offset in range(10)
    ]
    assert state.lag(10) == 10 - floor - sum(end - first for first, end in above)


def test_settling_counts_each_message_once():
    state = group(start=2)
    assert [state.settle(0, 4), state.settle(3, 6), state.settle(8, 9), state.settle(0, 10)] == [2, 2, 1, 3]
    assert state.settle(0, 10) == 0


def test_unsettled_messages_come_in_runs():
    state = group(settled=[(0, 2), (4, 6)])
    assert list(state.unsettled(0, 9)) == [(2, 4), (6, 9)]
    assert list(state.unsettled(3, 5)) == [(3, 4)]
    assert list(state.unsettled(0, 2)) == []


def test_each_failure_counts_once_and_only_for_unsettled_messages():
    state = group(settled=[(4, 6)])
    assert state.fail(2, 8, 100, "first") == 4
    assert state.fail(3, 4, 200, "second") == 1
    assert [state.attempts(offset) for offset in range(9)] == [0, 0, 1, 2, 0, 0, 1, 1, 0]
    assert state.failures.get(3) == Failure(2, 200, "second")
    assert state.by_attempts(0, 9) == [(0, 2, 0), (2, 3, 1), (3, 4, 2), (6, 8, 1), (8, 9, 0)]
    assert group().by_attempts(3, 5) == [(3, 5, 0)]


def test_settled_messages_have_no_failures():
    state = group()
    state.fail(2, 8, 100, "late")
    state.settle(3, 5)
    assert [(first, end) for first, end, _ in state.failures] == [(2, 3), (5, 8)]
    state.settle(0, 6)
    assert [(first, end) for first, end, _ in state.failures] == [(6, 8)]
    assert state.floor == 6


def test_deaths_are_numbered_in_order_and_count_the_last_attempt():
    state = group(settled=[(3, 4)])
    state.fail(2, 3, 100, "late")
    assert state.die(1, 6, "broken", 900) == 4
    assert list(state.dying) == [
        DeathRun(0, 1, 2, 1, "broken", 900),
        DeathRun(1, 2, 3, 2, "broken", 900),
        DeathRun(2, 4, 6, 1, "broken", 900),
    ]
    assert all(state.is_settled(offset) for offset in range(1, 6))
    assert state.die(0, 6, "again", 950) == 1
    assert [death[:3] for death in state.deaths(9)] == [(0, 1, 1), (1, 2, 2), (2, 4, 1), (3, 5, 1), (4, 0, 1)]
    assert state.deaths(3) == state.deaths(9)[:3]
    assert state.deaths(0) == []
    assert state.death_of(5) == Death(3, 5, 1, "broken", 900)
    assert state.death_of(3) is None
    assert state.lowest_dying() == 0


def test_the_buried_are_forgotten_in_order():
    state = group()
    state.die(2, 5, "broken", 900)
    state.die(7, 8, "broken", 900)
    assert [state.bury(below) for below in (0, 2, 2, 1)] == [0, 2, 0, 0]
    assert (state.dying_count, state.lowest_dying()) == (2, 4)
    assert [death.number for death in state.deaths(9)] == [2, 3]
    assert state.bury(4) == 2
    assert (state.dying_count, state.next_death, state.lowest_dying()) == (0, 4, None)
    state.die(9, 10, "broken", 900)
    assert [death.number for death in state.deaths(9)] == [4]


def test_deaths_are_buried_by_themselves_around_one_that_cannot_be():
    state = group()
    state.die(2, 6, "broken", 900)
    state.die(7, 9, "broken", 900)
    assert (state.bury(3, 1), state.bury(6, 4), state.bury(6, 1)) == (2, 2, 1)
    assert [(death.number, death.offset) for death in state.deaths(9)] == [(0, 2)]
    assert (state.dying_count, state.lowest_dying()) == (1, 2)
    state.die(9, 12, "broken", 900)
    assert [death.number for death in state.deaths(2, 1)] == [6, 7]
    assert [death.number for death in state.deaths(9, 7)] == [7, 8]


def test_trimming_counts_unsettled_messages():
    state = group(settled=[(2, 4), (6, 9)])
    state.fail(4, 6, 100, "late")
    state.die(1, 2, "broken", 100)
    assert state.trim(5) == 2
    assert (state.floor, list(state.failures)) == (5, [(5, 6, Failure(1, 100, "late"))])
    assert state.trim(6) == 1
    assert (state.floor, list(state.settled)) == (9, [])
    assert state.trim(3) == 0
    assert state.lowest_dying() == 1, "it is on its way all the same"


def test_a_reset_starts_again_and_keeps_the_dying():
    state = group(settled=[(0, 4), (6, 9)])
    state.fail(5, 6, 100, "late")
    state.die(9, 10, "broken", 100)
    state.reset(2, generation=11)
    assert (state.start, state.floor, state.generation, state.born) == (2, 2, 11, 7)
    assert list(state.unsettled(0, 10)) == [(2, 10)]
    assert not state.failures
    assert [death.offset for death in state.deaths(9)] == [9]
    assert state.die(9, 10, "broken", 200) == 1
    assert [death.number for death in state.deaths(9)] == [0, 1]


def test_reasons_are_cut_when_there_are_many():
    """Texts that differ for each message, such as URLs in exceptions, must not fill the memory."""
    state = group()
    for offset in range(GROUP_REASON_COUNT_MAX + 2):
        state.fail(2 * offset, 2 * offset + 1, 0, f"{offset}: {'é' * 400}")
    reasons = [failure.reason for _, _, failure in state.failures]
    assert all(len(reason) > 400 for reason in reasons[:GROUP_REASON_COUNT_MAX])
    last = reasons[-1]
    assert last.startswith(f"{GROUP_REASON_COUNT_MAX + 1}: é")
    assert len(last.encode()) <= CUT_REASON_BYTES_MAX
    state.die(1, 2, "x" * 1000, 5)
    assert state.dying[0].reason == "x" * CUT_REASON_BYTES_MAX
