"""What waits in a topic or queue group over HTTP: when delayed messages come due, and which keys are blocked."""

from base64 import b64encode
from dataclasses import asdict
from typing import Any, Final

from flotilla.frontends.http.framework.operation import (
    INTEGER,
    Answer,
    Call,
    Operation,
    Parameter,
    integer,
    obj,
)
from flotilla.frontends.http.framework.parameters import OF_GROUP, OF_TOPIC
from flotilla.gateway.gateway import Gateway
from flotilla.types.operations.waiting import BLOCKED_KEYS_SHOWN_MAX, DUE_EDGES_MS, most_blocked

_DUE: Final = obj(
    ("edges_ms", "counts", "delayed", "is_estimated"),
    edges_ms={
        "type": "array",
        "items": INTEGER,
        "description": "The upper ends of the buckets, from now on; the last bucket has none.",
    },
    counts={"type": "array", "items": INTEGER, "description": "Delayed messages of each bucket, one more than ends."},
    delayed={"type": "integer", "description": "The sum."},
    is_estimated={
        "type": "boolean",
        "description": "So many are delayed that only some were looked at, and the counts extrapolated.",
    },
)
_KEY: Final = obj(
    ("partition", "key", "offset", "state", "blocked"),
    partition=INTEGER,
    key={"type": "string", "contentEncoding": "base64"},
    offset={"type": "integer", "description": "The message that has to be settled first."},
    state={"type": "string", "description": "Of that message."},
    holder={"type": "string", "description": "The member that has it leased."},
    remaining_ms={"type": "integer", "description": "Until its lease expires, or it is retried."},
    attempts=INTEGER,
    reason={"type": "string", "description": "Why its last attempt failed."},
    blocked={"type": "integer", "description": "Messages behind it."},
)
_KEYS: Final = obj(
    ("keys", "key_count", "message_count"),
    keys={"type": "array", "items": _KEY, "description": "Those with the most messages behind them, the most first."},
    key_count={"type": "integer", "description": "All blocked keys that polls have met so far."},
    message_count={"type": "integer", "description": "Messages behind them."},
)


class WaitingApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        tag = "groups"
        path = "/v1/topics/{topic}/groups/{group}"
        limit = Parameter("limit", integer(1, BLOCKED_KEYS_SHOWN_MAX, "Keys at most.", default=100))
        return [
            Operation("readDueTimes", "GET", "/v1/topics/{topic}/due-times", "topics",
                      "When the delayed messages of a topic come due.", self.due_times, OF_TOPIC,
                      answers={200: _DUE}, errors=(404,), description="Whatever its groups have done with them."),
            Operation("readGroupDueTimes", "GET", f"{path}/due-times", tag,
                      "When messages come due that a queue group waits for, with its retries.", self.due_times,
                      OF_GROUP, answers={200: _DUE}, errors=(404,)),
            Operation("listBlockedKeys", "GET", f"{path}/blocked-keys", tag,
                      "Keys whose next messages wait for one that is leased or retried.", self.blocked_keys, OF_GROUP,
                      query=(limit,), answers={200: _KEYS}, errors=(404,),
                      description="Of queue groups in order by key. Needs the right to consume: keys are a part of "
                      "messages."),
        ]  # fmt: skip

    async def due_times(self, call: Call) -> Answer:
        found = await self._gateway.groups(call.path["topic"]).due_times(call.path.get("group", ""))
        shown: dict[str, Any] = {"edges_ms": list(DUE_EDGES_MS), "counts": found.counts, "delayed": sum(found.counts)}
        return Answer({**shown, "is_estimated": found.is_estimated})

    async def blocked_keys(self, call: Call) -> Answer:
        limit = call.query["limit"]
        found = await self._gateway.groups(call.path["topic"]).blocked_keys(call.path["group"], limit)
        keys = [
            {"partition": number, **asdict(key), "key": b64encode(key.key).decode()}
            for number, key in most_blocked(found, limit)
        ]
        sums = {name: sum(getattr(each, name) for each in found.values()) for name in ("key_count", "message_count")}
        return Answer({"keys": keys, **sums})
