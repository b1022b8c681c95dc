"""A queue consumer's core among real brokers, on a clock that tests turn by hand."""

from collections.abc import Iterable
from typing import Any

from flotilla.client._core.session_options import SessionOptions
from flotilla.client.queue._core import PendingSettlement, QueueCore
from flotilla.client.queue.message import Leased, masks_of
from flotilla.client.queue.options import QueueOptions
from flotilla.client.queue.outcome import ACKED, Outcome
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import TopicInfo
from flotilla.types.operations.queue import DescribeGroup, GroupDescription
from flotilla.types.records import Record
from tests.unit.client.brokers import Brokers
from tests.unit.client.world import World

_STEP_MS = 50


class QueueWorld(World):
    def __init__(self, nodes: int = 1, partitions: int = 1, topic: str = "orders", **settings: str) -> None:
        self.topic = topic
        self.cluster = Brokers(nodes).form()
        self.cluster.create(topic, partitions, **settings)
        super().__init__(self.cluster, options=SessionOptions(suspect_ms=200))

    def kill(self, node: int) -> None:
        """A broker dies, and another one leads."""
        super().kill(node)
        self.cluster.leader(self.topic)

    def produce(self, *payloads: bytes, partition: int = 0, **fields: Any) -> None:
        self.cluster.produce(self.topic, partition, *[Record(payload, **fields) for payload in payloads])

    def describe(self, group: str = "workers", partition: int = 0) -> GroupDescription:
        found = self.cluster.answer(self.topic, partition, DescribeGroup(self.topic, partition, group))
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
        self.reader.settle(masks_of(messages), outcome, _Recorded(self.reader, results))
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


class _Recorded(PendingSettlement):
    def __init__(self, reader: QueueCore[Any], results: list[FlotillaError | None]) -> None:
        super().__init__(reader)
        self._results = results

    def done(self, error: FlotillaError | None) -> None:
        self._results.append(error)
