"""Clients of the task API in simulated time, and planted errors that their judge must notice."""

from collections.abc import Callable

import pytest

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import SECOND, World
from flotilla.sim.whole.history import NOT_DONE, Call, History
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.run import simulate_whole
from flotilla.sim.whole.workloads.task_api.judge import ENQUEUE, LEASE, SETTLE, STATUS, TaskAudit, judge_tasks
from flotilla.types.lease_tokens import lease_token

TASK = "work.1.0.0"


def test_tasks_keep_their_promises_and_repeat() -> None:
    plan = WholePlan(1, nodes=3, duration_us=8_000_000, faults=(), workloads=("tasks",))
    first, second = simulate_whole(plan), simulate_whole(plan)
    assert first.is_good, first.failure
    assert (first.digest, first.calls) == (second.digest, second.calls)


def _call(
    history: History, client: str, operation: str, at: int, result: dict[str, object], **arguments: object
) -> Call:
    call = history.begin(client, operation, **arguments)
    history.done(call, **result)
    call.began_us, call.ended_us = at * SECOND, at * SECOND + SECOND // 2
    return call


def _lease(history: History, worker: str, at: int, number: int) -> Call:
    return _call(history, worker, LEASE, at, {"tasks": [{"id": TASK, "lease": lease_token(1, 0, number, 0)}]})


def _good() -> tuple[History, TaskAudit]:
    history = History(World(0))
    _call(history, "p", ENQUEUE, 1, {"id": TASK}, payload=1)
    _lease(history, "a", 2, 1)
    _call(history, "a", SETTLE, 4, {}, task=TASK, how="ack")
    _call(history, "a", STATUS, 5, {"status": "done"}, task=TASK)
    counted = {"done": 1, "dead": 0, "ready": 0, "leased": 0, "delayed": 0, "cancelled": 0}
    return history, TaskAudit({TASK: (1, "done")}, counted)


def test_a_good_history_is_good() -> None:
    history, audit = _good()
    judge_tasks(history, audit, is_quiet=True)


def _refuse_ack(history: History, audit: TaskAudit) -> None:
    history.of(SETTLE)[0].outcome = NOT_DONE


def _count_wrong(history: History, audit: TaskAudit) -> None:
    audit.counted["done"] = 2


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        (lambda history, audit: audit.tasks.clear(), "every acknowledged task is stored"),
        (lambda history, audit: audit.tasks.update({"work.1.0.1": (1, "done")}), "no task is doubled"),
        (lambda history, audit: audit.tasks.update({TASK: (1, "ready")}), "every task has one end"),
        (lambda history, audit: audit.tasks.update({TASK: (1, "dead")}), "a task ends as its worker was told"),
        (lambda history, audit: _lease(history, "b", 2, 2), "a task has one lease at a time"),
        (lambda history, audit: _lease(history, "b", 9, 2), "what is settled is not leased again"),
        (
            lambda history, audit: _call(history, "b", STATUS, 6, {"status": "leased"}, task=TASK),
            "a status shows what was done before",
        ),
        (_refuse_ack, "what was not done has not happened"),
        (_count_wrong, "the statistics count every task once"),
    ],
)
def test_a_planted_error_is_noticed(plant: Callable[[History, TaskAudit], object], promise: str) -> None:
    history, audit = _good()
    plant(history, audit)
    with pytest.raises(Violation) as caught:
        judge_tasks(history, audit, is_quiet=True)
    assert caught.value.promise == promise
