"""A queue consumer's core among simulated brokers with the real queue engine, on a clock that tests turn by hand."""

from collections.abc import Iterable
from typing import Any

from flotilla.client._core.session_options import SessionOptions
from flotilla.client.queue._core import QueueCore
from flotilla.client.queue.message import Leased, masks_of
from flotilla.client.queue.options import QueueOptions
from flotilla.client.queue.outcome import ACKED, Outcome
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import TopicInfo
from flotilla.types.operations.queue import DescribeGroup, GroupDescription
from flotilla.types.records import Record
from tests.unit.client.queue_broker import QueueCluster, produce
from tests.unit.client.world import World

#: Brokers may have something to do earlier than they knew.
_STEP_MS = 50


class QueueWorld(World):
    cluster: QueueCluster

    def __init__(self, nodes: int = 1, partitions: int = 1, topic: str = "orders", **settings: str) -> None:
        self.now_ms = 1_000
        self.topic = topic
        cluster = QueueCluster(nodes, lambda: self.now_ms)
        cluster.settings[topic] = dict(settings)
        cluster.create(topic, partitions)
        super().__init__(cluster, options=SessionOptions(suspect_ms=200))

    def pass_ms(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            next_ms = max(self.cluster.next_event_ms() or end_ms, self.now_ms + 1)
            super().pass_ms(min(next_ms, self.now_ms + _STEP_MS, end_ms) - self.now_ms)
            self.cluster.tick()
            self.run()

    def cut(self, node: int, reason: str = "reset") -> None:
        self.cluster.drop(node)
        super().cut(node, reason)

    def produce(self, *payloads: bytes, partition: int = 0, **fields: Any) -> None:
        produce(self.cluster, self.topic, partition, *[Record(payload, **fields) for payload in payloads])

    def describe(self, group: str = "workers", partition: int = 0) -> GroupDescription:
        part = self.cluster.topics[self.topic][partition]
        found = self.cluster.answer(part.leader, DescribeGroup(self.topic, partition, group))
        assert isinstance(found, GroupDescription), found
        return found

    def consumer(self, member: str = "one", **options: Any) -> "Member":
        found: list[TopicInfo | FlotillaError] = []
        self.session.resolve(self.topic, self.now_ms + 1_000, found.append, self.now_ms)
        self.run()
        assert isinstance(found[0], TopicInfo)
        return Member(self, member, QueueOptions(**options))

    def requests(self, kind: type) -> list[Any]:
        return [request for _, request in self.cluster.requests if isinstance(request, kind)]


class Member:
    """One consumer, with the steps of a shell."""

    def __init__(self, world: QueueWorld, member: str, options: QueueOptions) -> None:
        self.world = world
        self.reader: QueueCore[Leased[str]] = QueueCore(
            world.session, world.topic, "workers", member, options, kind=Leased, owner=member, news=lambda: None
        )

    def poll(self, messages_max: int = 16, wait_ms: int = 0) -> list[Leased[str]]:
        world = self.world
        self.reader.want(messages_max, world.now_ms + wait_ms, world.now_ms)
        world.run()
        until_ms = world.now_ms + wait_ms
        while not self.reader.ready and world.now_ms < until_ms:
            world.pass_ms(_STEP_MS)
        self.reader.rest()
        return self.reader.take(messages_max)

    def flow(self) -> None:
        self.reader.flow()
        self.reader.pump(self.world.now_ms)
        self.world.run()

    def settle(self, messages: Iterable[Leased[str]], outcome: Outcome = ACKED) -> list[FlotillaError | None]:
        """Settles with the next turn; the outcome will be in the list."""
        results: list[FlotillaError | None] = []
        self.reader.settle(masks_of(messages), outcome, results.append)
        return results

    def pump(self) -> None:
        self.reader.pump(self.world.now_ms)
        self.world.run()

    def ack(self, messages: Iterable[Leased[str]], outcome: Outcome = ACKED) -> FlotillaError | None:
        results = self.settle(messages, outcome)
        self.pump()
        assert len(results) == 1
        return results[0]


def payloads(messages: Iterable[Leased[str]]) -> list[bytes]:
    return [message.payload for message in messages]
