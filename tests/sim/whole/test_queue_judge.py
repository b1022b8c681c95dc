"""Every promise of a queue can be broken, and its judge notices it."""

from collections.abc import Callable

import pytest

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.history import NOT_DONE, OPEN, UNKNOWN
from flotilla.sim.whole.judges import judge_time_limits
from flotilla.sim.whole.workloads.queue_audit import Stored
from flotilla.sim.whole.workloads.queue_judge import judge_queue
from flotilla.sim.whole.workloads.queue_scene import MAX_DELIVERIES, SETTLE
from tests.sim.whole.queue_records import GROUP, TERM, Records, good_records, result_of

Plant = Callable[[Records], object]


@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_good_history_is_good(is_quiet: bool) -> None:
    records = good_records()
    judge_queue(records.history, records.audit, is_quiet=is_quiet)


def _lose(records: Records) -> None:
    del records.audit.log[0, 0]


def _double(records: Records) -> None:
    records.audit.log[0, 7] = Stored("m0")


def _store_refused(records: Records) -> None:
    records.produce(7, 1, NOT_DONE)


def _find_unknown(records: Records) -> None:
    records.audit.log[0, 7] = Stored("stranger")


def _deliver_another(records: Records) -> None:
    records.deliver("a", 1, 2, lease=9).result["messages"] = [(0, 1, "m0", 1, TERM + 9)]


def _come_early(records: Records) -> None:
    records.produce(7, 1, delay_ms=8_000)
    records.deliver("a", 7, 5, lease=9)


def _come_expired(records: Records) -> None:
    records.deliver("a", 6, 20, lease=9)


def _lease_twice(records: Records) -> None:
    records.deliver("b", 0, 2.5, lease=9)


def _come_again(records: Records) -> None:
    records.deliver("b", 0, 30, lease=9)


def _forget_attempt(records: Records) -> None:
    records.deliver("d", 1, 19, attempt=1, lease=2)
    records.died("d", 19.5)


def _live_on(records: Records) -> None:
    records.produce(7, 1)
    records.deliver("d", 7, 30, attempt=MAX_DELIVERIES + 1, lease=9)


def _count_unseen(records: Records) -> None:
    records.produce(7, 25)
    records.deliver("d", 7, 27, attempt=2, lease=9)


def _leave_open(records: Records) -> None:
    records.produce(7, 1)
    records.end(7, "ready")


def _ack_by_nobody(records: Records) -> None:
    records.produce(7, 1)
    records.end(7, "acked")


def _die_by_nobody(records: Records) -> None:
    records.produce(7, 1)
    records.end(7, "dead")
    records.letter(7)


def _die_early(records: Records) -> None:
    records.produce(7, 1)
    records.end(7, "dead")
    records.letter(7, "lease expired", MAX_DELIVERIES - 1)


def _cancel_by_nobody(records: Records) -> None:
    records.produce(7, 1)
    records.cancel(7, 2, NOT_DONE)
    records.end(7, "cancelled")


def _expire_for_ever(records: Records) -> None:
    records.produce(7, 1)
    records.end(7, "expired")


def _unack(records: Records) -> None:
    records.audit.states["build", (0, 1)] = "cancelled"
    records.cancel(1, 30)


def _unreject(records: Records) -> None:
    records.audit.states["build", (0, 3)] = "cancelled"
    records.cancel(3, 20)


def _uncancel(records: Records) -> None:
    records.deliver("a", 5, 12, lease=9)


def _count_less(records: Records) -> None:
    records.describe(5, acked_total=3, lag=1, produced=5)


def _count_late(records: Records) -> None:
    records.describe(30, acked_total=1, lag=6, produced=7)


def _count_wrong(records: Records) -> None:
    records.audit.counted["build", 0]["acked"] += 1


def _lose_letter(records: Records) -> None:
    records.audit.letters["build"].clear()


def _double_letter(records: Records) -> None:
    records.letter(3)


def _redrive_twice(records: Records) -> None:
    records.audit.log[0, 7] = Stored("m3", redriven=1)


def _lose_result(records: Records) -> None:
    records.audit.results[GROUP, (0, 0)] = ""


def _answer_by_nobody(records: Records) -> None:
    records.settle("b", 0, 9, outcome=NOT_DONE)
    records.audit.results[GROUP, (0, 0)] = result_of("b", 0)


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        (_lose_result, "a result comes with its ack"),
        (_answer_by_nobody, "a result comes with its ack"),
        (_lose, "every acknowledged message is stored"),
        (_double, "no message is doubled"),
        (_store_refused, "what was not done has not happened"),
        (_find_unknown, "nothing comes from nowhere"),
        (_deliver_another, "a message is delivered as it is stored"),
        (_come_early, "no message comes early"),
        (_come_expired, "an expired message is not delivered"),
        (_lease_twice, "a message has one lease at a time"),
        (_come_again, "what is settled is not delivered again"),
        (_forget_attempt, "every failed attempt counts"),
        (_live_on, "a message dies of its last attempt"),
        (_count_unseen, "only deliveries count as attempts"),
        (_leave_open, "every message has one end"),
        (_ack_by_nobody, "what was not done has not happened"),
        (_die_by_nobody, "what was not done has not happened"),
        (_die_early, "a message dies of its last attempt"),
        (_cancel_by_nobody, "what was not done has not happened"),
        (_expire_for_ever, "what was not done has not happened"),
        (_unack, "an acknowledged message is done"),
        (_unreject, "a rejected message is dead"),
        (_uncancel, "a cancelled message is not delivered"),
        (_count_less, "a group counts every message once"),
        (_count_late, "a description shows what was done before"),
        (_count_wrong, "a group counts every message once"),
        (_lose_letter, "a dead message has one letter"),
        (_double_letter, "a dead message has one letter"),
        (_redrive_twice, "a letter is redriven once"),
    ],
)
def test_a_planted_error_is_noticed(plant: Plant, promise: str) -> None:
    records = good_records()
    plant(records)
    with pytest.raises(Violation) as caught:
        judge_queue(records.history, records.audit, is_quiet=True)
    assert caught.value.promise == promise


def _judge_faulty(records: Records) -> None:
    judge_queue(records.history, records.audit, is_quiet=False)


def test_with_faults_a_confirmed_lease_is_kept_by_the_same_leader() -> None:
    records = good_records()
    records.produce(7, 1)
    records.deliver("a", 7, 2, lease=10)
    records.deliver("b", 7, 5, lease=11)
    records.settle("b", 7, 6, lease=11)
    records.end(7, "acked")
    _judge_faulty(records)
    records.extend("a", 7, 3, 4, lease=10)
    with pytest.raises(Violation, match="one lease at a time"):
        _judge_faulty(records)
    records.lost_link("a", 4)
    _judge_faulty(records)


def test_with_faults_another_leader_may_lease_it_again() -> None:
    records = good_records()
    records.produce(7, 1)
    records.deliver("a", 7, 2, lease=10)
    records.extend("a", 7, 3, 4, lease=10)
    records.deliver("b", 7, 5, lease=TERM + 1)
    records.settle("b", 7, 6, lease=TERM + 1)
    records.end(7, "acked")
    _judge_faulty(records)


def test_a_message_may_be_cancelled_before_its_ack() -> None:
    records = good_records()
    records.produce(7, 1)
    records.deliver("a", 7, 2, lease=10)
    records.cancel(7, 3)
    records.settle("a", 7, 4, lease=10)
    records.end(7, "cancelled")
    _judge_faulty(records)


def test_what_nobody_knows_may_have_happened() -> None:
    records = good_records()
    records.produce(7, 1, UNKNOWN)
    records.deliver("a", 7, 2, lease=10)
    records.settle("a", 7, 3, outcome=UNKNOWN, lease=10)
    records.end(7, "acked")
    _judge_faulty(records)


@pytest.mark.parametrize(("ended", "outcome", "is_good"), [(9, "done", True), (12, "done", False), (-1, OPEN, False)])
def test_no_call_outlives_its_time_limit(ended: float, outcome: str, is_good: bool) -> None:
    records = Records()
    records.call("a", SETTLE, 1, ended, outcome).timeout_ms = 10_000
    if is_good:
        judge_time_limits(records.history, 60 * SECOND)
    else:
        with pytest.raises(Violation, match="outlives"):
            judge_time_limits(records.history, 60 * SECOND)


def test_a_killed_client_waits_for_nothing() -> None:
    records = Records()
    records.history.begin("a", SETTLE, 10_000)
    records.history.cut("a")
    judge_time_limits(records.history, 60 * SECOND)
