"""What waits in a topic or queue group over HTTP: delayed messages, when they come due, and which keys are blocked."""

from base64 import b64encode
from dataclasses import asdict
from typing import Any, Final

from flotilla.frontends.http.framework.operation import (
    INTEGER,
    Answer,
    Call,
    Operation,
    Parameter,
    array,
    integer,
    obj,
    text,
)
from flotilla.frontends.http.framework.parameters import GROUP, OF_GROUP, OF_PARTITION, OF_TOPIC, OFFSET
from flotilla.gateway.gateway import Gateway
from flotilla.types.limits import DELIVER_COUNT_MAX
from flotilla.types.operations.waiting import (
    BLOCKED_KEYS_SHOWN_MAX,
    DELAYED_SHOWN_MAX,
    DUE_EDGES_MS,
    DeliverNow,
    most_blocked,
)

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
_DELAYED: Final = obj(
    ("messages", "next", "is_cut"),
    messages={
        "type": "array",
        "items": obj(
            ("partition", "offset", "due_ms"),
            partition=INTEGER,
            offset=INTEGER,
            due_ms=INTEGER,
            attempts={"type": "integer", "description": "Failed ones, of a message that waits for its next attempt."},
            reason={"type": "string", "description": "Why its last attempt failed."},
        ),
        "description": "Those that come due next, in that order.",
    },
    next=text(0, 100, "`after` of the next page; empty: there is none."),
    is_cut={
        "type": "boolean",
        "description": "So many are delayed that of some partitions those which come due later are not listed.",
    },
)
_DELIVER: Final = obj(
    ("offsets",),
    offsets=array(OFFSET, 1, DELIVER_COUNT_MAX),
    group={**GROUP, "description": "The queue group whose retries are meant, too."},
)
_DELIVERED: Final = obj(
    ("offsets",),
    offsets={"type": "array", "items": INTEGER, "description": "Those in the log: they wait for nothing now."},
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
        page = (
            Parameter("limit", integer(1, DELAYED_SHOWN_MAX, "Messages at most.", default=100)),
            Parameter("after", text(0, 100, "`next` of the page before.", default="")),
        )
        limit = Parameter("limit", integer(1, BLOCKED_KEYS_SHOWN_MAX, "Keys at most.", default=100))
        return [
            Operation("readDueTimes", "GET", "/v1/topics/{topic}/due-times", "topics",
                      "When the delayed messages of a topic come due.", self.due_times, OF_TOPIC,
                      answers={200: _DUE}, errors=(404,), description="Whatever its groups have done with them."),
            Operation("readGroupDueTimes", "GET", f"{path}/due-times", tag,
                      "When messages come due that a queue group waits for, with its retries.", self.due_times,
                      OF_GROUP, answers={200: _DUE}, errors=(404,)),
            Operation("listDelayed", "GET", "/v1/topics/{topic}/delayed", "topics",
                      "Delayed messages by the time in which they come due.", self.delayed, OF_TOPIC, query=page,
                      answers={200: _DELAYED}, errors=(404,), description="Whatever its groups have done with them."),
            Operation("listGroupDelayed", "GET", f"{path}/delayed", tag,
                      "Messages that a queue group waits for, with its retries, by the time in which they come due.",
                      self.delayed, OF_GROUP, query=page, answers={200: _DELAYED}, errors=(404,)),
            Operation("deliverNow", "POST", "/v1/topics/{topic}/partitions/{partition}/deliver", "records",
                      "Make delayed messages due: every group gets them now.", self.deliver, OF_PARTITION,
                      body=_DELIVER, answers={200: _DELIVERED}, errors=(404, 409, 416),
                      description="Needs cluster version 5."),
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

    async def delayed(self, call: Call) -> Answer:
        groups = self._gateway.groups(call.path["topic"])
        found = await groups.delayed(call.path.get("group", ""), call.query["limit"], call.query["after"])
        messages = [{"partition": number, **asdict(message)} for number, message in found.messages]
        return Answer({"messages": messages, "next": found.next, "is_cut": found.is_cut})

    async def deliver(self, call: Call) -> Answer:
        body = call.body
        request = DeliverNow(call.path["topic"], call.path["partition"], body["offsets"], body.get("group", ""))
        return Answer({"offsets": (await self._gateway.ask(request)).offsets})

    async def blocked_keys(self, call: Call) -> Answer:
        limit = call.query["limit"]
        found = await self._gateway.groups(call.path["topic"]).blocked_keys(call.path["group"], limit)
        keys = [
            {"partition": number, **asdict(key), "key": b64encode(key.key).decode()}
            for number, key in most_blocked(found, limit)
        ]
        sums = {name: sum(getattr(each, name) for each in found.values()) for name in ("key_count", "message_count")}
        return Answer({"keys": keys, **sums})
