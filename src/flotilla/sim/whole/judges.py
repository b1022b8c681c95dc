"""What every client may expect, whatever it does. Each function raises Violation."""

from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.whole.history import OPEN, History

#: A call may end this much after its time limit: timers and loops have their own pace, and clocks drift.
_GRACE_US: Final = 250 * MS
_DRIFT_PART: Final = 50
#: Errors that only a fault explains.
_FAULTY: Final = ("DeadlineError", "OutcomeUnknownError", "ConnectionClosedError")


def judge_time_limits(history: History, now_us: int) -> None:
    """No call outlives its time limit. The time in which its client is paused does not count."""
    for call in history.calls:
        if not call.timeout_ms:
            continue
        limit_us = call.timeout_ms * MS
        ended_us = now_us if call.outcome == OPEN else call.ended_us
        took_us = ended_us - call.began_us - history.frozen_us(call, ended_us)
        if took_us > limit_us + limit_us // _DRIFT_PART + _GRACE_US:
            text = f"{took_us / SECOND:.1f} s of {call.timeout_ms} ms: {call}"
            raise Violation("no call outlives its time limit", text)


def judge_answers(history: History) -> None:
    """Where nothing breaks, every call gets its answer."""
    for call in history.calls:
        if call.error.startswith(_FAULTY):
            raise Violation("without faults every call is answered", f"{call}")
