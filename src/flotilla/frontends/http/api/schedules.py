"""Schedules over HTTP: recurring messages that the cluster produces by itself."""

from dataclasses import asdict
from typing import Any, Final

from flotilla.frontends.http.api.record_view import NEW_RECORD, read_record, show_record
from flotilla.frontends.http.framework.operation import (
    FLAG,
    INTEGER,
    TEXT,
    Answer,
    Call,
    Operation,
    Parameter,
    integer,
    obj,
    text,
)
from flotilla.frontends.http.framework.parameters import TOPIC
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import TIME_MS_MAX
from flotilla.types.operations.schedules import UPCOMING_COUNT_MAX, ScheduleDefinition, ScheduleInfo
from flotilla.types.records import Record
from flotilla.types.schedules import INTERVAL_MS_MAX, MISSED_COUNT, MISSED_COUNT_MAX, MISSED_POLICIES, ONE

_NAME: Final = text(1, 1_000, "Name of the schedule: letters, digits, dots, _ and -.")
#: The fields of a record that a schedule has; its time is that of each occurrence.
_MESSAGE_FIELDS: Final = (
    *("payload", "payload_text", "payload_json", "key", "key_text"),
    *("headers", "priority", "content_type"),
)
_MESSAGE: Final = obj(**{name: NEW_RECORD["properties"][name] for name in _MESSAGE_FIELDS})
_DEFINITION: Final[dict[str, Any]] = {
    "topic": TOPIC,
    "cron": text(0, 1_000, "Five fields, as in `0 3 * * *`, or six with the seconds first.", default=""),
    "every_ms": integer(0, INTERVAL_MS_MAX, "Instead of `cron`: an interval.", default=0),
    "time_zone": text(0, 1_000, "Of `cron`, an IANA name; by default UTC.", default=""),
    "start_ms": integer(0, TIME_MS_MAX, "The first occurrence of an interval; by default one from now.", default=0),
    "missed": {
        "type": "string",
        "enum": list(MISSED_POLICIES),
        "default": ONE,
        "description": "What becomes of occurrences that the cluster could not produce in time.",
    },
    "missed_max": integer(1, MISSED_COUNT_MAX, "The most that `all` makes up for.", default=MISSED_COUNT),
    "message": _MESSAGE,
}
_CREATE: Final = obj(("name", "topic", "message"), name=_NAME, **_DEFINITION)
_PUT: Final = obj(("topic", "message"), **_DEFINITION)
_SHOWN_NAMES: Final = ("topic", "cron", "every_ms", "time_zone", "start_ms", "missed", "missed_max")
_SHOWN: Final = obj(
    ("name", "schedule_id", "topic", "is_paused", "runs", "upcoming_ms", "message"),
    name=TEXT,
    schedule_id={"type": "integer", "description": "Of this life of the name; never used again."},
    topic=TEXT,
    cron=TEXT,
    every_ms=INTEGER,
    time_zone=TEXT,
    start_ms=INTEGER,
    missed=TEXT,
    missed_max=INTEGER,
    message=obj(
        ("payload",),
        payload={"type": "string", "contentEncoding": "base64"},
        key={"type": "string", "contentEncoding": "base64"},
        headers={"type": "array", "items": obj(("name", "value"), name=TEXT, value=TEXT)},
        priority=INTEGER,
        content_type=INTEGER,
    ),
    is_paused=FLAG,
    created_ms=INTEGER,
    runs={"type": "integer", "description": "Messages produced so far."},
    last_ms={"type": "integer", "description": "The newest occurrence that was produced; 0: none."},
    produced_ms=INTEGER,
    skipped_ms={"type": "integer", "description": "When missed occurrences were last skipped; 0: never."},
    upcoming_ms={"type": "array", "items": INTEGER, "description": "The next occurrences."},
    error={"type": "string", "description": "Why the newest attempt failed; it is repeated."},
)
_LIST: Final = obj(
    ("schedules", "next"),
    schedules={"type": "array", "items": _SHOWN},
    next=text(0, 1_000, "`after` of the next page; empty: there is none."),
)


class ScheduleApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        tag = "schedules"
        path, of = "/v1/schedules/{schedule}", {"schedule": _NAME}
        shown = {200: _SHOWN}
        upcoming = Parameter("upcoming", integer(0, UPCOMING_COUNT_MAX, "Next occurrences of each.", default=1))
        after = Parameter("after", text(0, 1_000, "`next` of the page before.", default=""))
        return [
            Operation("listSchedules", "GET", "/v1/schedules", tag, "Schedules by name, 100 at a time.",
                      self.list_all, query=(after, upcoming), answers={200: _LIST}),
            Operation("createSchedule", "POST", "/v1/schedules", tag, "Create a schedule.", self.create,
                      body=_CREATE, answers={201: _SHOWN}, errors=(404, 409)),
            Operation("putSchedule", "PUT", path, tag, "Create a schedule, or change its definition.", self.put, of,
                      body=_PUT, answers=shown, errors=(404,),
                      description="A schedule that has this definition stays as it is."),
            Operation("getSchedule", "GET", path, tag, "One schedule.", self.get, of, query=(upcoming,),
                      answers=shown, errors=(404,)),
            Operation("deleteSchedule", "DELETE", path, tag, "Delete a schedule.", self.delete, of,
                      answers=shown, errors=(404,), description="Messages that it has produced stay."),
            Operation("pauseSchedule", "POST", f"{path}/pause", tag, "Pause a schedule.", self.pause, of,
                      answers=shown, errors=(404,)),
            Operation("resumeSchedule", "POST", f"{path}/resume", tag, "Resume a schedule.", self.resume, of,
                      answers=shown, errors=(404,), description="It goes on with the next occurrence from now."),
            Operation("runSchedule", "POST", f"{path}/run", tag, "Produce its message now.", self.run, of,
                      answers=shown, errors=(404,)),
        ]  # fmt: skip

    async def list_all(self, call: Call) -> Answer:
        found = await self._gateway.schedules().page(call.query["after"], call.query["upcoming"])
        return Answer({"schedules": [show_schedule(each) for each in found.schedules], "next": found.next})

    async def create(self, call: Call) -> Answer:
        made = await self._gateway.schedules().put(call.body["name"], _read(call.body), is_update=False)
        return Answer(show_schedule(made), 201)

    async def put(self, call: Call) -> Answer:
        made = await self._gateway.schedules().put(call.path["schedule"], _read(call.body), is_update=True)
        return Answer(show_schedule(made))

    async def get(self, call: Call) -> Answer:
        found = await self._gateway.schedules().get(call.path["schedule"], upcoming=call.query["upcoming"])
        return Answer(show_schedule(found))

    async def delete(self, call: Call) -> Answer:
        return Answer(show_schedule(await self._gateway.schedules().delete(call.path["schedule"])))

    async def pause(self, call: Call) -> Answer:
        return Answer(show_schedule(await self._gateway.schedules().pause(call.path["schedule"])))

    async def resume(self, call: Call) -> Answer:
        return Answer(show_schedule(await self._gateway.schedules().resume(call.path["schedule"])))

    async def run(self, call: Call) -> Answer:
        return Answer(show_schedule(await self._gateway.schedules().run(call.path["schedule"])))


def _read(given: dict[str, Any]) -> ScheduleDefinition:
    """Raises InvalidArgumentError."""
    timeless = {"delay_ms": 0, "deliver_at_ms": 0, "ttl_ms": 0, "max_deliveries": 0}
    record = read_record({**given["message"], **timeless}, "message", 0)
    if record.key == b"":
        raise InvalidArgumentError("message.key is empty; leave it out for no key")
    return ScheduleDefinition(
        **{name: given[name] for name in _SHOWN_NAMES},
        payload=record.payload,
        key=record.key or b"",
        headers=list(record.headers),
        priority=record.priority,
        content_type=record.content_type,
    )


def show_schedule(schedule: ScheduleInfo) -> dict[str, Any]:
    definition = schedule.definition
    record = Record(
        definition.payload,
        definition.key or None,
        tuple(definition.headers),
        priority=definition.priority,
        content_type=definition.content_type,
    )
    message = {name: value for name, value in show_record(0, record).items() if name not in ("offset", "timestamp_ms")}
    shown = asdict(schedule)
    del shown["definition"]
    return {**shown, **{name: getattr(definition, name) for name in _SHOWN_NAMES}, "message": message}
