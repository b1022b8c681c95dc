"""Outcomes of leases: how a message is settled, and the exceptions by which a handler decides it.

Any other exception of a handler is a failure: it counts as an attempt, and its text is the reason.
"""

from typing import NamedTuple

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import REASON_BYTES_MAX
from flotilla.types.operations.queue import ACK, BY_BACKOFF, FAIL, REJECT, RELEASE


class Reject(Exception):  # noqa: N818 - a decision of the handler, not an error.
    """The message can never be handled: it becomes a dead letter at once."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):  # noqa: N818
    """The message is delivered again later. It counts as an attempt, unless `is_counted` is False."""

    def __init__(self, delay_ms: int = BY_BACKOFF, *, reason: str = "", is_counted: bool = True) -> None:
        super().__init__(reason)
        self.delay_ms = delay_ms
        self.reason = reason
        self.is_counted = is_counted


class Outcome(NamedTuple):
    """How a lease is settled."""

    kind: int
    reason: str = ""
    delay_ms: int = BY_BACKOFF


ACKED = Outcome(ACK)
#: Does not count as an attempt, and is delivered again at once.
RELEASED = Outcome(RELEASE, "", 0)


def outcome_of(error: BaseException | None) -> Outcome:
    """The outcome of a message whose handler ended with `error`."""
    if error is None:
        return ACKED
    if isinstance(error, Reject):
        return Outcome(REJECT, cut_reason(error.reason))
    if isinstance(error, Retry):
        return Outcome(FAIL if error.is_counted else RELEASE, cut_reason(error.reason), error.delay_ms)
    if isinstance(error, Exception):
        return Outcome(FAIL, cut_reason(f"{type(error).__name__}: {error}"))
    # The handler was interrupted from outside; the message is not the cause.
    return RELEASED


def is_decision(error: BaseException | None) -> bool:
    """Whether the exception is a decision of the handler."""
    return isinstance(error, Reject | Retry)


def cut_reason(reason: str) -> str:
    """The reason, at most as many characters as a broker stores bytes."""
    return reason if len(reason) <= REASON_BYTES_MAX else reason[: REASON_BYTES_MAX - 1] + "…"


def failed(reason: str, delay_ms: int | None) -> Outcome:
    """The outcome of `nack`."""
    return Outcome(FAIL, cut_reason(reason), checked_delay(delay_ms))


def released(delay_ms: int) -> Outcome:
    return Outcome(RELEASE, "", checked_delay(delay_ms))


def rejected(reason: str) -> Outcome:
    return Outcome(REJECT, cut_reason(reason))


def checked_delay(delay_ms: int | None) -> int:
    if delay_ms is None:
        return BY_BACKOFF
    if delay_ms < 0:
        raise InvalidArgumentError(f"delay_ms counts from now on and cannot be {delay_ms}")
    return delay_ms
