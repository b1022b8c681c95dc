"""Dead letters over HTTP: list, redrive, purge. The client library does the work."""

from base64 import b64encode
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from flotilla.client.admin.dead_letter import DeadLetter, DeadLetterFilter
from flotilla.client.admin.dead_letters import AsyncDeadLetters
from flotilla.client.admin.fingerprint import fingerprint_of, shape_of
from flotilla.frontends.http.framework.operation import (
    INTEGER,
    TEXT,
    Answer,
    Call,
    Operation,
    Parameter,
    flag,
    integer,
    obj,
    text,
)
from flotilla.frontends.http.framework.parameters import OF_GROUP
from flotilla.gateway.gateway import Gateway
from flotilla.types.limits import REASON_BYTES_MAX, TIME_MS_MAX

#: Of one request, which may be about many letters.
_TIMEOUT_MS: Final = 30_000
_REASON = text(0, REASON_BYTES_MAX, "A part of the reason.")
_FINGERPRINT = text(0, 100, "That of the reason, as the list says it.")
_RATE = integer(0, 1_000_000, "Letters a second at most; 0: no limit.", default=0)
_TIMES: Final = {
    "since_ms": integer(0, TIME_MS_MAX, "Only letters that died at or after this time."),
    "until_ms": integer(0, TIME_MS_MAX, "Only letters that died before this time."),
}
_LETTER = obj(
    ("partition", "offset", "payload", "reason", "attempts", "died_ms"),
    partition={"type": "integer", "description": "In the dead-letter topic, as the offset."},
    offset=INTEGER,
    payload={"type": "string", "contentEncoding": "base64"},
    key={"type": "string", "contentEncoding": "base64"},
    topic={"type": "string", "description": "The topic it came from."},
    origin_partition=INTEGER,
    origin_offset=INTEGER,
    reason=TEXT,
    fingerprint={
        "type": "string",
        "description": "The same for reasons that differ only in numbers, ids and quoted texts.",
    },
    shape={"type": "string", "description": "What such reasons have in common."},
    attempts=INTEGER,
    died_ms=INTEGER,
    redriven={"type": "integer", "description": "How often it was redriven before."},
)
_LETTERS = obj(("dead_letters",), dead_letters={"type": "array", "items": _LETTER})
_LIMIT = integer(1, 10_000, "Letters at most.", default=1_000)
_PURGE = obj(
    limit=_LIMIT,
    reason=_REASON,
    fingerprint=_FINGERPRINT,
    rate=_RATE,
    dry_run=flag("Changes nothing, and answers the same."),
    **_TIMES,
)
_REDRIVE = obj(**_PURGE["properties"], force=flag("Also letters that were redriven three times before."))
_DONE = obj(
    ("done", "refused", "skipped"),
    done=INTEGER,
    refused={"type": "integer", "description": "Redriven too often before."},
    skipped={"type": "integer", "description": "Not selected by the filter."},
)


class DeadLetterApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        tag = "dead letters"
        path = "/v1/topics/{topic}/groups/{group}/dead-letters"
        query = (
            Parameter("limit", integer(1, 1_000, "Letters at most.", default=100)),
            Parameter("reason", _REASON),
            Parameter("fingerprint", _FINGERPRINT),
            *(Parameter(name, schema) for name, schema in _TIMES.items()),
        )
        return [
            Operation("listDeadLetters", "GET", path, tag, "The dead letters of a group.", self.list_all, OF_GROUP,
                      query=query, answers={200: _LETTERS}, errors=(404,)),
            Operation("redriveDeadLetters", "POST", f"{path}/redrive", tag, "Redrive dead letters.", self.redrive,
                      OF_GROUP, body=_REDRIVE, answers={200: _DONE}, errors=(404, 409)),
            Operation("purgeDeadLetters", "POST", f"{path}/purge", tag, "Purge dead letters.", self.purge,
                      OF_GROUP, body=_PURGE, answers={200: _DONE}, errors=(404, 409)),
        ]  # fmt: skip

    def _letters(self, call: Call, *, redrives: bool = False) -> AbstractAsyncContextManager[AsyncDeadLetters]:
        topic, group = call.path["topic"], call.path["group"]
        return self._gateway.dead_letters(topic, group, redrives=redrives, timeout_ms=_TIMEOUT_MS)

    async def list_all(self, call: Call) -> Answer:
        async with self._letters(call) as letters:
            found = await letters.list(call.query["limit"], **_meant(call.query))
        return Answer({"dead_letters": [_show(letter) for letter in found]})

    async def redrive(self, call: Call) -> Answer:
        body: dict[str, Any] = call.body
        async with self._letters(call, redrives=True) as letters:
            done = await letters.redrive(
                limit=body["limit"],
                dry_run=body["dry_run"],
                rate_per_second=body["rate"] or None,
                force=body["force"],
                **_meant(body),
            )
        return Answer({"done": done.done, "refused": done.refused, "skipped": done.skipped})

    async def purge(self, call: Call) -> Answer:
        body: dict[str, Any] = call.body
        async with self._letters(call) as letters:
            done = await letters.purge(
                limit=body["limit"], dry_run=body["dry_run"], rate_per_second=body["rate"] or None, **_meant(body)
            )
        return Answer({"done": done.done, "refused": done.refused, "skipped": done.skipped})


def _meant(given: dict[str, Any]) -> DeadLetterFilter:
    wanted: DeadLetterFilter = {}
    if "reason" in given:
        wanted["reason"] = given["reason"]
    if "fingerprint" in given:
        wanted["fingerprint"] = given["fingerprint"]
    if "since_ms" in given:
        wanted["since_ms"] = given["since_ms"]
    if "until_ms" in given:
        wanted["until_ms"] = given["until_ms"]
    return wanted


def _show(letter: DeadLetter) -> dict[str, Any]:
    shown: dict[str, Any] = {
        name: getattr(letter, name)
        for name in ("partition", "offset", "topic", "origin_partition", "origin_offset", "reason", "attempts",
                     "died_ms", "redriven")
    }  # fmt: skip
    shown["shape"], shown["fingerprint"] = shape_of(letter.reason), fingerprint_of(letter.reason)
    shown["payload"] = b64encode(letter.payload).decode()
    if letter.key is not None:
        shown["key"] = b64encode(letter.key).decode()
    return shown
