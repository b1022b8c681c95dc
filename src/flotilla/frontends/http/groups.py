"""Groups as people look at them, over HTTP: positions, progress, settings, and where one message is and why."""

import asyncio
from dataclasses import asdict
from typing import Any, Final

from flotilla.client.gateway import Gateway
from flotilla.frontends.http.operation import FLAG, INTEGER, TEXT, Answer, Call, Operation, array, flag, obj
from flotilla.frontends.http.paths import (
    GROUP,
    OF_GROUP,
    OF_TOPIC,
    OFFSET,
    PARTITION,
    SETTINGS,
    START,
    TOPIC,
    read_start,
)
from flotilla.types.errors import InvalidArgumentError, NotFoundError
from flotilla.types.operations import CommitOffset, OffsetCommitted, ReadOffset
from flotilla.types.queue_operations import (
    AlterGroup,
    DeleteGroup,
    DescribeGroup,
    ExplainMessage,
    Explanation,
    GroupDescription,
    GroupList,
    GroupReply,
    GroupReset,
    ListGroups,
    ResetGroup,
)
from flotilla.types.topics import PARTITION_COUNT_MAX

QUEUE: Final = "queue"
#: Of one group in one partition: all that a leader tells, as it tells it.
_NUMBERS: Final = tuple(name for name in GroupDescription.__slots__ if name not in ("kind", "is_paused", "members"))
_MEMBER = obj(("name", "leased", "last_poll_ms_ago"), name=TEXT, leased=INTEGER, last_poll_ms_ago=INTEGER)
_PART = obj(
    ("partition", "kind"),
    partition=INTEGER,
    kind=TEXT,
    is_paused=FLAG,
    members={"type": "array", "items": _MEMBER},
    **dict.fromkeys(_NUMBERS, INTEGER),
)
_GROUPS = obj(("groups",), groups={"type": "array", "items": obj(("group", "kind"), group=TEXT, kind=TEXT)})
_GROUP = obj(
    ("topic", "group", "kind", "lag", "partitions"),
    topic=TEXT,
    group=TEXT,
    kind={"type": "string", "description": "queue, or offset for one that commits offsets."},
    lag={"type": "integer", "description": "Messages that are not settled, in all partitions."},
    partitions={"type": "array", "items": _PART},
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
_COMMIT = obj(("offset",), offset=OFFSET, reset=flag("Also backwards."))
_POSITION = obj(("offset",), offset=INTEGER)
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


class GroupDoor:
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
                      description="An empty text takes a setting back; what is not named stays."),
            Operation("deleteGroup", "DELETE", path, tag, "Forget a group.", self.delete, OF_GROUP,
                      answers={200: _DELETED}, errors=(404, 409)),
            Operation("resetGroup", "POST", f"{path}/reset", tag, "Move a queue group.", self.reset, OF_GROUP,
                      body=_RESET, answers={200: _MOVED}, errors=(404, 409, 416)),
            Operation("readOffset", "GET", f"{path}/partitions/{{partition}}/offset", tag,
                      "The offset that a group has committed.", self.read_offset, part,
                      answers={200: _POSITION}, errors=(404,)),
            Operation("commitOffset", "PUT", f"{path}/partitions/{{partition}}/offset", tag, "Commit an offset.",
                      self.commit_offset, part, body=_COMMIT, answers={200: _POSITION}, errors=(404, 409, 416),
                      description="It never moves back without `reset`; the answer says where the group stands."),
            Operation("explainMessage", "GET", f"{path}/partitions/{{partition}}/messages/{{offset}}", tag,
                      "Where a message is for a group, why, and what comes next.", self.explain,
                      {**part, "offset": OFFSET}, answers={200: _EXPLAINED}, errors=(404, 416)),
        ]  # fmt: skip

    async def list_all(self, call: Call) -> Answer:
        topic = call.path["topic"]
        numbers = await self._gateway.partitions(topic)
        asked = [self._gateway.ask_for(GroupList, ListGroups(topic, number)) for number in numbers]
        kinds: dict[str, str] = {}
        for listed in await asyncio.gather(*asked):
            for name, kind in listed.groups.items():
                # A queue group is one in every partition that it has polled.
                kinds[name] = QUEUE if QUEUE in (kind, kinds.get(name)) else kind
        return Answer({"groups": [{"group": name, "kind": kind} for name, kind in sorted(kinds.items())]})

    async def get(self, call: Call) -> Answer:
        topic, group = call.path["topic"], call.path["group"]
        numbers = await self._gateway.partitions(topic)
        asked = [self._gateway.ask_for(GroupDescription, DescribeGroup(topic, number, group)) for number in numbers]
        parts: list[dict[str, Any]] = []
        for number, found in zip(numbers, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(found, GroupDescription):
                parts.append({"partition": number, **asdict(found)})
            elif not isinstance(found, NotFoundError):
                raise found
        if not parts:
            raise NotFoundError(f"topic {topic!r} has no group {group!r}")
        kind = QUEUE if any(part["kind"] == QUEUE for part in parts) else parts[0]["kind"]
        lag = sum(part["lag"] for part in parts)
        return Answer({"topic": topic, "group": group, "kind": kind, "lag": lag, "partitions": parts})

    async def alter(self, call: Call) -> Answer:
        request = AlterGroup(call.path["topic"], call.path["group"], call.body["settings"])
        return Answer({"settings": (await self._gateway.ask_for(GroupReply, request)).settings})

    async def delete(self, call: Call) -> Answer:
        topic, group = call.path["topic"], call.path["group"]
        numbers = await self._gateway.partitions(topic)
        asked = [self._gateway.ask(DeleteGroup(topic, number, group)) for number in numbers]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for error in errors:
            if not isinstance(error, NotFoundError) or len(errors) == len(numbers):
                raise error
        return Answer({"group": group})

    async def reset(self, call: Call) -> Answer:
        topic, group = call.path["topic"], call.path["group"]
        start = read_start(call.body["start"])
        known = await self._gateway.partitions(topic)
        numbers = call.body.get("partitions") or known
        if not set(numbers) <= set(known):
            raise InvalidArgumentError(f"topic {topic!r} has the partitions 0 to {len(known) - 1}")
        asked = [
            self._gateway.ask_for(GroupReset, ResetGroup(topic, number, group, start, call.body["dry_run"]))
            for number in numbers
        ]
        moved = zip(numbers, await asyncio.gather(*asked), strict=True)
        return Answer({"partitions": [{"partition": number, **asdict(each)} for number, each in moved]})

    async def read_offset(self, call: Call) -> Answer:
        request = ReadOffset(call.path["group"], call.path["topic"], call.path["partition"])
        return Answer({"offset": (await self._gateway.ask_for(OffsetCommitted, request)).offset})

    async def commit_offset(self, call: Call) -> Answer:
        path, body = call.path, call.body
        request = CommitOffset(path["group"], path["topic"], path["partition"], body["offset"], body["reset"])
        return Answer({"offset": (await self._gateway.ask_for(OffsetCommitted, request)).offset})

    async def explain(self, call: Call) -> Answer:
        path = call.path
        request = ExplainMessage(path["topic"], path["partition"], path["offset"], path["group"])
        found = asdict(await self._gateway.ask_for(Explanation, request))
        del found["batch"]
        return Answer(found)
