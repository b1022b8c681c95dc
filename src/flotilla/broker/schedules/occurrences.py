"""The times of a schedule: cron expressions in time zones, intervals, and what is due now.

Depends on its arguments and the time zone database alone. Only the leader of the metadata asks, so that replicas with
different databases agree all the same. Where clocks are set forward, times that do not exist come when the gap is over;
where they are set back, a time that exists twice comes once. Expressions with `*` in the minute or the hour, or with
seconds, follow the time that really passes (as Debian's cron does; the library is made after it).
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from flotilla.metadata.scheduling.schedules import Plan
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.schedules import ALL, MISSED_AFTER_MS, SKIP

#: Names for the most common expressions.
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


#: Later dates are not looked for: the calendar ends with the year 9999.
_TIME_MS_MAX: Final = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp()) * 1000


class Due(NamedTuple):
    """What is to be done now."""

    #: The occurrence to produce; 0: none, only go on.
    occurrence_ms: int
    next_ms: int
    #: Occurrences before or after this one are skipped.
    has_skipped: bool


def check_times(plan: Plan) -> None:
    """Raises InvalidArgumentError when the expression or the time zone mean nothing."""
    if plan.cron:
        _from(plan, 0)
    elif plan.time_zone:
        raise InvalidArgumentError("a time zone belongs to a cron expression, not to an interval")


def next_after(plan: Plan, after_ms: int) -> int:
    """The first occurrence later than that; 0: there is none."""
    if plan.every_ms:
        if after_ms < plan.start_ms:
            return plan.start_ms
        return plan.start_ms + ((after_ms - plan.start_ms) // plan.every_ms + 1) * plan.every_ms
    for time_ms in _times(plan, after_ms):
        # An hour that clocks repeat is in the past when it comes for the second time.
        if time_ms > after_ms:
            return time_ms
    return 0


def due_now(plan: Plan, next_ms: int, now_ms: int) -> Due:
    """`next_ms` has come. An occurrence is missed if its time is more than MISSED_AFTER_MS ago."""
    on_time_ms = now_ms - MISSED_AFTER_MS
    if next_ms >= on_time_ms:
        return Due(next_ms, next_after(plan, next_ms), False)
    if plan.missed == ALL:
        oldest_ms = _oldest_made_up(plan, on_time_ms)
        if next_ms >= oldest_ms:
            return Due(next_ms, next_after(plan, next_ms), False)
        return Due(0, next_after(plan, oldest_ms - 1), True)
    following_ms = next_after(plan, on_time_ms - 1)
    if plan.missed == SKIP:
        return Due(0, following_ms, True)
    return Due(next_ms, following_ms, next_after(plan, next_ms) != following_ms)


def _oldest_made_up(plan: Plan, before_ms: int) -> int:
    """The oldest missed occurrence that is made up for, or a time shortly before it."""
    if plan.every_ms:
        return next_after(plan, before_ms - 1) - plan.missed_max * plan.every_ms
    return min(islice(_times(plan, before_ms, is_backwards=True), plan.missed_max), default=before_ms)


def _times(plan: Plan, after_ms: int, *, is_backwards: bool = False) -> Iterator[int]:
    """Until the last year that has dates. Raises InvalidArgumentError."""
    found = _from(plan, min(after_ms, _TIME_MS_MAX), is_backwards=is_backwards)
    try:
        for time in found:
            yield int(time.timestamp()) * 1000
    except (OverflowError, ValueError, OSError):
        return


def _from(plan: Plan, after_ms: int, *, is_backwards: bool = False) -> CronSim:
    """The occurrences before or after a time. Raises InvalidArgumentError."""
    text = _NAMED.get(plan.cron.strip().lower(), plan.cron)
    try:
        zone = ZoneInfo(plan.time_zone) if plan.time_zone else UTC
    except (ValueError, OSError, LookupError):
        raise InvalidArgumentError(f"there is no time zone {plan.time_zone!r}; one is named Europe/Berlin") from None
    try:
        return CronSim(text, datetime.fromtimestamp(after_ms / 1000, zone), reverse=is_backwards)
    except (CronSimError, AssertionError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the cron expression {plan.cron!r} is not understood: {error}; it has five fields, as in '0 3 * * *'"
        ) from None
