"""A real node on a real disk, alone in its cluster, with the parts that report its state."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import uvloop

from flotilla.broker.catalog import METADATA_GROUP, Catalog, CatalogMachine
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.disk.room import DiskRoom, Room
from flotilla.broker.observability.request_metrics import MeteredService
from flotilla.broker.observability.status import NodeStatus
from flotilla.broker.ports import Cancel, Done
from flotilla.broker.security.quotas import Meter
from flotilla.codec.batch.facts import span_of
from flotilla.metadata.commands import Command, CreateTopic, DeleteTopic, InitCluster, RegisterBroker, encode_command
from flotilla.metadata.values import Topic
from flotilla.node import Node, NodeParts
from flotilla.partition.state.machine import PartitionMachine
from flotilla.raft.messages import Configuration
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.runtime.clock import LoopClock
from flotilla.storage.options import StoreOptions
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, NotFoundError
from flotilla.types.ids import GroupId
from flotilla.types.notation import Watermark
from flotilla.types.operations import Request
from flotilla.types.operations.pipelines import Pipeline
from flotilla.types.operations.quotas import Quota
from flotilla.types.timing import Timing
from tests.unit.partition.batches import describe

NODE = 1
#: A node that is never there.
ABSENT = 2


class SilentService:
    """Keeps every request for the test to answer; what the test says can be given up, can."""

    node = NODE
    cluster_id = "test"

    def __init__(self) -> None:
        self.waiting: list[tuple[Request, Done]] = []
        self.cancel: Cancel | None = None
        self.lost_members: list[str] = []
        self.at_once: Callable[[Request, Done], None] | None = None

    #: No topic was ever changed.
    metadata_index = 0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def lost(self, members: Sequence[str]) -> None:
        self.lost_members += members

    def handle(self, request: Request, done: Done, metadata_index: int = 0) -> Cancel | None:
        if self.at_once is not None:
            self.at_once(request, done)
            return None
        self.waiting.append((request, done))
        return self.cancel


class SingleNode:
    def __init__(self, folder: Path) -> None:
        settings = NodeParts(
            node=NODE,
            cluster=b"a lonely cluster",
            data=folder,
            listen=Address("127.0.0.1", 0),
            peers={ABSENT: Address("127.0.0.1", 1)},
            store=StoreOptions(journal_bytes=256 * 1024, segment_bytes=256 * 1024),
            timing=Timing(20, 6, 2),
        )
        self.machine = CatalogMachine()
        self.node = Node(settings, self._machine, span_of)
        self.driver = self.node.runtime.driver
        # Names and leaders are all that is asked of the catalog here: it needs no clock and no links.
        self.catalog = Catalog(self.machine, self, self)  # type: ignore[arg-type]
        self.clock = ClusterClock(LoopClock(), lambda: 1)
        self.service = SilentService()
        self.metered = MeteredService(self.service)
        self.clients = {
            "connections": 3,
            "connections_accepted_total": 5,
            "tcp": 3,
            "http": 2,
            "grpc": 1,
            "connections_refused_total": 1,
            "connections_cut_total": 4,
            "requests_in_flight": 2,
            "received_bytes_total": 700,
            "sent_bytes_total": 900,
        }
        self.hosts: dict[GroupId, Any] = {}
        self.is_registered = True
        self.room = DiskRoom(NODE, "its-disk", Watermark(percent=5), Watermark(percent=1))
        self.room.saw(Room(60_000, 100_000))
        self.status = NodeStatus(
            self.node.runtime,
            self.node.network,
            self.catalog,
            self.metered,
            lambda: self.clients,
            self.hosts,
            self.clock,
            self.room,
            lambda: self.is_registered,
            expires_s=lambda: 2_000_000_000,
            meters=lambda: [Meter(Quota(namespace="shop", stored_bytes=1), lambda: 0)],
            pipelines=lambda: [Pipeline("7a", "sums", ["orders"], "g", 1_200, 60_000, 400, 3, 500, 1_250, 0, "/lake")],
        )

    def _machine(self, group: GroupId) -> Any:
        return self.machine if group == METADATA_GROUP else PartitionMachine(describe)

    def replica(self, group: GroupId) -> Replica | None:
        return self.driver.replicas.get(group)

    async def found(self) -> None:
        """Becomes a cluster of one, with this node as its broker."""
        await self.lead(METADATA_GROUP)
        await self.change(InitCluster("test", "test", (NODE,), 1))
        await self.change(RegisterBroker("test", NODE, "a:1", "a:2", "a:3", "", "0", 0, 0, 1))

    async def change(self, command: Command) -> object:
        changed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.node.runtime.propose(METADATA_GROUP, encode_command(command), changed.set_result)
        result = await changed
        assert not isinstance(result, FlotillaError), result
        return result

    async def create_topic(self, name: str, partitions: int) -> list[GroupId]:
        """A topic whose partitions this node leads."""
        topic = await self.change(CreateTopic(name, partitions, 1, (), 1))
        assert isinstance(topic, Topic)
        groups = [partition.group for partition in topic.partitions]
        for group in groups:
            await self.lead(group)
        return groups

    async def delete_topic(self, name: str) -> None:
        topic = await self.change(DeleteTopic(name, 0, 2))
        assert isinstance(topic, Topic)
        for partition in topic.partitions:
            self.node.runtime.drop(partition.group, NotFoundError("the topic was deleted"))

    async def lead(self, group: GroupId) -> None:
        self.node.create_group(group, Configuration(voters=(NODE,)))
        # Ticks and turns come by themselves; this only makes a new group known to them.
        while (replica := self.driver.replicas[group]).raft.role != LEADER or not replica.is_serving():
            await asyncio.sleep(0.002)

    def follow(self, group: GroupId) -> Replica:
        """Takes part in a group whose other half is not there: it has no leader."""
        self.node.create_group(group, Configuration(voters=(NODE, ABSENT)))
        return self.driver.replicas[group]


def run(folder: Path, test: Callable[[SingleNode], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        single = SingleNode(folder)
        await single.node.start()
        try:
            async with asyncio.timeout(20):
                await test(single)
        finally:
            await single.node.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())
