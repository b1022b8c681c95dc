"""The schedules of the cluster: recurring messages, and how far each has come.

A schedule names its next occurrence. The leader of the metadata stages its message in a partition, as a transaction
(`transactions`), and one command commits that transaction and moves the schedule on. So an occurrence is produced once,
whoever leads: another leader that staged it too finds the schedule changed, and its stage is dropped. Nothing here
knows cron expressions or time zones: the leader computes times and puts them into commands.

Every change gives a schedule a new version, and ends runs that began before it.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, replace

from flotilla.types.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.limits import (
    PRIORITY_MAX,
    SCHEDULE_BYTES_MAX,
    SCHEDULE_COUNT_MAX,
    SCHEDULE_MESSAGE_BYTES_MAX,
)
from flotilla.types.records import CONTENT_TYPE_MAX
from flotilla.types.schedules import (
    CRON_LENGTH_MAX,
    INTERVAL_MS_MAX,
    INTERVAL_MS_MIN,
    MISSED_COUNT_MAX,
    MISSED_POLICIES,
    TIME_ZONE_LENGTH_MAX,
    check_schedule_name,
)
from flotilla.types.topics import check_topic_name


@dataclass(frozen=True, slots=True)
class Plan:
    """What a schedule produces, and when."""

    topic: str
    #: Empty: an interval.
    cron: str
    every_ms: int
    time_zone: str
    #: An occurrence of an interval, from which the others are counted.
    start_ms: int
    missed: str
    missed_max: int
    payload: bytes
    #: Empty: none.
    key: bytes
    headers: tuple[tuple[str, bytes], ...]
    priority: int
    content_type: int

    @property
    def size_bytes(self) -> int:
        """Of its message."""
        headers = sum([len(name.encode()) + len(value) for name, value in self.headers])
        return len(self.payload) + len(self.key) + headers


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule. Its id is never used again; its name may be."""

    schedule_id: int
    name: str
    plan: Plan
    created_ms: int
    #: 0: it has no further occurrence.
    next_ms: int
    #: Counts its changes.
    version: int = 1
    is_paused: bool = False
    #: Messages produced; the occurrence of the newest of them, and when that was.
    runs: int = 0
    last_ms: int = 0
    produced_ms: int = 0
    #: When occurrences were last skipped.
    skipped_ms: int = 0


class ScheduleTable:
    """All schedules, and those that wait for a time in the order of that time."""

    __slots__ = ("by_name", "next_id", "schedules", "size_bytes", "waiting")

    def __init__(self) -> None:
        self.next_id = 1
        self.schedules: dict[int, Schedule] = {}
        #: Indexes: the ids by name; the messages of all together; next occurrences and ids, ascending.
        self.by_name: dict[str, int] = {}
        self.size_bytes = 0
        self.waiting: list[tuple[int, int]] = []

    def find(self, name: str) -> Schedule | None:
        schedule_id = self.by_name.get(name)
        return None if schedule_id is None else self.schedules[schedule_id]

    # Rules.

    def check_put(self, name: str, schedule_id: int, plan: Plan) -> None:
        """Raises the error that `put_plan` would be refused with."""
        check_schedule_name(name)
        check_plan(plan)
        before_bytes = 0
        if schedule_id:
            before_bytes = self.known(schedule_id).plan.size_bytes
            if self.known(schedule_id).name != name:
                raise InvalidArgumentError(f"schedule {schedule_id} is not named {name!r}")
        elif name in self.by_name:
            raise AlreadyExistsError(f"schedule {name!r} exists")
        elif len(self.schedules) >= SCHEDULE_COUNT_MAX:
            raise OverloadedError(f"a cluster has at most {SCHEDULE_COUNT_MAX} schedules")
        if self.size_bytes - before_bytes + plan.size_bytes > SCHEDULE_BYTES_MAX:
            raise OverloadedError(f"the messages of all schedules have at most {SCHEDULE_BYTES_MAX} bytes")

    def known(self, schedule_id: int) -> Schedule:
        found = self.schedules.get(schedule_id)
        if found is None:
            raise NotFoundError(f"there is no schedule of id {schedule_id}")
        return found

    def check_run(self, schedule_id: int, version: int) -> None:
        if self.known(schedule_id).version != version:
            raise UnavailableError(f"schedule {self.schedules[schedule_id].name!r} has changed meanwhile; try again")

    # Changes. Callers have checked the command.

    def put_plan(self, name: str, schedule_id: int, plan: Plan, next_ms: int, now_ms: int) -> Schedule:
        known = self.schedules.get(schedule_id)
        if known is None:
            return self.put(Schedule(self.next_id, name, plan, now_ms, next_ms))
        return self.put(replace(known, plan=plan, next_ms=next_ms, version=known.version + 1))

    def pause(self, schedule_id: int, next_ms: int, *, is_paused: bool) -> Schedule:
        known = self.schedules[schedule_id]
        return self.put(replace(known, is_paused=is_paused, next_ms=next_ms, version=known.version + 1))

    def ran(self, schedule_id: int, occurrence_ms: int, next_ms: int, now_ms: int, *, has_skipped: bool) -> Schedule:
        known = self.schedules[schedule_id]
        changed = replace(known, next_ms=next_ms, version=known.version + 1)
        if occurrence_ms:
            changed = replace(changed, runs=known.runs + 1, last_ms=occurrence_ms, produced_ms=now_ms)
        return self.put(replace(changed, skipped_ms=now_ms) if has_skipped else changed)

    def put(self, schedule: Schedule) -> Schedule:
        """A new schedule, or a known one as it is from now on."""
        if schedule.schedule_id in self.schedules:
            self._unlist(self.schedules[schedule.schedule_id])
        else:
            assert schedule.schedule_id >= self.next_id, "the id of a schedule is never used again"
            assert schedule.name not in self.by_name, "a name belongs to one schedule"
            self.next_id = schedule.schedule_id + 1
        self.schedules[schedule.schedule_id] = schedule
        self.by_name[schedule.name] = schedule.schedule_id
        self.size_bytes += schedule.plan.size_bytes
        if schedule.next_ms and not schedule.is_paused:
            insort(self.waiting, (schedule.next_ms, schedule.schedule_id))
        return schedule

    def remove(self, schedule_id: int) -> Schedule:
        schedule = self.schedules[schedule_id]
        self._unlist(schedule)
        del self.schedules[schedule_id]
        del self.by_name[schedule.name]
        return schedule

    def _unlist(self, schedule: Schedule) -> None:
        self.size_bytes -= schedule.plan.size_bytes
        if schedule.next_ms and not schedule.is_paused:
            del self.waiting[bisect_left(self.waiting, (schedule.next_ms, schedule.schedule_id))]


def check_plan(plan: Plan) -> None:
    """The bounds of a plan; whether its expression and time zone mean anything is the leader's to say."""
    check_topic_name(plan.topic)
    if bool(plan.cron) == bool(plan.every_ms):
        raise InvalidArgumentError("a schedule has either a cron expression or an interval")
    if len(plan.cron) > CRON_LENGTH_MAX or not plan.cron.isascii() or not plan.cron.isprintable():
        raise InvalidArgumentError(f"a cron expression has up to {CRON_LENGTH_MAX} printable ASCII characters")
    if plan.every_ms and not INTERVAL_MS_MIN <= plan.every_ms <= INTERVAL_MS_MAX:
        raise InvalidArgumentError(f"an interval is {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX} ms, not {plan.every_ms}")
    if len(plan.time_zone) > TIME_ZONE_LENGTH_MAX or not plan.time_zone.isascii():
        raise InvalidArgumentError(f"a time zone has up to {TIME_ZONE_LENGTH_MAX} ASCII characters")
    if plan.missed not in MISSED_POLICIES:
        raise InvalidArgumentError(f"missed is one of {', '.join(MISSED_POLICIES)}, not {plan.missed[:80]!r}")
    if not 1 <= plan.missed_max <= MISSED_COUNT_MAX:
        raise InvalidArgumentError(f"missed_max is 1 to {MISSED_COUNT_MAX}, not {plan.missed_max}")
    if plan.priority > PRIORITY_MAX or plan.content_type > CONTENT_TYPE_MAX:
        raise InvalidArgumentError(f"a priority is 0 to {PRIORITY_MAX}, a content type 0 to {CONTENT_TYPE_MAX}")
    if plan.size_bytes > SCHEDULE_MESSAGE_BYTES_MAX:
        raise InvalidArgumentError(
            f"the message of a schedule has at most {SCHEDULE_MESSAGE_BYTES_MAX} bytes, not {plan.size_bytes}"
        )
