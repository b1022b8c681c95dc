"""Where reading begins, as people say it: `earliest`, `latest`, an offset, `10m` ago, or a time of day."""

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
    """Exactly one of the two is said."""

    offset: int | Literal["earliest", "latest"] | None = None
    timestamp_ms: int | None = None


#: Of the largest offset there can be.
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
        # A time without a zone is the user's own, as everywhere on their machine; some years have none.
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _no_place(text) from None
    return StartPoint(timestamp_ms=max(int(moment.timestamp() * 1000), 0))


def _no_place(text: str) -> InvalidArgumentError:
    allowed = "earliest, latest, an offset, how long ago (10m, 2h) or a time (2030-01-31T12:00:00Z)"
    return InvalidArgumentError(f"{text!r} is no place to begin at; it is {allowed}")
