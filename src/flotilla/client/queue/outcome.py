"""Outcomes of leases, and the exceptions by which a handler chooses one.

`Reject`, `Retry` and `Release` are decisions of the handler. Any other exception is a failure: it counts as an attempt,
and its text and traceback are the reason.
"""

from asyncio import coroutines
from logging import Logger
from traceback import extract_tb
from types import TracebackType
from typing import NamedTuple

from flotilla.client._duration import Duration, milliseconds
from flotilla.types.dead_letters import TRACED, cut_reason, with_traceback
from flotilla.types.errors import InvalidArgumentError, WrongTypeError
from flotilla.types.limits import RESULT_BYTES_MAX
from flotilla.types.operations.queue import ACK, BY_BACKOFF, FAIL, REJECT, RELEASE


class Reject(Exception):  # noqa: N818 - a decision of the handler, not an error.
    """Raised by a handler: the message can never succeed, and becomes a dead letter at once, as by `reject`."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):  # noqa: N818
    """Raised by a handler: deliver the message again after `delay_ms`, or the group's backoff, as by `nack`.

    It counts as an attempt.
    """

    def __init__(self, delay_ms: Duration | None = None, *, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_ms = checked_delay(delay_ms)
        self.reason = reason


class Release(Exception):  # noqa: N818
    """Raised by a handler: deliver the message again after `delay_ms`, as by `release`.

    It does not count as an attempt.
    """

    def __init__(self, delay_ms: Duration = 0) -> None:
        super().__init__()
        self.delay_ms = checked_delay(delay_ms)


class Outcome(NamedTuple):
    """How a lease ends."""

    kind: int
    reason: str = ""
    delay_ms: int = BY_BACKOFF
    #: Of one acked message; None: it has none.
    result: bytes | None = None
    #: False: it has a result that cannot be kept.
    is_result_kept: bool = True


ACKED = Outcome(ACK)
#: Acked with a result that cannot be kept.
ACKED_UNKEPT = Outcome(ACK, result=b"", is_result_kept=False)
#: Delivered again at once; does not count as an attempt.
RELEASED = Outcome(RELEASE, "", 0)


def kind_of(error: BaseException | None) -> int:
    """The kind of that outcome alone, without a reason."""
    if error is None:
        return ACK
    if isinstance(error, Reject):
        return REJECT
    return FAIL if isinstance(error, Exception) and not isinstance(error, Release) else RELEASE


def outcome_of(error: BaseException | None) -> Outcome:
    """The outcome of a message whose handler ended with this exception, or (None) without any."""
    if error is None:
        return ACKED
    if isinstance(error, Reject):
        return Outcome(REJECT, cut_reason(error.reason))
    if isinstance(error, Retry):
        return Outcome(FAIL, cut_reason(error.reason), error.delay_ms)
    if isinstance(error, Release):
        return Outcome(RELEASE, "", error.delay_ms)
    if isinstance(error, Exception):
        return Outcome(FAIL, with_traceback(f"{type(error).__name__}: {error}", _places(error.__traceback__)))
    # Interrupted from outside: not a failure of the message.
    return RELEASED


def _places(traceback: TracebackType | None) -> list[str]:
    """The lines of a traceback, from the handler on. Paths are short: logs have them whole."""
    from pathlib import Path

    frames = extract_tb(traceback)
    library = Path(coroutines.__file__).parents[1]
    #: Where handlers are called.
    callers = (Path(__file__).parents[1], library / "asyncio", library / "concurrent")
    while frames and any(Path(frames[0].filename).is_relative_to(folder) for folder in callers):
        del frames[0]
    return [
        f'{TRACED}{"/".join(Path(frame.filename).parts[-2:])}", line {frame.lineno}, in {frame.name}\n    {frame.line}'
        for frame in frames
    ]


def is_decision(error: BaseException | None) -> bool:
    """Whether the handler chose the outcome."""
    return isinstance(error, Reject | Retry | Release)


def log_outcome(log: Logger, place: str, attempt: int, error: BaseException) -> None:
    """Logs why a handler did not acknowledge its message: a line for a decision, the traceback for a failure."""
    if isinstance(error, Release) or not isinstance(error, Exception):
        log.info("%s, attempt %d, is released", place, attempt)
    elif isinstance(error, Reject):
        log.warning("%s, attempt %d, is rejected: %s", place, attempt, error.reason)
    elif isinstance(error, Retry):
        log.warning("%s, attempt %d, is retried: %s", place, attempt, error.reason)
    else:
        log.warning("%s, attempt %d, failed: %r", place, attempt, error, exc_info=error)


def acked(result: bytes | None) -> Outcome:
    """Raises InvalidArgumentError for a result that is too large, and WrongTypeError for one that is not bytes."""
    if result is None:
        return ACKED
    if not isinstance(result, bytes):
        raise WrongTypeError(f"a result is bytes, not {type(result).__name__}")
    if len(result) > RESULT_BYTES_MAX:
        raise InvalidArgumentError(f"a result has at most {RESULT_BYTES_MAX} bytes, not {len(result)}")
    return Outcome(ACK, result=result)


def returned(value: object) -> Outcome:
    """The outcome of a message whose handler returned: bytes are its result, anything else is ignored."""
    if not isinstance(value, bytes):
        return ACKED
    return acked(value) if len(value) <= RESULT_BYTES_MAX else ACKED_UNKEPT


def failed(reason: str, delay_ms: Duration | None) -> Outcome:
    return Outcome(FAIL, cut_reason(reason), checked_delay(delay_ms))


def released(delay_ms: Duration) -> Outcome:
    return Outcome(RELEASE, "", checked_delay(delay_ms))


def rejected(reason: str) -> Outcome:
    return Outcome(REJECT, cut_reason(reason))


def checked_delay(delay_ms: Duration | None) -> int:
    if delay_ms is None:
        return BY_BACKOFF
    found_ms = milliseconds(delay_ms)
    if found_ms < 0:
        raise InvalidArgumentError(f"delay_ms is at least 0, not {found_ms}")
    return found_ms
