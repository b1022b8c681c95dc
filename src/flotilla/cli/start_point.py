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


def read_start_point(text: str, now_ms: int) -> StartPoint:
    """Raises InvalidArgumentError."""
    if text == "earliest":
        return StartPoint(offset="earliest")
    if text == "latest":
        return StartPoint(offset="latest")
    if text.isascii() and text.isdigit():
        return StartPoint(offset=int(text[:19]))
    try:
        return StartPoint(timestamp_ms=max(now_ms - parse_duration(text), 0))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        allowed = "earliest, latest, an offset, how long ago (10m, 2h) or a time (2030-01-31T12:00:00Z)"
        raise InvalidArgumentError(f"{text!r} is no place to begin at; it is {allowed}") from None
    # A time without a zone is the user's own, as everywhere on their machine.
    return StartPoint(timestamp_ms=int(moment.astimezone(UTC).timestamp() * 1000))
