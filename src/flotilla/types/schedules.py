"""Schedules: the words and bounds that users, clients and brokers share."""

from typing import Final

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.topics import check_group_name

#: What becomes of occurrences that were missed: none is made up for, one stands for all, each, up to a number.
SKIP: Final = "skip"
ONE: Final = "one"
ALL: Final = "all"
MISSED_POLICIES: Final = (SKIP, ONE, ALL)
#: An occurrence that could not be produced for this long after its time was missed.
MISSED_AFTER_MS: Final = 60_000
#: How many missed occurrences the policy `all` makes up for, unless the schedule says so itself; and the most.
MISSED_COUNT: Final = 100
MISSED_COUNT_MAX: Final = 1_000
INTERVAL_MS_MIN: Final = 1_000
INTERVAL_MS_MAX: Final = 366 * 86_400_000
CRON_LENGTH_MAX: Final = 200
TIME_ZONE_LENGTH_MAX: Final = 64
#: The time zone of a cron expression that names none.
UTC: Final = "UTC"

#: Headers that a message of a schedule gets on top of its own: the name of the schedule, and the time of the
#: occurrence in milliseconds.
NAME_HEADER: Final = "flotilla-schedule"
TIME_HEADER: Final = "flotilla-scheduled-time"


def check_schedule_name(name: str) -> None:
    """The same characters as in names of groups. Raises InvalidArgumentError."""
    try:
        check_group_name(name)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"the name of a schedule: {error}") from None
