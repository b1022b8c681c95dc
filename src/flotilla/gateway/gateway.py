"""The cluster as one broker, for endpoints on any node and for proxies: each request goes to the node that answers it.

The gateway routes requests, retries them as far as their effect allows, shares batches between callers, polls several
leaders for one caller, and releases messages whose caller has left. It knows nothing of HTTP or gRPC. Its callers share
connections, so no caller may harm another: a short deadline ends the wait of one caller and not a batch, an oversized
record is refused before it is sent, and long polls have connections of their own.

A cancelled caller's poll is withdrawn, and messages that were leased for it are released. A change that it requested
may still be carried out.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, TypeVar, cast

from flotilla.client._core.answer import Answer
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import outcome_unknown
from flotilla.client._core.closing import TimeLimit
from flotilla.client._core.local_link import LocalEndpoint
from flotilla.client._core.positions import find_topic
from flotilla.client._core.seen_metadata import SeenMetadata
from flotilla.client._core.session import no_topic
from flotilla.client._options import new_session
from flotilla.client.admin.dead_letters import AsyncDeadLetters
from flotilla.client.admin.groups import Groups
from flotilla.client.admin.schedules import AsyncSchedules
from flotilla.client.admin.trimming import purge, trim
from flotilla.client.credentials import CredentialsProvider
from flotilla.client.node_client import node_client
from flotilla.client.producer.receipt import Receipt
from flotilla.gateway.lease_forwarding import LeaseForwarding
from flotilla.gateway.long_poll_connections import LongPollConnection, LongPollConnections
from flotilla.gateway.poll import GatewayPoll
from flotilla.gateway.produce import GatewayProducers, PendingRecords
from flotilla.gateway.subscription import GatewaySubscription
from flotilla.machine import now_ms, steady_ms
from flotilla.security.tls_endpoints import TlsDialler
from flotilla.types import operations as ops
from flotilla.types.access import Resource, Right
from flotilla.types.address import Address
from flotilla.types.errors import (
    ConnectionClosedError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    ReplicaBehindError,
    UnavailableError,
)
from flotilla.types.ids import Index, NodeId, Offset
from flotilla.types.operations import Metadata, Reply, Request, Route, TopicInfo, TopicReply
from flotilla.types.operations.queue import (
    LeaveQueue,
    Poll,
    Polled,
    Subscribe,
)
from flotilla.types.records import Record
from flotilla.types.topics import check_group_name

TIMEOUT_MS_DEFAULT: Final = 10_000

R = TypeVar("R", bound=Reply)


class Gateway:
    """Belongs to the loop of its first request, which opens the first connection."""

    def __init__(
        self,
        addresses: Callable[[], Sequence[Address]],
        name: str = "gateway",
        clock: Callable[[], int] | None = None,
        local: Callable[[Address], LocalEndpoint | None] | None = None,
        tls: TlsDialler | None = None,
        credentials: CredentialsProvider | None = None,
    ) -> None:
        """`addresses` returns bootstrap addresses when a connection is needed: one that answers is enough.

        `clock` is the time of day at the brokers; None: Welcome reports it. `local` finds the broker of an address that
        runs in this process: it is reached without a socket. With `tls` all others are reached encrypted; `credentials`
        say to them who asks.
        """
        self._tls = tls
        self._addresses = addresses
        self._name = name
        self._clock = clock
        self._local = local
        self._credentials = credentials
        self._seen = SeenMetadata()
        self._leases = LeaseForwarding(self._network)
        self._connections = LongPollConnections(self._open_network, self._leases.link_lost)
        self._main: LongPollConnection | None = None
        self._producers = GatewayProducers(self._opened, self.now_ms)
        #: The leader that the next poll asks first.
        self._rotation = count()
        #: A broker has answered on the first connection, so Welcome has reported its time.
        self._has_met_broker = False
        self._is_closed = False

    async def close(self) -> None:
        """Sends pending records, as far as that is quick, and closes every connection."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._producers.close()
        await self._connections.close()
        if self._main is not None:
            await self._main.network.close()

    # The brokers' time of day, by which delays end.

    async def learn_time(self) -> None:
        """Waits until a broker has reported its time, if that is needed. Raises FlotillaError."""
        if self._clock is None and not self._has_met_broker:
            # Anybody may ask for it.
            await self.cluster()
            self._has_met_broker = True

    def now_ms(self) -> int:
        """By the clock of this machine until a broker has reported its time."""
        if self._clock is not None:
            return self._clock()
        return now_ms() + (0 if self._main is None else self._main.network.difference.most_ms)

    # Any request.

    async def ask(self, request: Request[R], *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> R:
        """Sends a request to the node that answers it. Raises FlotillaError.

        `timeout_ms` is added to the wait of a long poll.
        """
        if isinstance(request, Poll):
            return cast(R, await self.poll(request, timeout_ms=timeout_ms))
        if isinstance(request, Subscribe):
            raise InvalidArgumentError("a subscription is answered many times: use subscribe")
        wait_ms: int = getattr(request, "wait_ms", 0)
        if not wait_ms:
            return await self._call(self._opened().network, request, timeout_ms)
        connection = self._connections.enter()
        try:
            return await self._call(connection.network, request, wait_ms + timeout_ms)
        finally:
            self._connections.leave(connection)

    async def _call(self, network: Network, request: Request[R], timeout_ms: int) -> R:
        answer: Answer[Reply] = Answer()
        call = network.submit(request, timeout_ms, answer.set)
        try:
            reply = await answer.wait()
        except asyncio.CancelledError:
            if call.wait_ms:
                # It must not occupy the broker, either.
                network.session.withdraw(call, steady_ms())
                network.wake()
            else:
                network.session.cancel(call)
            raise
        self._leases.answered(call, reply)
        if isinstance(reply, TopicReply):
            self._forget(reply.topic.name)
        # The session lets no other reply pass.
        return cast(R, reply)

    async def ask_node(self, node: NodeId, request: Request[R], *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> R:
        """Sends a request that any node can answer to this one. Raises FlotillaError."""
        return await self._opened().network.call(request, timeout_ms, route=Route(replica=node))

    # What callers have seen of the metadata, here or at other nodes.

    @property
    def metadata_index(self) -> Index:
        """The newest change of a topic or of a group's settings that answers of this gateway rest on."""
        return self._seen.index

    async def reach(self, index: Index, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> None:
        """Has every later answer rest on metadata up to this index, which a caller has seen elsewhere.

        Raises FlotillaError when no broker knows the index: others must not wait for what one caller made up.
        """
        if index <= self._seen.index:
            return
        answer: Answer[Reply] = Answer()
        self._opened().network.submit(ops.GetMetadata([""]), timeout_ms, answer.set, metadata_index=index)
        metadata = cast(Metadata, await answer.wait())
        if metadata.is_stale:
            raise ReplicaBehindError(f"the metadata have no quorum, and no broker is known that has index {index}")
        self._seen.note(index)

    async def metadata(self, topics: Sequence[str] = (), *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Metadata:
        """The brokers, and the named topics with their leaders, or all topics. Unknown topics are left out."""
        return await self.ask(ops.GetMetadata(list(topics), is_linearizable=True), timeout_ms=timeout_ms)

    async def cluster(self, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Metadata:
        """The same without topics, however many there are: no topic has an empty name.

        Only a broker of a cluster that knows the controller can say that a topic does not exist.
        """
        return await self.ask(ops.GetMetadata([""]), timeout_ms=timeout_ms)

    async def topic(self, name: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> TopicInfo:
        """The current description of a topic. Raises NotFoundError."""
        found = await self.metadata([name], timeout_ms=timeout_ms)
        if not found.topics:
            raise no_topic(name)
        return found.topics[0]

    def known_topic(self, name: str) -> TopicInfo | None:
        """The last known description of a topic, which is refreshed in the background; None: unknown.

        A closed gateway knows none: what a caller has done until then is done, and gets its answer.
        """
        if self._is_closed:
            return None
        main = self._opened()
        main.refresh(name)
        return main.network.session.topic(name)

    @asynccontextmanager
    async def dead_letters(
        self, topic: str, group: str, *, redrives: bool = False, timeout_ms: int = TIMEOUT_MS_DEFAULT
    ) -> AsyncIterator[AsyncDeadLetters]:
        """The dead letters of a group, by a client of its own: that is rare, and takes no place on the connections.

        `redrives`: the caller is about to produce them again.
        """
        servers = [str(address) for address in self._addresses()]
        async with node_client(servers, self._tls, timeout_ms=timeout_ms, credentials=self._credentials) as client:
            yield client.dead_letters(topic, group)

    @property
    def caller(self) -> object:
        """Callers that are equal have the same rights: what they ask for may share a request."""
        return None

    def may(self, right: Right, resource: Resource) -> bool:
        """Whether the caller has a right: everybody has all of them, unless callers are asked who they are."""
        return True

    async def partitions(self, topic: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> list[int]:
        """The known partitions of a topic; partitions are only added. Raises NotFoundError."""
        main = self._opened()
        main.refresh(topic)
        found = await find_topic(main.network, topic, timeout_ms)
        return [part.number for part in found.partitions]

    def groups(self, topic: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Groups:
        """The groups of a topic, for operations of several requests."""
        main = self._opened()
        main.refresh(topic)
        return Groups(main.network, topic, timeout_ms)

    async def trim(
        self, topic: str, offsets: Mapping[int, Offset] | None, *, timeout_ms: int = TIMEOUT_MS_DEFAULT
    ) -> dict[int, Offset]:
        """Removes the messages below these offsets of the partitions; None: all that are there now."""
        limit = TimeLimit(timeout_ms)
        found = await self.topic(topic, timeout_ms=timeout_ms)

        def ask(request: Request[R]) -> Awaitable[R]:
            return self.ask(request, timeout_ms=limit.left_ms or 1)

        return await (purge(ask, found) if offsets is None else trim(ask, found, offsets))

    def schedules(self, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> AsyncSchedules:
        """The schedules of the cluster."""
        return AsyncSchedules(lambda: self._opened().network, timeout_ms)

    # Producing.

    async def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        timeout_ms: int = TIMEOUT_MS_DEFAULT,
        create: bool = True,
        owner: str = "",
    ) -> list[Receipt]:
        """Stores records, in batches that callers share, and returns their receipts in order.

        Raises the first error; other records of the call may be stored then. A retry of the gateway never stores a
        record twice; only a caller that repeats its call needs idempotency keys. Raises OutcomeUnknownError when there
        is no answer in time.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                sent = await self.send(topic, records, partition=partition, create=create, owner=owner)
                return await sent.receipts()
        except FlotillaError:
            # DeadlineError is a TimeoutError, too.
            raise
        except TimeoutError:
            raise outcome_unknown(None) from None

    async def send(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        create: bool = True,
        owner: str = "",
    ) -> PendingRecords:
        """The same without waiting for the answer: records are stored in the order of the calls.

        With `create` a missing topic is created for its owner, if the cluster allows that. Waits only while too many
        are in flight, or the topic is unknown. Raises InvalidArgumentError, NotFoundError.
        """
        return await self._producers.send(topic, records, partition, create=create, owner=owner)

    # Queue groups.

    async def poll(self, request: Poll, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Polled:
        """Leases messages of all partitions, or of the named ones; waits for the first message.

        The caller must settle or extend them by (partition, lease, offset) in time: the gateway renews nothing.
        """
        connection = self._connections.enter()
        try:
            await self._prepare(connection, request, timeout_ms)
            polled = await self._poll(connection.network, request, timeout_ms)
        finally:
            self._connections.leave(connection)
        self._leases.forward(request, connection.network, polled)
        return polled

    async def _poll(self, network: Network, request: Poll, timeout_ms: int) -> Polled:
        future: asyncio.Future[Polled | FlotillaError] = asyncio.get_running_loop().create_future()

        def done(result: Polled | FlotillaError) -> None:
            if not future.cancelled():
                future.set_result(result)
            elif isinstance(result, Polled):
                self._leases.release(request, result)

        network.session.now_ms = steady_ms()
        poll = GatewayPoll(
            network.session,
            request,
            rotation=next(self._rotation),
            timeout_ms=timeout_ms,
            done=done,
            release=lambda polled: self._leases.release(request, polled),
            moved=lambda partition: self._leases.moved(request.topic, partition),
        )
        network.wake()
        try:
            result = await future
        except asyncio.CancelledError:
            network.session.now_ms = steady_ms()
            poll.abandon()
            network.wake()
            if future.done() and not future.cancelled() and isinstance(found := future.result(), Polled):
                self._leases.release(request, found)
            raise
        if isinstance(result, FlotillaError):
            raise result
        return result

    async def subscribe(self, request: Subscribe, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> GatewaySubscription:
        """A subscription, which pushes messages within its credit. Closing it releases its unsettled messages."""
        connection = self._connections.enter()
        try:
            await self._prepare(connection, request, timeout_ms)
            network = connection.network
            return GatewaySubscription(
                network,
                request,
                timeout_ms=timeout_ms,
                forward=lambda pushed: self._leases.forward(request, network, pushed),
                release=lambda polled: self._leases.release(request, polled),
                settle=self._leases.settle,
                moved=lambda partition: self._leases.moved(request.topic, partition),
                closed=lambda: self._connections.leave(connection),
            )
        except BaseException:
            self._connections.leave(connection)
            raise

    async def leave(self, topic: str, group: str, member: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> None:
        """A member of a queue group has ended: the leaders give back what it holds, uncounted. Raises FlotillaError."""
        check_group_name(group)
        numbers = await self.partitions(topic, timeout_ms=timeout_ms)
        routes = self._opened().network.session.routes
        # One question to each leader; a partition whose leader is not known is asked for itself.
        by_leader = {routes.find(Route(topic, number)) or number: number for number in numbers}
        asked = [LeaveQueue(topic, group, member, number) for number in by_leader.values()]
        await asyncio.gather(*[self.ask(request, timeout_ms=timeout_ms) for request in asked])
        self._leases.left(topic, group, member)

    async def _prepare(self, connection: LongPollConnection, request: Poll | Subscribe, timeout_ms: int) -> None:
        """Looks up the partitions and their leaders."""
        connection.refresh(request.topic)
        network = connection.network
        topic = await find_topic(network, request.topic, timeout_ms)
        numbers = [part.number for part in topic.partitions]
        for number in request.partitions:
            if number not in numbers:
                raise NotFoundError(f"topic {topic.name!r} has no partition {number}, only {len(numbers)} of them")
        routes = network.session.routes
        if len(numbers) > 1 and None in [routes.find(Route(request.topic, number)) for number in numbers]:
            found = await network.call(ops.GetMetadata([request.topic]), timeout_ms)
            routes.update(found, [request.topic])

    # Connections.

    def _network(self) -> Network | None:
        """None: it is closed, or never had a connection."""
        return None if self._is_closed or self._main is None else self._main.network

    def _opened(self) -> LongPollConnection:
        if self._main is None:
            self._main = self._connections.open()
        elif self._is_closed:
            raise ConnectionClosedError("the gateway is closed")
        return self._main

    def _open_network(self) -> Network:
        if self._is_closed:
            raise ConnectionClosedError("the gateway is closed")
        addresses = self._addresses()
        if not addresses:
            raise UnavailableError("no broker of this cluster is known yet")
        session = new_session(addresses, self._name, is_gateway=True, seen=self._seen, credentials=self._credentials)
        return Network(session, self._local, self._tls)

    def _forget(self, topic: str) -> None:
        """Drops everything known of a topic that was created, changed or removed."""
        self._producers.forget(topic)
        for connection in self._connections.all(self._main):
            connection.network.session.routes.forget(topic)
