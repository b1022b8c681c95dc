"""The commands of schedules. `commands` knows their bytes.

The leader that proposes them knows cron expressions, time zones and the time: a command carries the times that follow
from them, so that applying it needs none of that.
"""

from dataclasses import dataclass

from flotilla.metadata.scheduling.schedules import Plan
from flotilla.types.ids import GroupId


@dataclass(frozen=True, slots=True)
class PutSchedule:
    """A new schedule, or another plan for a known one."""

    name: str
    #: 0: a new one.
    schedule_id: int
    plan: Plan
    #: Its first occurrence from now on; 0: it has none.
    next_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class PauseSchedule:
    schedule_id: int
    is_paused: bool
    next_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveSchedule:
    schedule_id: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class RunSchedule:
    """An occurrence is over: its staged message becomes visible and the schedule goes on, both or neither."""

    schedule_id: int
    #: Of the schedule, when the run began: a change of it since then ends the run without effect.
    version: int
    #: 0: occurrences are skipped, and nothing is produced.
    occurrence_ms: int
    #: Occurrences between this one and the next were missed and are not made up for.
    has_skipped: bool
    next_ms: int
    #: Under which its message is staged, and where. Empty: nothing is produced.
    transaction_id: str
    group: GroupId
    #: When it was staged, by the clock of the cluster; 0: nothing is produced.
    begun_ms: int
    now_ms: int
