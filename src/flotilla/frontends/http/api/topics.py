"""Topics over HTTP: their settings, partitions and leaders."""

from typing import Any

from flotilla.frontends.http.framework.operation import (
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
from flotilla.frontends.http.framework.parameters import IS_STALE, OF_TOPIC, OFFSET, SETTINGS, TOPIC
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.operations import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    GetMetadata,
    TopicInfo,
)
from flotilla.types.operations.topics import PartitionInfo
from flotilla.types.topics import PARTITION_COUNT_MAX, REPLICATION_FACTOR_MAX

_PARTITION = obj(
    ("number", "leader", "replicas"),
    number=INTEGER,
    leader={"type": "integer", "description": "0 while no leader is known."},
    replicas={"type": "array", "items": INTEGER},
    target={"type": "array", "items": INTEGER, "description": "Nodes that it moves to; missing while it stays."},
)
SHOWN_TOPIC = obj(
    ("topic", "topic_id", "partitions", "key_partitions", "settings", "owner"),
    topic=TEXT,
    topic_id=INTEGER,
    partitions={"type": "array", "items": _PARTITION},
    key_partitions={"type": "integer", "description": "Keys are spread over the partitions below this number."},
    settings={"type": "object", "additionalProperties": TEXT},
    owner={
        "type": "string",
        "description": "The user who created the topic. The topic counts against the quota of that user. "
        "Empty: the topic has no owner.",
    },
)
_TOPICS = obj(
    ("topics", "total", "is_stale"),
    topics={"type": "array", "items": SHOWN_TOPIC},
    total={"type": "integer", "description": "Topics that match, on all pages."},
    is_stale=IS_STALE,
)
_PAGE = (
    Parameter("limit", integer(0, 10_000, "Topics at most, by name; 0: all of them.", default=0)),
    Parameter("after", text(0, 1_000, "The last name of the page before.", default="")),
    Parameter("search", text(0, 1_000, "Only topics with this in their name.", default="")),
)
_PARTITIONS = integer(0, PARTITION_COUNT_MAX, "0: the cluster's default; when altering, no change.", default=0)
_CREATE = obj(
    ("topic",),
    topic=TOPIC,
    partitions=_PARTITIONS,
    replication_factor=integer(0, REPLICATION_FACTOR_MAX, "0: the cluster's default.", default=0),
    settings=SETTINGS,
)
_ALTER = obj(
    partitions=_PARTITIONS,
    settings=SETTINGS,
    replication_factor=integer(0, REPLICATION_FACTOR_MAX, "0: no change. Takes effect in the background.", default=0),
)
_OFFSETS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": OFFSET,
    "maxProperties": PARTITION_COUNT_MAX,
    "description": "By partition: where its log begins.",
}
_TRIM = obj(("partitions",), partitions=_OFFSETS)


class TopicApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        tag = "topics"
        path = "/v1/topics/{topic}"
        return [
            Operation("listTopics", "GET", "/v1/topics", tag, "Topics, by name.", self.list_all, query=_PAGE,
                      answers={200: _TOPICS}),
            Operation(
                "createTopic", "POST", "/v1/topics", tag, "Create a topic.", self.create,
                body=_CREATE, answers={201: SHOWN_TOPIC}, errors=(409,),
            ),
            Operation(
                "getTopic", "GET", path, tag, "One topic.", self.get, OF_TOPIC,
                answers={200: SHOWN_TOPIC}, errors=(404,),
            ),
            Operation(
                "alterTopic", "PATCH", path, tag, "Alter settings, or add partitions.", self.alter, OF_TOPIC,
                body=_ALTER, answers={200: SHOWN_TOPIC}, errors=(404, 409),
            ),
            Operation(
                "deleteTopic", "DELETE", path, tag, "Delete a topic with all its messages.", self.delete, OF_TOPIC,
                answers={200: SHOWN_TOPIC}, errors=(404,), description="The answer is the topic as it was.",
            ),
            Operation(
                "purgeTopic", "POST", f"{path}/purge", tag, "Remove every message that is stored now.", self.purge,
                OF_TOPIC, answers={200: _TRIM}, errors=(404,),
                description="Topic, groups and settings stay. Nothing is spared: not what a group owes, holds or has "
                "leased, not delayed messages. Messages that are produced meanwhile stay.",
            ),
            Operation(
                "trimTopic", "POST", f"{path}/trim", tag, "Remove the messages below an offset of each partition.",
                self.trim, OF_TOPIC, body=_TRIM, answers={200: _TRIM}, errors=(404, 416),
                description="As a purge. When one of the partitions or offsets does not exist, nothing is removed.",
            ),
        ]  # fmt: skip

    async def list_all(self, call: Call) -> Answer:
        metadata = await self._gateway.ask(GetMetadata(is_linearizable=True, **call.query))
        topics = sorted(metadata.topics, key=lambda topic: topic.name)
        shown = [show_topic(topic) for topic in topics]
        return Answer({"topics": shown, "total": metadata.total, "is_stale": metadata.is_stale})

    async def create(self, call: Call) -> Answer:
        body: dict[str, Any] = call.body
        request = CreateTopic(body["topic"], body["partitions"], body["replication_factor"], body.get("settings", {}))
        return Answer(show_topic((await self._gateway.ask(request)).topic), 201)

    async def get(self, call: Call) -> Answer:
        return Answer(show_topic(await self._gateway.topic(call.path["topic"])))

    async def alter(self, call: Call) -> Answer:
        body: dict[str, Any] = call.body
        changes = body["partitions"], body.get("settings", {}), body["replication_factor"]
        request = AlterTopic(call.path["topic"], *changes)
        return Answer(show_topic((await self._gateway.ask(request)).topic))

    async def delete(self, call: Call) -> Answer:
        reply = await self._gateway.ask(DeleteTopic(call.path["topic"]))
        return Answer(show_topic(reply.topic))

    async def purge(self, call: Call) -> Answer:
        return _trimmed(await self._gateway.trim(call.path["topic"], None))

    async def trim(self, call: Call) -> Answer:
        offsets = {_number(name): offset for name, offset in call.body["partitions"].items()}
        if not offsets:
            raise InvalidArgumentError("the body.partitions: name at least one partition")
        return _trimmed(await self._gateway.trim(call.path["topic"], offsets))


def _number(name: str) -> int:
    if not (name.isascii() and name.isdigit()):
        raise InvalidArgumentError(f"the body.partitions: {name!r} is not the number of a partition")
    return int(name)


def _trimmed(log_starts: dict[int, Offset]) -> Answer:
    return Answer({"partitions": {str(number): offset for number, offset in log_starts.items()}})


def show_topic(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partitions": [_show_partition(part) for part in topic.partitions],
        "key_partitions": topic.key_partitions,
        "settings": topic.settings,
        "owner": topic.owner,
    }


def _show_partition(part: PartitionInfo) -> dict[str, Any]:
    shown: dict[str, Any] = {"number": part.number, "leader": part.leader, "replicas": list(part.replicas)}
    if part.target:
        shown["target"] = list(part.target)
    return shown
