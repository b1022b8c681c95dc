"""Schedules in the gRPC contract. What a request leaves out has the default of the operation."""

from typing import Any

from flotilla.codec.fields import Declared, fields_of, many, one
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.types.operations.schedules import (
    CreateSchedule,
    DeleteSchedule,
    ListSchedules,
    PauseSchedule,
    RunSchedule,
    ScheduleDefinition,
    ScheduleInfo,
)
from flotilla.types.schedules import MISSED_COUNT, ONE

_DEFINITION = fields_of(ScheduleDefinition, pb.ScheduleDefinition.DESCRIPTOR)
_SCHEDULE = fields_of(
    ScheduleInfo, pb.Schedule.DESCRIPTOR, definition=one("definition", _DEFINITION), is_paused="paused"
)
#: The parts of replies that are not derived.
ANSWERED: Declared = {"schedule": one("schedule", _SCHEDULE)}
LISTED: Declared = {"schedules": many("schedules", _SCHEDULE)}


def read_create(body: pb.CreateScheduleRequest) -> CreateSchedule:
    definition: Any = _DEFINITION.read(body.definition)
    definition.missed = definition.missed or ONE
    definition.missed_max = definition.missed_max or MISSED_COUNT
    return CreateSchedule(body.name, definition, body.update)


def read_pause(body: pb.ScheduleRequest) -> PauseSchedule:
    return PauseSchedule(body.name, True)


def read_resume(body: pb.ScheduleRequest) -> PauseSchedule:
    return PauseSchedule(body.name, False)


def read_run(body: pb.ScheduleRequest) -> RunSchedule:
    return RunSchedule(body.name)


def read_delete(body: pb.ScheduleRequest) -> DeleteSchedule:
    return DeleteSchedule(body.name)


def read_list(body: pb.ListSchedulesRequest) -> ListSchedules:
    return ListSchedules(body.name, body.after, body.upcoming if body.HasField("upcoming") else 1)
