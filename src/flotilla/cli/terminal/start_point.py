"""The place where reading begins: `earliest`, `latest`, an offset, `10m` ago, or a time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from time import time_ns
from typing import Literal

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.notation import parse_duration


def now_ms() -> int:
    return time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Exactly one of the two is given."""

    offset: int | Literal["earliest", "latest"] | None = None
    timestamp_ms: int | None = None


#: Of the largest offset.
_OFFSET_DIGITS_MAX = 18


def read_start_point(text: str, now_ms: int) -> StartPoint:
    """Raises InvalidArgumentError."""
    if text == "earliest":
        return StartPoint(offset="earliest")
    if text == "latest":
        return StartPoint(offset="latest")
    if text.isascii() and text.isdigit():
        if len(text) > _OFFSET_DIGITS_MAX:
            raise _no_place(text)
        return StartPoint(offset=int(text))
    try:
        return StartPoint(timestamp_ms=max(now_ms - parse_duration(text), 0))
    except ValueError:
        pass
    try:
        # A time without a zone is local time; some years have no local time.
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _no_place(text) from None
    return StartPoint(timestamp_ms=max(int(moment.timestamp() * 1000), 0))


def read_time(text: str, flag: str) -> int:
    """How long ago, or a time, in milliseconds since 1970. Raises InvalidArgumentError."""
    found = read_start_point(text, now_ms()).timestamp_ms
    if found is None:
        raise InvalidArgumentError(f"{flag} is how long ago (2h), or a time; not {text!r}")
    return found


def _no_place(text: str) -> InvalidArgumentError:
    allowed = "earliest, latest, an offset, how long ago (10m, 2h) or a time (2030-01-31T12:00:00Z)"
    return InvalidArgumentError(f"{text!r} is no place to begin at; expected {allowed}")
