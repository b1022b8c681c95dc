"""Real brokers as clients see them, without sockets or with them (`shells`); a test decides about each request first.

They are those of `tests/unit/broker/fleet`: whole brokers on simulated disks, with a clock that tests turn.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

from flotilla.broker.broker import Broker
from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.ports import Cancel, Done
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import (
    Fetch,
    Fetched,
    Produce,
    Produced,
    Reply,
    Request,
    TransferLeadership,
)
from flotilla.types.records import Record
from flotilla.types.settings import NodeSettings
from tests.unit.broker.fleet import BEGINNING_MS, CLUSTER, Fleet, Node, client_address


class Held:
    """No answer: the request is taken, and nothing is done."""


HELD = Held()
#: Decides about a request before a node does, for what no real broker answers at the wish of a test: None lets it pass.
Fault = Callable[[int, Request], FlotillaError | Reply | Held | None]


class Brokers:
    fleet: Fleet

    def __init__(self, nodes: int = 1, **settings: Any) -> None:
        """`settings`: those of NodeSettings."""
        self._settings = NodeSettings(cluster_name=CLUSTER, **{"auto_create_topics": False, **settings})
        #: Client addresses; servers that are opened before `form` put theirs here.
        self.addresses = {node: client_address(node) for node in range(1, nodes + 1)}
        self.fault: Fault = lambda node, request: None
        #: What clients asked, with the node that they asked.
        self.requests: list[tuple[int, Request]] = []
        #: Of those, what waits for an answer.
        self.waiting: list[Request] = []
        #: How a test reaches the brokers: they may live on another thread.
        self.on: Callable[[Callable[[], Any]], Any] = lambda action: action()

    def form(self, now_ms: int = BEGINNING_MS) -> Self:
        """`now_ms`: the time of day."""
        self.fleet = Fleet(len(self.addresses), self._settings, self.addresses, now_ms - BEGINNING_MS).form()
        return self

    @property
    def cluster_id(self) -> str:
        return self.fleet.nodes[1].broker.cluster_id

    def now_ms(self) -> int:
        return self.fleet.nodes[1].now_ms()

    def node(self, number: int) -> "BrokerNode":
        return BrokerNode(self, number)

    # What clients do.

    def count(self, kind: type[Request[Any]]) -> int:
        return sum(isinstance(request, kind) for _, request in self.requests)

    def handle(self, node: int, request: Request, done: Done, metadata_index: int = 0) -> Cancel | None:
        self.requests.append((node, request))
        refused = self.fault(node, request)
        if refused is not None:
            if not isinstance(refused, Held):
                done(refused)
            return None
        self.waiting.append(request)

        def answered(result: Reply | FlotillaError) -> None:
            ended()
            done(result)

        def ended() -> None:
            # By identity: equal requests may wait.
            self.waiting = [other for other in self.waiting if other is not request]

        cancel = self.fleet.nodes[node].broker.handle(request, answered, metadata_index)
        self.fleet.settle()
        if cancel is None:
            return None
        return lambda: (ended(), cancel())[1]

    # What tests do, by the brokers' own requests.

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """The nodes lead its partitions in turn."""
        self.on(lambda: self._create(topic, partitions, settings))

    def _create(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        self.fleet.create(topic, partitions, **settings)
        for number in range(partitions):
            self._lead(topic, number, 1 + number % len(self.addresses))

    def leader(self, topic: str, number: int = 0) -> Node:
        found: Node = self.on(lambda: self.fleet.leader(topic, number))
        return found

    def move(self, topic: str, number: int, node: int) -> None:
        """Another node leads from now on, and knows the leases of the last one."""
        self.on(lambda: self._lead(topic, number, node))

    def _lead(self, topic: str, number: int, node: int) -> None:
        leader = self.fleet.leader(topic, number)
        if leader.node != node:
            leader.ask(TransferLeadership(topic, number, node))
            self.fleet.wait(lambda: self.fleet.leader(topic, number).node == node)

    def answer(self, topic: str, number: int, request: Request) -> Reply | FlotillaError:
        """Of the leader of a partition."""
        found: Reply | FlotillaError = self.on(lambda: self.fleet.leader(topic, number).call(request).result)
        return found

    def produce(self, topic: str, number: int, *records: Record) -> None:
        stored = self.answer(topic, number, Produce(topic, number, encode_batch(list(records))))
        assert isinstance(stored, Produced), stored

    def stored(self, topic: str) -> list[bytes]:
        """All payloads."""
        return [record.payload for record in self.records(topic)]

    def records(self, topic: str, number: int | None = None) -> list[Record]:
        """Of one partition, or of all."""
        partitions = self.leader(topic).catalog.topic(topic).partitions
        numbers = range(len(partitions)) if number is None else [number]
        views = [BatchView(batch) for each in numbers for batch in self.batches(topic, each)]
        return [record for view in views for record in view.records()]

    def batches(self, topic: str, number: int = 0) -> list[bytes]:
        found: list[bytes] = []
        offset = 0
        while True:
            fetched = self.answer(topic, number, Fetch(topic, number, offset, 1 << 20))
            assert isinstance(fetched, Fetched), fetched
            if not fetched.batches:
                return found
            found += map(bytes, fetched.batches)
            offset += sum(BatchView(batch).count for batch in fetched.batches)

    def has_topic(self, topic: str) -> bool:
        return self.on(lambda: self.fleet.controller().catalog.find_topic(topic)) is not None

    def move_metadata(self, node: int) -> None:
        """Another node leads the metadata from now on."""
        self.on(lambda: self._lead_metadata(node))

    def _lead_metadata(self, node: int) -> None:
        controller = self.fleet.controller()
        if controller.node != node:
            controller.transfer(METADATA_GROUP, node)
            self.fleet.wait(lambda: self.fleet.controller().node == node)

    def term(self, topic: str, number: int = 0) -> int:
        leader = self.leader(topic, number)
        replica = leader.replica(leader.catalog.topic(topic).partitions[number].group)
        assert replica is not None
        return replica.raft.term


class BrokerNode:
    """One of them, as a Service."""

    def __init__(self, brokers: Brokers, node: int) -> None:
        self._brokers = brokers
        self.node = node

    @property
    def _broker(self) -> Broker:
        return self._brokers.fleet.nodes[self.node].broker

    @property
    def cluster_id(self) -> str:
        return self._broker.cluster_id

    @property
    def metadata_index(self) -> int:
        return self._broker.metadata_index

    def now_ms(self) -> int:
        return self._brokers.now_ms()

    def handle(self, request: Request, done: Done, metadata_index: int = 0) -> Cancel | None:
        return self._brokers.handle(self.node, request, done, metadata_index)

    def lost(self, members: Sequence[str]) -> None:
        self._broker.lost(members)
        self._brokers.fleet.settle()
