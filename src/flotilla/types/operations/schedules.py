"""Operations on schedules: recurring messages, which the metadata's leader produces at their times."""

from collections.abc import Sequence
from dataclasses import field

from flotilla.types.access import ALL, ANYBODY, DESCRIBE, MANAGE, SCHEDULE, Resource
from flotilla.types.operations.request import CONTROLLER, ONCE, READ, REPEATABLE, Effect, May, Reply, Request
from flotilla.types.schedules import MISSED_COUNT, ONE
from flotilla.types.slotted import slotted

#: Schedules of one reply.
SCHEDULES_PER_PAGE = 100
#: The most coming occurrences that a reply names for each schedule.
UPCOMING_COUNT_MAX = 20
#: A schedule belongs to its topic, which its name does not say: brokers look it up.
_ALL = (Resource(ALL),)


@slotted
class ScheduleDefinition:
    """What a schedule produces, and when: either a cron expression or an interval."""

    topic: str
    #: Five fields, or six with the seconds first; empty: an interval.
    cron: str = ""
    every_ms: int = 0
    #: An IANA name, for a cron expression. Empty: UTC.
    time_zone: str = ""
    #: The first occurrence of an interval; 0: an interval after its creation.
    start_ms: int = 0
    #: skip, one or all.
    missed: str = ONE
    #: How many missed occurrences `all` makes up for, the newest ones.
    missed_max: int = MISSED_COUNT
    payload: bytes = b""
    #: Empty: no key.
    key: bytes = b""
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    priority: int = 0
    content_type: int = 0


@slotted
class ScheduleInfo:
    """A schedule and how far it has come."""

    name: str
    #: Never used again: a schedule that is made anew under its name has another one.
    schedule_id: int
    definition: ScheduleDefinition
    is_paused: bool
    created_ms: int
    #: Messages produced so far.
    runs: int
    #: The occurrence of the newest of them, and when it was produced; 0: none.
    last_ms: int
    produced_ms: int
    #: When occurrences were last skipped because they had been missed; 0: never.
    skipped_ms: int
    #: The coming occurrences, as many as were asked for; empty while it is paused.
    upcoming_ms: list[int] = field(default_factory=list)
    #: Why the newest attempt failed; it is repeated.
    error: str = ""


@slotted
class ScheduleReply(Reply):
    """The schedule as it is after a change (as it was, for a deletion)."""

    schedule: ScheduleInfo


@slotted
class CreateSchedule(Request[ScheduleReply], to=CONTROLLER, needs=SCHEDULE):
    name: str
    definition: ScheduleDefinition
    #: A schedule of that name gets this definition, or stays as it is if it has it already.
    is_update: bool = False

    @property
    def effect(self) -> Effect:
        return REPEATABLE if self.is_update else ONCE

    @property
    def resources(self) -> Sequence[Resource]:
        return (Resource(self.definition.topic),)


@slotted
class PauseSchedule(Request[ScheduleReply], to=CONTROLLER, effect=REPEATABLE, needs=MANAGE):
    """Occurrences while it is paused are no missed ones; without `is_paused` it goes on with the next."""

    name: str
    is_paused: bool = True

    @property
    def resources(self) -> Sequence[Resource]:
        return _ALL


@slotted
class DeleteSchedule(Request[ScheduleReply], to=CONTROLLER, effect=ONCE, needs=MANAGE):
    name: str

    @property
    def resources(self) -> Sequence[Resource]:
        return _ALL


@slotted
class RunSchedule(Request[ScheduleReply], to=CONTROLLER, effect=ONCE, needs=SCHEDULE):
    """Produces its message now, once more than it would be. Answered when readers see it."""

    name: str

    @property
    def resources(self) -> Sequence[Resource]:
        return _ALL


@slotted
class ScheduleList(Reply):
    #: By name, at most SCHEDULES_PER_PAGE.
    schedules: list[ScheduleInfo]
    #: Where the next page goes on (`after`); empty: there is none.
    next: str = ""


@slotted
class ListSchedules(Request[ScheduleList], to=CONTROLLER, effect=READ, needs=ANYBODY):
    """Schedules in the order of their names, without those of topics that the caller may not describe."""

    #: Only this one; empty: all.
    name: str = ""
    #: Only later names: `next` of the page before.
    after: str = ""
    upcoming: int = 1

    def visible(self, reply: ScheduleList, may: May) -> ScheduleList:
        shown = [each for each in reply.schedules if may(DESCRIBE, Resource(each.definition.topic))]
        return ScheduleList(shown, reply.next)


#: Requests about a schedule that may exist.
OF_SCHEDULES = (CreateSchedule, PauseSchedule, DeleteSchedule, RunSchedule)
