"""The cluster as the doors see it: whatever they are asked goes to whom it belongs, from any node or from a proxy.

Owns the way of requests: who leads what, what may be repeated, how records of many callers share batches, where
messages of several leaders come together, and what becomes of messages that arrive for nobody. It knows nothing of
HTTP or gRPC. Its callers share connections, so nothing of one caller may harm another one: a short deadline ends
the wait of one caller and not a batch, a record that is too large is refused before it travels, and what waits has
connections of its own.

A caller that is cancelled is not waited for: its poll is withdrawn, and what was leased for it is given back
uncounted. A change that it asked for may be carried out all the same.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, TypeVar, cast

from flotilla.client._core.asyncio_network import Network, now_ms, time_of_day_ms
from flotilla.client._core.calls import CallResult, ClientCall, outcome_unknown
from flotilla.client._core.local_link import LocalEndpoint
from flotilla.client._core.positions import find_topic
from flotilla.client._core.session import no_topic
from flotilla.client._options import new_session
from flotilla.client.admin.groups import Groups
from flotilla.client.producer.aio import AsyncProducer
from flotilla.client.producer.receipt import Receipt
from flotilla.gateway.forwarded_leases import ForwardedLease, ForwardedLeases, forward
from flotilla.gateway.long_poll_connections import LongPollConnection, LongPollConnections
from flotilla.gateway.poll import GatewayPoll
from flotilla.gateway.produce import OPTIONS, PRODUCE_MS, Sent
from flotilla.gateway.subscription import GatewaySubscription
from flotilla.types import operations as ops
from flotilla.types.address import Address
from flotilla.types.errors import (
    ConnectionClosedError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from flotilla.types.operations import CONTROLLER, Metadata, Reply, Request, Route, TopicInfo, TopicReply
from flotilla.types.operations.queue import (
    RELEASE,
    Extend,
    LeaseRange,
    Poll,
    Polled,
    Pushed,
    Settle,
    Settled,
    Subscribe,
)
from flotilla.types.records import Record, RecordLimits, check_record

TIMEOUT_MS_DEFAULT: Final = 10_000
#: A leader that loses a connection takes back what came over it after a second: leases are shown before, and again
#: in case that it has noticed later than we have.
_PRESENT_AGAIN_MS: Final = 400
_PAYLOAD: Final = "payload_bytes_max"

Answer = TypeVar("Answer", bound=Reply)


class Gateway:
    """Belongs to the loop on which it is first used. Nothing is connected before that."""

    def __init__(
        self,
        addresses: Callable[[], Sequence[Address]],
        name: str = "gateway",
        clock: Callable[[], int] | None = None,
        local: Callable[[Address], LocalEndpoint | None] | None = None,
    ) -> None:
        """`addresses` is asked for brokers when the first connection is needed: one that answers is enough.

        `clock` is the time of day at a broker; None: none is here, and they tell it themselves. `local` finds the
        broker at an address if it runs in this process: it is asked without a socket.
        """
        self._addresses = addresses
        self._name = name
        self._clock = clock
        self._local = local
        self._connections = LongPollConnections(self._open_network, self._link_lost)
        self._main: LongPollConnection | None = None
        self._producers: dict[str, AsyncProducer] = {}
        #: What each topic lets in, as long as what is known of it is the same.
        self._limits: dict[str, tuple[TopicInfo, RecordLimits]] = {}
        self._forwarded = ForwardedLeases()
        self._rotation = count()
        #: One that is asked on the first connection tells its time, if it is of a version that does.
        self._has_met_broker = False
        self._is_closed = False

    async def close(self) -> None:
        """Sends what is on its way, as far as that is quick, and ends every connection."""
        if self._is_closed:
            return
        self._is_closed = True
        closing = [producer.close(timeout_ms=1_000) for producer in list(self._producers.values())]
        # Whoever waits for a record that failed is told by its own call.
        await asyncio.gather(*closing, return_exceptions=True)
        await self._connections.close()
        if self._main is not None:
            await self._main.network.close()

    # The time of day at the brokers, by which delays end.

    async def learn_time(self) -> None:
        """Until a broker has told its time, if that is needed. Raises FlotillaError."""
        if self._clock is None and not self._has_met_broker:
            await self.ask(ops.InitCluster({}))
            self._has_met_broker = True

    def now_ms(self) -> int:
        """By this machine, as long as no broker has told."""
        if self._clock is not None:
            return self._clock()
        return time_of_day_ms() + (0 if self._main is None else self._main.network.difference.most_ms)

    # Any request.

    async def ask(self, request: Request[Answer], *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Answer:
        """Has a request answered by whoever is right for it, wherever that is by now. Raises FlotillaError.

        `timeout_ms` comes on top of what the request itself wants to wait.
        """
        if isinstance(request, Poll):
            return cast(Answer, await self.poll(request, timeout_ms=timeout_ms))
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

    async def _call(self, network: Network, request: Request[Answer], timeout_ms: int) -> Answer:
        future: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()

        def done(result: CallResult) -> None:
            if not future.done():
                future.set_result(result)

        call = network.submit(request, timeout_ms, done)
        try:
            result = await future
        except asyncio.CancelledError:
            if call.wait_ms:
                # Nobody waits for it, and it should not take up a place at a broker either.
                network.session.withdraw(call, now_ms())
                network.wake()
            else:
                network.session.cancel(call)
            raise
        if isinstance(result, FlotillaError):
            raise result
        self._learn(call, result)
        # The session lets no other reply pass.
        return cast(Answer, result)

    def _learn(self, call: ClientCall, reply: Reply) -> None:
        """What the gateway itself makes of an answer."""
        request = call.request
        if isinstance(request, Settle | Extend) and isinstance(reply, Settled):
            if call.is_unsure:
                # After an attempt without an answer, what is refused was most likely settled by that attempt.
                reply.expired = []
            if isinstance(request, Settle):
                self._forwarded.settled(request.topic, request.group, request.partition, request.held)
            else:
                self._forwarded.extended(request, now_ms() + request.visibility_ms)
                self._forwarded.settled(request.topic, request.group, request.partition, reply.expired)
        elif isinstance(reply, TopicReply):
            self._forget(reply.topic.name)

    async def metadata(self, topics: Sequence[str] = (), *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Metadata:
        """Brokers, and the topics that are named (all, if none is) with who leads what. What is missing is left out."""
        return await self.ask(ops.GetMetadata(list(topics)), timeout_ms=timeout_ms)

    async def cluster(self, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Metadata:
        """The same without any topic, however many there are: no topic has an empty name.

        Only a broker that is part of a cluster, and knows who leads it, can say that a topic is not there.
        """
        return await self.metadata([""], timeout_ms=timeout_ms)

    async def topic(self, name: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> TopicInfo:
        """One topic as it is now. Raises NotFoundError."""
        found = await self.metadata([name], timeout_ms=timeout_ms)
        if not found.topics:
            # The broker that answered may lag behind; what the controller does not know does not exist.
            found = await self._opened().network.call(ops.GetMetadata([name]), timeout_ms, route=CONTROLLER)
        if not found.topics:
            raise no_topic(name)
        return found.topics[0]

    def known_topic(self, name: str) -> TopicInfo | None:
        """One topic as it was when it was last asked about; None if it never was. Asked again before it is old."""
        main = self._opened()
        main.refresh(name)
        return main.network.session.routes.topics.get(name)

    def brokers(self) -> Sequence[Address]:
        """Where the cluster can be reached, for clients that need more than a gateway."""
        return self._addresses()

    async def partitions(self, topic: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> list[int]:
        """The numbers of a topic's partitions, as far as known: they can only grow. Raises NotFoundError."""
        main = self._opened()
        main.refresh(topic)
        found = await find_topic(main.network, topic, timeout_ms)
        return [part.number for part in found.partitions]

    def groups(self, topic: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Groups:
        """The groups of a topic, for what takes several requests."""
        main = self._opened()
        main.refresh(topic)
        return Groups(main.network, topic, timeout_ms)

    # Producing.

    async def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        timeout_ms: int = TIMEOUT_MS_DEFAULT,
    ) -> list[Receipt]:
        """Stores records, in batches with those of other callers, and returns where, in their order.

        Raises the first error; others of the records may be stored then. They are stored once, however often the
        gateway has to repeat itself; only a caller that repeats itself needs idempotency keys. Raises
        OutcomeUnknownError when there is no answer in time.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                sent = await self.send(topic, records, partition=partition)
                return await sent.receipts()
        except TimeoutError:
            raise outcome_unknown(None) from None

    async def send(self, topic: str, records: Sequence[Record], *, partition: int | None = None) -> Sent:
        """The same without waiting for the answer: records are stored in the order of the calls.

        Waits only while too much is under way, or the topic is not known. Raises InvalidArgumentError, NotFoundError.
        """
        main = self._opened()
        main.refresh(topic, lambda: self._refreshed(topic))
        if topic not in main.network.session.routes.topics:
            await find_topic(main.network, topic, TIMEOUT_MS_DEFAULT, create=True)
            self._refreshed(topic)
        stamped = self._checked(topic, records)
        producer = self._producer(topic)
        deliveries = [await producer.send_record(record, partition, PRODUCE_MS) for record in stamped]
        return Sent(main.network, topic, stamped, partition, deliveries)

    def _refreshed(self, topic: str) -> None:
        """A topic may have got more partitions, or be gone."""
        if topic in self._opened().network.session.routes.topics:
            producer = self._producers.get(topic)
            if producer is not None:
                producer.adapt()
        else:
            self._producers.pop(topic, None)
            self._limits.pop(topic, None)

    def _checked(self, topic: str, records: Sequence[Record]) -> list[Record]:
        """Records that a broker will take, with their time. Raises InvalidArgumentError."""
        limits = self._limits_of(self._opened().network.session.routes.topics[topic])
        time_ms = self.now_ms()
        stamped = []
        for record in records:
            check_record(record, limits)
            stamped.append(record if record.timestamp_ms else record._replace(timestamp_ms=time_ms))
        return stamped

    def _limits_of(self, topic: TopicInfo) -> RecordLimits:
        known = self._limits.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        limits = RecordLimits(payload_bytes_max=topic.settings_in_force.payload_bytes_max)
        self._limits[topic.name] = (topic, limits)
        return limits

    def _producer(self, topic: str) -> AsyncProducer:
        producer = self._producers.get(topic)
        if producer is None:
            network = self._opened().network
            producer = self._producers[topic] = AsyncProducer(network, topic, OPTIONS, self._producer_closed)
        return producer

    def _producer_closed(self, producer: AsyncProducer) -> None:
        if self._producers.get(producer.topic) is producer:
            del self._producers[producer.topic]

    # Queue groups.

    async def poll(self, request: Poll, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Polled:
        """Leases messages, of all partitions of the topic unless some are named; waits for the first one.

        What comes must be settled by (partition, lease, offset) in time; nothing is renewed here.
        """
        connection = self._connections.enter()
        try:
            await self._prepare(connection, request, timeout_ms)
            polled = await self._poll(connection.network, request, timeout_ms)
        finally:
            self._connections.leave(connection)
        self._forward(request, connection.network, polled)
        return polled

    async def _poll(self, network: Network, request: Poll, timeout_ms: int) -> Polled:
        future: asyncio.Future[Polled | FlotillaError] = asyncio.get_running_loop().create_future()

        def done(result: Polled | FlotillaError) -> None:
            if not future.cancelled():
                future.set_result(result)
            elif isinstance(result, Polled):
                self._release(request, result)

        network.session.now_ms = now_ms()
        poll = GatewayPoll(
            network.session,
            request,
            rotation=next(self._rotation),
            timeout_ms=timeout_ms,
            done=done,
            release=lambda polled: self._release(request, polled),
            moved=lambda partition: self._moved(request.topic, partition),
        )
        network.wake()
        try:
            result = await future
        except asyncio.CancelledError:
            network.session.now_ms = now_ms()
            poll.abandon()
            network.wake()
            if future.done() and not future.cancelled() and isinstance(found := future.result(), Polled):
                self._release(request, found)
            raise
        if isinstance(result, FlotillaError):
            raise result
        return result

    async def subscribe(self, request: Subscribe, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> GatewaySubscription:
        """Messages as they come, as many as there is credit for, until it is closed: what it holds goes back then."""
        connection = self._connections.enter()
        try:
            await self._prepare(connection, request, timeout_ms)
            network = connection.network
            return GatewaySubscription(
                network,
                request,
                timeout_ms=timeout_ms,
                forward=lambda pushed: self._forward(request, network, pushed),
                release=lambda polled: self._release(request, polled),
                give_back=self.give_back,
                moved=lambda partition: self._moved(request.topic, partition),
                closed=lambda: self._connections.leave(connection),
            )
        except BaseException:
            self._connections.leave(connection)
            raise

    async def _prepare(self, connection: LongPollConnection, request: Poll | Subscribe, timeout_ms: int) -> None:
        """Finds out which partitions there are and who leads them."""
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

    # Leases.

    def _forward(self, request: Poll | Subscribe, network: Network, given: Polled | Pushed) -> list[ForwardedLease]:
        time_ms = now_ms()
        find = network.session.routes.find
        leases = []
        for delivery in given.deliveries:
            leader = find(Route(request.topic, delivery.partition))
            until_ms = time_ms + given.visibility_ms
            forwarded = forward(
                request.topic, request.group, request.member, delivery, leader=leader, until_ms=until_ms
            )
            self._forwarded.add(forwarded, time_ms)
            leases.append(forwarded)
        return leases

    def _release(self, request: Poll | Subscribe, polled: Polled) -> None:
        """Gives back, uncounted, what arrived for nobody. If that fails, the leases run out."""
        runs: dict[int, list[LeaseRange]] = {}
        for each in polled.deliveries:
            if each.lease_id:
                runs.setdefault(each.partition, []).append(
                    LeaseRange(each.lease_id, each.first, each.first + each.count)
                )
        for partition, ranges in runs.items():
            self.give_back(Settle(request.topic, partition, request.group, RELEASE, ranges, delay_ms=0))

    def give_back(self, request: Settle) -> None:
        """Settles without anybody who waits for it."""
        if self._is_closed or self._main is None:
            return
        self._forwarded.settled(request.topic, request.group, request.partition, request.held)
        self._main.network.submit(request, TIMEOUT_MS_DEFAULT, lambda result: None)

    def _link_lost(self, address: Address) -> None:
        # Later: the session is in the middle of something.
        if not self._is_closed and len(self._forwarded):
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self._present(self._forwarded.of_leader(address)))
            loop.call_later(_PRESENT_AGAIN_MS / 1000, lambda: self._present(self._forwarded.of_leader(address)))

    def _moved(self, topic: str, partition: int) -> None:
        if len(self._forwarded):
            self._present(self._forwarded.of_partition(topic, partition))

    def _present(self, leases: list[ForwardedLease]) -> None:
        """Shows what was lent to whoever leads now, so that it is given to nobody else."""
        if self._is_closed or self._main is None:
            return
        network = self._main.network
        for request in self._forwarded.presentations(leases, now_ms()):

            def done(result: CallResult, request: Extend = request) -> None:
                if isinstance(result, Settled):
                    self._forwarded.settled(request.topic, request.group, request.partition, result.expired)

            network.submit(request, request.visibility_ms, done)

    # Inside.

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
        return Network(new_session(addresses, self._name, is_gateway=True), self._local)

    def _forget(self, topic: str) -> None:
        """A topic was made, changed or removed: what is known of it is asked for again."""
        self._limits.pop(topic, None)
        for connection in self._connections.all(self._main):
            connection.network.session.routes.forget(topic)
