"""Timers and alarms on a clock that the test advances."""

from flotilla.client._core.timers import Alarm, Timers


def test_timers_of_one_time_run_in_the_order_in_which_they_were_set() -> None:
    timers, ran = Timers(), []
    for name in "abc":
        timers.at(5, lambda name=name: ran.append(name))
    timers.at(4, lambda: ran.append("early"))
    timers.at(6, lambda: ran.append("late"))
    timers.run(5)
    assert ran == ["early", "a", "b", "c"]
    assert timers.next_ms == 6


def test_a_cancelled_timer_does_not_run() -> None:
    timers, ran = Timers(), []
    timers.at(5, lambda: ran.append("cancelled")).cancel()
    assert timers.next_ms is None
    timers.run(9)
    assert ran == []


def test_a_timer_may_cancel_another_one_that_is_due_with_it() -> None:
    timers, ran = Timers(), []
    timers.at(5, lambda: second.cancel())
    second = timers.at(5, lambda: ran.append("second"))
    timers.run(5)
    assert ran == []


def test_a_timer_that_a_timer_sets_waits_for_the_next_run() -> None:
    timers, ran = Timers(), []
    timers.at(5, lambda: timers.at(5, lambda: ran.append("next")))
    timers.run(5)
    assert ran == []
    timers.run(5)
    assert ran == ["next"]


def test_an_alarm_runs_at_the_time_to_which_it_was_moved_last() -> None:
    timers, ran = Timers(), []
    alarm = Alarm(timers, lambda: ran.append(alarm.when_ms))
    alarm.set(5)
    alarm.set(7)
    timers.run(6)
    assert (ran, alarm.when_ms) == ([], 7)
    timers.run(7)
    assert (ran, alarm.when_ms, timers.next_ms) == ([None], None, None)
    alarm.set(8)
    alarm.set(None)
    timers.run(9)
    assert len(ran) == 1


def test_an_alarm_that_is_early_enough_stays() -> None:
    timers = Timers()
    alarm = Alarm(timers, lambda: None)
    alarm.set_by(5)
    alarm.set_by(7)
    assert alarm.when_ms == 5
    alarm.set_by(3)
    assert (alarm.when_ms, timers.next_ms) == (3, 3)
