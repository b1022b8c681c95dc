"""Rows of schedules, as in `messages`."""

from flotilla.codec.client.rows import Row, derived
from flotilla.types.operations.schedules import (
    CreateSchedule,
    DeleteSchedule,
    ListSchedules,
    PauseSchedule,
    RunSchedule,
    ScheduleList,
    ScheduleReply,
)

REQUEST_ROWS: tuple[Row, ...] = (
    derived(CreateSchedule),
    derived(PauseSchedule),
    derived(DeleteSchedule),
    derived(RunSchedule),
    derived(ListSchedules),
)

REPLY_ROWS: tuple[Row, ...] = (derived(ScheduleReply), derived(ScheduleList))
