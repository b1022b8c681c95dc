"""One partition over HTTP: its replicas as its leader sees them, its log, and its leadership."""

import asyncio
from dataclasses import asdict

from flotilla.frontends.http.framework.operation import FLAG, INTEGER, TEXT, Answer, Call, Operation, integer, obj
from flotilla.frontends.http.framework.parameters import OF_PARTITION
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import NotFoundError
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import EARLIEST, LATEST, ListOffsets, TransferLeadership
from flotilla.types.operations.cluster import DescribeReplicas

_REPLICA = obj(
    ("node", "role", "is_alive", "behind_entries", "behind_bytes"),
    node=INTEGER,
    role={"type": "string", "description": "leader, voter, learner, or lost: it came back without its disk."},
    is_alive=FLAG,
    behind_entries={"type": "integer", "description": "Entries that the leader does not know to be there."},
    behind_bytes={"type": "integer", "description": "The same in bytes, estimated."},
)
_DESCRIBED = obj(
    ("topic", "partition", "leader", "term", "replicas", "target", "size_bytes", "first_offset", "next_offset"),
    topic=TEXT,
    partition=INTEGER,
    leader=INTEGER,
    term=INTEGER,
    replicas={"type": "array", "items": _REPLICA},
    target={"type": "array", "items": INTEGER, "description": "Nodes that it moves to; empty while it stays."},
    size_bytes={"type": "integer", "description": "Of the leader's log."},
    first_offset={"type": "integer", "description": "The oldest offset that is kept."},
    next_offset={"type": "integer", "description": "The offset of the next record."},
)
_TRANSFER = obj(to=integer(0, 2**53 - 1, "A node; 0: any other one.", default=NO_NODE))
_STARTED = obj(("started",), started=FLAG)


class PartitionApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        path = "/v1/topics/{topic}/partitions/{partition}"
        return [
            Operation("getPartition", "GET", path, "topics", "One partition: its replicas, and its log.", self.get,
                      OF_PARTITION, answers={200: _DESCRIBED}, errors=(404, 409)),
            Operation("transferLeadership", "POST", f"{path}/transfer", "topics",
                      "Transfer the leadership of a partition to another replica.", self.transfer, OF_PARTITION,
                      body=_TRANSFER, answers={202: _STARTED}, errors=(404, 409)),
        ]  # fmt: skip

    async def get(self, call: Call) -> Answer:
        name, number = call.path["topic"], call.path["partition"]
        topic = await self._gateway.topic(name)
        part = next((part for part in topic.partitions if part.number == number), None)
        if part is None:
            raise NotFoundError(f"topic {name!r} has no partition {number}")
        described, first, end = await asyncio.gather(
            self._gateway.ask(DescribeReplicas(name, number)),
            self._gateway.ask(ListOffsets(name, number, EARLIEST)),
            self._gateway.ask(ListOffsets(name, number, LATEST)),
        )
        return Answer(
            {
                "topic": name,
                "partition": number,
                "leader": part.leader,
                "term": part.term,
                "replicas": [asdict(replica) for replica in described.replicas],
                "target": list(part.target),
                "size_bytes": described.size_bytes,
                "first_offset": first.offset,
                "next_offset": end.offset,
            }
        )

    async def transfer(self, call: Call) -> Answer:
        await self._gateway.ask(TransferLeadership(call.path["topic"], call.path["partition"], call.body["to"]))
        return Answer({"started": True}, 202)
