"""What clients of the task API may expect, judged by the answers that they got."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import MS
from flotilla.sim.whole.history import DONE, NOT_DONE, Call, History
from flotilla.types.lease_tokens import read_lease_token

QUEUE: Final = "work"
VISIBILITY_MS: Final = 2_000

#: Names of operations in the history.
ENQUEUE: Final = "enqueue task"
LEASE: Final = "lease tasks"
SETTLE: Final = "settle task"
STATUS: Final = "status of task"

_END_OF: Final = {"ack": "done", "reject": "dead"}


@dataclass(slots=True)
class TaskAudit:
    #: Payload and status by id.
    tasks: dict[str, tuple[Any, str]] = field(default_factory=dict)
    #: From the statistics.
    counted: dict[str, Any] = field(default_factory=dict)


class _Held(NamedTuple):
    """A task that a worker got."""

    worker: str
    task: str
    lease: int
    asked_us: int
    came_us: int


def judge_tasks(history: History, audit: TaskAudit, *, is_quiet: bool) -> None:
    """Raises Violation. `is_quiet`: nothing but workers failed in this run."""
    settled: dict[str, list[Call]] = defaultdict(list)
    for call in history.of(SETTLE):
        settled[call.arguments["task"]].append(call)
    held = [
        _Held(call.client, task["id"], read_lease_token(task["lease"]).lease_id, call.began_us, call.ended_us)
        for call in history.of(LEASE)
        for task in call.result.get("tasks", ())
    ]
    _judge_enqueued(history, audit)
    _judge_statuses(history, settled)
    _judge_ends(audit, settled)
    _judge_repeated(held, settled)
    if is_quiet:
        _judge_leases(held, settled)


def _judge_enqueued(history: History, audit: TaskAudit) -> None:
    stored = Counter(payload for payload, _ in audit.tasks.values())
    for payload, count in stored.items():
        if count > 1:
            raise Violation("no task is doubled", f"{payload} is there {count} times")
    for call in history.of(ENQUEUE):
        payload = call.arguments["payload"]
        if call.outcome == DONE and audit.tasks.get(call.result["id"], (None,))[0] != payload:
            raise Violation("every acknowledged task is stored", f"{call}")
        if call.outcome == NOT_DONE and payload in stored and "idempotency_key" not in call.arguments:
            raise Violation("what was not done has not happened", f"{call}: it is stored")


def _judge_statuses(history: History, settled: dict[str, list[Call]]) -> None:
    """A status shows what was answered before it was asked for."""
    for call in history.of(STATUS):
        if call.error.startswith("NotFoundError"):
            raise Violation("an acknowledged task is found", f"{call}")
        if call.outcome != DONE:
            continue
        for end in settled.get(call.arguments["task"], ()):
            expected = _END_OF.get(end.arguments["how"])
            is_before = end.outcome == DONE and end.ended_us < call.began_us
            if is_before and expected is not None and call.result["status"] != expected:
                raise Violation("a status shows what was done before", f"{end} and {call}")


def _judge_ends(audit: TaskAudit, settled: dict[str, list[Call]]) -> None:
    for task, (_, status) in audit.tasks.items():
        calls = settled.get(task, [])
        if status not in ("done", "dead"):
            raise Violation("every task has one end", f"{task} is {status}")
        if status == "done" and not any(call.arguments["how"] == "ack" and call.outcome != NOT_DONE for call in calls):
            raise Violation("what was not done has not happened", f"{task} is done, and nobody did that")
        for call in calls:
            expected = _END_OF.get(call.arguments["how"])
            if call.outcome == DONE and expected is not None and status != expected:
                raise Violation("a task ends as its worker was told", f"{task} is {status}: {call}")
    found = Counter(status for _, status in audit.tasks.values())
    if any(audit.counted[name] != found[name] for name in ("done", "dead", "ready", "leased", "delayed", "cancelled")):
        raise Violation("the statistics count every task once", f"{audit.counted}, {dict(found)}")


def _judge_repeated(held: list[_Held], settled: dict[str, list[Call]]) -> None:
    for each in held:
        for call in settled.get(each.task, ()):
            if call.outcome == DONE and call.arguments["how"] in _END_OF and each.asked_us > call.ended_us:
                raise Violation("what is settled is not leased again", f"{each} after {call}")


def _judge_leases(held: list[_Held], settled: dict[str, list[Call]]) -> None:
    """Without faults a worker has its task until it settles it, or until the lease that it asked for is over."""
    by_task: dict[str, list[_Held]] = defaultdict(list)
    for each in held:
        by_task[each.task].append(each)
    for each in held:
        ends = [
            call.began_us
            for call in settled.get(each.task, ())
            if call.client == each.worker and call.began_us >= each.came_us and call.arguments["how"] != "extend"
        ]
        until_us = min([each.asked_us + VISIBILITY_MS * MS, *ends])
        for other in by_task[each.task]:
            if other.lease > each.lease and other.came_us < until_us:
                raise Violation("a task has one lease at a time", f"{each} until {until_us} us, and {other}")
