"""Administration of groups over HTTP: positions, progress, settings, the explanation and the result of one message.

An operation on a whole group takes several requests, to its partitions and to the coordinator of stream groups; the
client library makes them (client/admin/groups.py). Consuming is elsewhere: queue groups in `messages`; stream groups
are not offered over HTTP.
"""

from base64 import b64encode
from dataclasses import asdict
from typing import Final

from flotilla.frontends.http.framework.operation import (
    FLAG,
    INTEGER,
    TEXT,
    Answer,
    Call,
    Operation,
    Parameter,
    array,
    flag,
    integer,
    obj,
)
from flotilla.frontends.http.framework.parameters import (
    GROUP,
    OF_GROUP,
    OF_TOPIC,
    OFFSET,
    PARTITION,
    SETTINGS,
    START,
    TOPIC,
    TOPIC_ID,
    read_start,
)
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import OffsetOutOfRangeError
from flotilla.types.operations import CommitOffset, ReadOffset
from flotilla.types.operations.queue import ACKED_STATE, AlterGroup, ExplainMessage, GroupDescription, ReadResults
from flotilla.types.topics import PARTITION_COUNT_MAX

#: One group in one partition, as its leader describes it.
_NUMBERS: Final = tuple(
    name for name in GroupDescription.__match_args__ if name not in ("kind", "is_paused", "members")
)
_MEMBER = obj(
    ("name", "leased", "last_poll_ms_ago", "is_live"),
    name=TEXT,
    leased=INTEGER,
    last_poll_ms_ago=INTEGER,
    is_live={"type": "boolean", "description": "Has leases, waits for messages, or has polled within 30 s."},
)
_PART = obj(
    ("partition", "kind"),
    partition=INTEGER,
    kind=TEXT,
    is_paused=FLAG,
    members={"type": "array", "items": _MEMBER},
    **dict.fromkeys(_NUMBERS, INTEGER),
)
_GROUPS = obj(("groups",), groups={"type": "array", "items": obj(("group", "kind"), group=TEXT, kind=TEXT)})
_STREAM_MEMBER = obj(
    ("name", "client", "partitions", "heard_ms_ago"),
    name=TEXT,
    client=TEXT,
    partitions={"type": "array", "items": INTEGER, "description": "The partitions that the member owns."},
    heard_ms_ago={"type": "integer", "description": "Since its last heartbeat, as far as the coordinator knows."},
)
_STREAM = obj(
    ("generation", "strategy", "session_ms", "members"),
    generation=INTEGER,
    strategy=TEXT,
    session_ms={"type": "integer", "description": "A member without a heartbeat for this long is removed."},
    members={"type": "array", "items": _STREAM_MEMBER},
    rebalanced_ms_ago=INTEGER,
    cause={"type": "string", "description": "Why the last rebalance happened, for people."},
    moved={"type": "integer", "description": "Partitions that got another owner in the last rebalance."},
)
_GROUP = obj(
    ("topic", "group", "kind", "lag", "partitions"),
    topic=TEXT,
    group=TEXT,
    kind={"type": "string", "description": "queue, stream, or offset for a group that only commits offsets."},
    lag={"type": "integer", "description": "Unsettled messages in all partitions."},
    partitions={"type": "array", "items": _PART},
    stream={**_STREAM, "description": "Of a stream group."},
)
_DELETED = obj(("group",), group=TEXT)
_SET = obj(("settings",), settings={"type": "object", "additionalProperties": TEXT})
_RESET = obj(
    ("start",),
    start=START,
    partitions=array(PARTITION, 0, PARTITION_COUNT_MAX, "By default all of them."),
    dry_run=flag("Changes nothing, and answers the same."),
)
_MOVED = obj(
    ("partitions",),
    partitions={"type": "array", "items": obj(partition=INTEGER, from_offset=INTEGER, to_offset=INTEGER)},
)
_WITHOUT_MEMBERS: Final = "A stream group must have no members: otherwise the answer is `GROUP_IN_USE`."
_WITHOUT_LIVE_MEMBERS: Final = (
    "A group with live members is not deleted: the answer is `GROUP_IN_USE` and says how many there are. A member of a "
    "queue group is live while it has leases or waits in a poll, and for 30 s after its last poll."
)
_FORCE: Final = Parameter("force", flag("Delete the group also while it has live members."))
_OPTIONAL: Final = Parameter("optional", flag("Answer the offset -1 for a group that never committed, and no error."))
_AS_OF: Final = integer(0, 2**53 - 1, "Of the last answer about this position. 0: not checked.", default=0)
_COMMIT = obj(
    ("offset",), offset=OFFSET, reset=flag("Allow to move backwards."), topic_id=TOPIC_ID.schema, as_of=_AS_OF
)
_POSITION = obj(("offset", "as_of"), offset=INTEGER, as_of=INTEGER)
_EXPLAINED = obj(
    ("state", "attempts"),
    state=TEXT,
    attempts=INTEGER,
    reason=TEXT,
    holder=TEXT,
    remaining_ms=INTEGER,
    history={"type": "array", "items": TEXT},
    next=TEXT,
    ended_ms=INTEGER,
)


_WAIT: Final = Parameter("wait_ms", integer(0, 300_000, "How long to wait for its end.", default=0))
_RESULT = obj(
    ("ended",),
    ended={"type": "boolean", "description": "False: it waits, is leased or is retried."},
    state={
        "type": "string",
        "description": "acked; dead, dropped, expired, cancelled or settled (the group began after it); or forgotten: "
        "it ended, but its result is not kept.",
    },
    result={
        "type": "string",
        "contentEncoding": "base64",
        "description": "Of an acked message; empty if its ack carried none.",
    },
    reason={"type": "string", "description": "Of the last failure."},
    attempts={"type": "integer", "description": "Of a message that failed."},
)


class GroupApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        tag = "groups"
        path = "/v1/topics/{topic}/groups/{group}"
        part = {"topic": TOPIC, "group": GROUP, "partition": PARTITION}
        return [
            Operation("listGroups", "GET", "/v1/topics/{topic}/groups", tag, "Groups of a topic.", self.list_all,
                      OF_TOPIC, answers={200: _GROUPS}, errors=(404,)),
            Operation("getGroup", "GET", path, tag, "A group, partition by partition.", self.get, OF_GROUP,
                      answers={200: _GROUP}, errors=(404,)),
            Operation("alterGroup", "PATCH", path, tag, "Settings of a group.", self.alter, OF_GROUP,
                      body=obj(("settings",), settings=SETTINGS), answers={200: _SET}, errors=(404, 409),
                      description="An empty text removes a setting; settings that are not named stay."),
            Operation("deleteGroup", "DELETE", path, tag, "Delete a group.", self.delete, OF_GROUP,
                      query=(_FORCE,), answers={200: _DELETED}, errors=(404, 409), description=_WITHOUT_LIVE_MEMBERS),
            Operation("resetGroup", "POST", f"{path}/reset", tag, "Move a group.", self.reset, OF_GROUP,
                      body=_RESET, answers={200: _MOVED}, errors=(404, 409, 416), description=_WITHOUT_MEMBERS),
            Operation("readOffset", "GET", f"{path}/partitions/{{partition}}/offset", tag,
                      "The offset that a group has committed.", self.read_offset, part, query=(TOPIC_ID, _OPTIONAL),
                      answers={200: _POSITION}, errors=(404, 409),
                      description="`as_of` is for commits that follow from this answer."),
            Operation("commitOffset", "PUT", f"{path}/partitions/{{partition}}/offset", tag, "Commit an offset.",
                      self.commit_offset, part, body=_COMMIT, answers={200: _POSITION}, errors=(404, 409, 416),
                      description="Without `reset` it never moves backwards; the answer is the committed offset. With "
                                  "`as_of` a group that was deleted since, and perhaps made anew, is not moved: the "
                                  "answer is `STALE_GENERATION`."),
            Operation("explainMessage", "GET", f"{path}/partitions/{{partition}}/messages/{{offset}}", tag,
                      "Explain the state of a message in a group, and what comes next.", self.explain,
                      {**part, "offset": OFFSET}, answers={200: _EXPLAINED}, errors=(404, 416)),
            Operation("readResult", "GET", f"{path}/partitions/{{partition}}/messages/{{offset}}/result", tag,
                      "How a message ended in a group, with the result of its ack.", self.result,
                      {**part, "offset": OFFSET}, query=(_WAIT, TOPIC_ID), answers={200: _RESULT},
                      errors=(404, 409, 416),
                      description="With `wait_ms` the answer comes when the message has ended, or after that time."),
        ]  # fmt: skip

    async def list_all(self, call: Call) -> Answer:
        kinds = await self._gateway.groups(call.path["topic"]).names()
        return Answer({"groups": [{"group": name, "kind": kind} for name, kind in kinds.items()]})

    async def get(self, call: Call) -> Answer:
        info = await self._gateway.groups(call.path["topic"]).describe(call.path["group"])
        parts = [{"partition": number, **asdict(part)} for number, part in sorted(info.partitions.items())]
        shown = {"topic": info.topic, "group": info.name, "kind": info.kind, "lag": info.lag, "partitions": parts}
        if info.stream is not None:
            shown["stream"] = asdict(info.stream)
        return Answer(shown)

    async def alter(self, call: Call) -> Answer:
        request = AlterGroup(call.path["topic"], call.path["group"], call.body["settings"])
        return Answer({"settings": (await self._gateway.ask(request)).settings})

    async def delete(self, call: Call) -> Answer:
        groups = self._gateway.groups(call.path["topic"])
        await groups.delete(call.path["group"], is_forced=call.query.get("force", False))
        return Answer({"group": call.path["group"]})

    async def reset(self, call: Call) -> Answer:
        body = call.body
        moved = await self._gateway.groups(call.path["topic"]).move(
            call.path["group"], read_start(body["start"]), body.get("partitions") or None, dry_run=body["dry_run"]
        )
        return Answer({"partitions": [{"partition": number, **asdict(each)} for number, each in moved.items()]})

    async def read_offset(self, call: Call) -> Answer:
        request = ReadOffset(call.path["group"], call.path["topic"], call.path["partition"], call.query["topic_id"])
        request.is_optional = call.query.get("optional", False)
        return await self._position(request)

    async def commit_offset(self, call: Call) -> Answer:
        path, body = call.path, call.body
        place = (path["group"], path["topic"], path["partition"])
        request = CommitOffset(*place, body["offset"], body["reset"], topic_id=body["topic_id"], as_of=body["as_of"])
        return await self._position(request)

    async def _position(self, request: ReadOffset | CommitOffset) -> Answer:
        found = await self._gateway.ask(request)
        return Answer({"offset": found.offset, "as_of": found.as_of})

    async def result(self, call: Call) -> Answer:
        path = call.path
        place = (path["topic"], path["partition"], path["group"])
        request = ReadResults(*place, [path["offset"]], call.query["wait_ms"], call.query["topic_id"])
        found = (await self._gateway.ask(request)).ended
        if not found:
            return Answer({"ended": False})
        ended = found[0]
        if not ended.state:
            raise OffsetOutOfRangeError(f"there is no message at offset {ended.offset}")
        shown = {"ended": True, "state": ended.state, "reason": ended.reason, "attempts": ended.attempts}
        if ended.state == ACKED_STATE:
            shown["result"] = b64encode(ended.result).decode()
        return Answer(shown)

    async def explain(self, call: Call) -> Answer:
        path = call.path
        request = ExplainMessage(path["topic"], path["partition"], path["offset"], path["group"], has_history=True)
        found = asdict(await self._gateway.ask(request))
        del found["batch"]
        return Answer(found)
