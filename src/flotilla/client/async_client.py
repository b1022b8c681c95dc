"""The client for coroutines. `sync.Client` has the same names and signatures."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

from flotilla.client._core.asyncio_network import Network, R
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.positions import Start, commit_offset, list_offset, read_offset
from flotilla.client._core.session import no_topic
from flotilla.client._options import (
    TIMEOUT_MS_DEFAULT,
    Subscription,
    new_session,
    read_addresses,
    read_settings,
    read_timeout,
    takes,
)
from flotilla.client.admin.dead_letters import AsyncDeadLetters
from flotilla.client.admin.group_info import GroupInfo
from flotilla.client.admin.groups import Groups
from flotilla.client.producer._at_exit import warn_unclosed
from flotilla.client.producer.aio import AsyncProducer
from flotilla.client.producer.options import ProducerOptions
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.queue.aio import AsyncQueueConsumer
from flotilla.client.queue.options import QueueOptions, StartAt, queue_parameters
from flotilla.client.reader.aio import AsyncReader
from flotilla.client.reader.message import Message
from flotilla.client.reader.options import ReaderPlan, reader_parameters
from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.client.stream.options import StreamOptions, stream_parameters
from flotilla.client.transaction._core import Committed
from flotilla.client.transaction.aio import AsyncTransaction, abort_transaction, commit_together, commit_transaction
from flotilla.types.errors import (
    ConnectionClosedError,
    InvalidArgumentError,
)
from flotilla.types.ids import NO_NODE, NodeId, Offset
from flotilla.types.limits import KIB, MIB
from flotilla.types.operations import (
    CONTROLLER,
    AlterTopic,
    ClusterReply,
    CommitOffset,
    CreateTopic,
    DeleteTopic,
    GetMetadata,
    InitCluster,
    JoinCluster,
    Metadata,
    RemoveNode,
    Request,
    Route,
    TopicInfo,
    TopicReply,
    TransferLeadership,
)
from flotilla.types.operations.cluster import (
    CancelMoves,
    DescribeReplicas,
    DrainNode,
    EnterCluster,
    PlannedMove,
    Rebalance,
    ReplicasDescribed,
)
from flotilla.types.operations.queue import Explanation, GroupReset
from flotilla.types.records import Record

Consumer = TypeVar("Consumer", AsyncReader, AsyncQueueConsumer, AsyncStreamConsumer)


class AsyncClient:
    """A client of a Flotilla cluster, for coroutines of one event loop.

    `addresses` names one or more brokers as `host:port`, by commas or as a list; the others are found by asking.
    Nothing is connected before it is needed. Every call ends by its time limit, `timeout_ms` unless the call says
    otherwise, and has one of three outcomes: it returns, so it is done; it raises OutcomeUnknownError, so it may
    be done or not; it raises anything else, so it is certainly not done. A call that is cancelled may be done.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = "localhost:7600",
        *,
        timeout_ms: int = TIMEOUT_MS_DEFAULT,
        name: str = "",
    ) -> None:
        """`name` tells people at the broker who is connected."""
        #: Whatever has to be closed with the client.
        self._producers: dict[AsyncProducer, None] = {}
        self._addresses = read_addresses(addresses)
        self._timeout_ms = timeout_ms
        self._name = name
        self._network: Network | None = None
        #: For `produce`, by topic.
        self._own_producers: dict[str, AsyncProducer] = {}
        self._consumers: dict[AsyncReader | AsyncQueueConsumer | AsyncStreamConsumer, None] = {}
        self._is_closed = False

    # Topics.

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 0,
        replication_factor: int = 0,
        timeout_ms: int | None = None,
        **settings: int | str,
    ) -> TopicInfo:
        """Makes a topic. 0: as the cluster is set up. Raises AlreadyExistsError."""
        request = CreateTopic(topic, partitions, replication_factor, read_settings(settings))
        return await self._change_topic(request, timeout_ms)

    async def alter_topic(
        self,
        topic: str,
        *,
        partitions: int = 0,
        replication_factor: int = 0,
        timeout_ms: int | None = None,
        **settings: int | str,
    ) -> TopicInfo:
        """Changes settings of a topic, or gives it more partitions (0: as many as it has). Raises NotFoundError.

        Another replication factor has replicas come and go in the background; `target` of a partition tells.
        """
        request = AlterTopic(topic, partitions, read_settings(settings), replication_factor)
        return await self._change_topic(request, timeout_ms)

    async def delete_topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicInfo:
        """Removes a topic with all its messages; what it was is returned. Raises NotFoundError."""
        return await self._change_topic(DeleteTopic(topic), timeout_ms)

    async def topics(self, *, timeout_ms: int | None = None) -> list[TopicInfo]:
        """All topics."""
        return (await self.metadata(timeout_ms=timeout_ms)).topics

    async def describe_topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicInfo:
        """One topic. Raises NotFoundError."""
        found = await self.metadata([topic], timeout_ms=timeout_ms)
        if not found.topics:
            # The broker that answered may lag behind; what the controller does not know does not exist.
            found = await self._call(GetMetadata([topic]), timeout_ms, route=CONTROLLER)
        if not found.topics:
            raise no_topic(topic)
        return found.topics[0]

    # Producing.

    async def produce(
        self,
        topic: str,
        payload: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timeout_ms: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> Receipt:
        """Stores one record and returns where, when a majority of replicas has it on disk.

        It is stored once, however often the client has to repeat itself on the way. Records with a key go to the
        partition of that key unless one is named.
        """
        producer, limit_ms = self._own_producer(topic), self._limit_ms(timeout_ms)
        record = await producer.make_record(payload, key, fields, limit_ms)
        return await (await producer.send_record(record, partition, limit_ms))

    async def produce_many(
        self,
        topic: str,
        payloads: Iterable[bytes | Record],
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timeout_ms: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> Sequence[Receipt]:
        """Stores many records, in few batches, and returns one receipt for each.

        What is said by keyword holds for all; a whole `Record` in their place says everything itself. Raises the
        error of the first batch that fails; others may be stored, and a note of the error says how many are.
        """
        producer = self._own_producer(topic)
        return await producer.send_all(payloads, key, partition, self._limit_ms(timeout_ms), fields)

    def producer(
        self,
        topic: str,
        *,
        linger_ms: int = 5,
        batch_bytes: int = 256 * KIB,
        batch_records: int = 10_000,
        buffer_bytes_max: int = 32 * MIB,
        in_flight_max: int = 8,
        compression: str = "none",
        timeout_ms: int | None = None,
    ) -> AsyncProducer:
        """A producer that sends in the background: `send` does not wait for the answer.

        A batch leaves when it has `batch_bytes` or `batch_records`, or when its first record has waited `linger_ms`.
        Up to `in_flight_max` batches are under way to each partition, of very small ones more unless it is 1, and
        `buffer_bytes_max` in all. Records that have no answer within `timeout_ms` fail. `compression` is none, lz4 or
        zstd.
        """
        options = ProducerOptions(
            linger_ms,
            batch_bytes,
            batch_records,
            buffer_bytes_max,
            in_flight_max,
            self._limit_ms(timeout_ms),
            compression,
        )
        return self._new_producer(topic, options)

    # Transactions.

    def transaction(self, transaction_id: str | None = None, *, timeout_ms: int | None = None) -> AsyncTransaction:
        """A transaction: records of several topics that are seen together, or not at all.

        With an id of your own, any number of processes may stage under the same id; one of them commits. Records have
        no idempotency keys, and everything must be decided within a quarter of an hour.
        """
        return AsyncTransaction(self._opened, transaction_id, self._limit_ms(timeout_ms))

    async def commit_transaction(
        self,
        transaction_id: str,
        *,
        partitions: Sequence[tuple[str, int]] = (),
        application_id: str = "",
        version: int = 0,
        members: Mapping[str, Sequence[tuple[str, int]]] | None = None,
        timeout_ms: int | None = None,
    ) -> Committed:
        """Commits what was staged under this id in these partitions, by whoever, and returns when it is seen there.

        An application numbers its commits: a version that it has committed before, or one older than that, is not
        committed again, and what was staged for it is dropped. Raises TransactionEndedError when it was aborted.

        With `members`, transactions that were staged under other ids are committed by this one decision: all of them,
        each in the partitions named for it, or none. Then nothing is staged under this id, and no partition named.
        """
        limit_ms = self._limit_ms(timeout_ms)
        if members is not None:
            if partitions:
                raise InvalidArgumentError("with members, partitions are named for each of them")
            work = commit_together(self._opened(), transaction_id, application_id, version, members, limit_ms)
        else:
            work = commit_transaction(self._opened(), transaction_id, application_id, version, partitions, limit_ms)
        return await work

    async def abort_transaction(
        self,
        transaction_id: str,
        *,
        partitions: Sequence[tuple[str, int]] = (),
        timeout_ms: int | None = None,
    ) -> None:
        """Drops what was staged under this id, by whoever. Raises TransactionEndedError when it was committed.

        Partitions that are not named drop their part as well, a little later.
        """
        await abort_transaction(self._opened(), transaction_id, partitions, self._limit_ms(timeout_ms))

    # Consuming.

    @takes(queue_parameters)
    def queue(self, subscription: Subscription[QueueOptions]) -> AsyncQueueConsumer:
        return self._keep(AsyncQueueConsumer(self._opened(), subscription, self._forget))

    @takes(stream_parameters)
    def stream(self, subscription: Subscription[StreamOptions]) -> AsyncStreamConsumer:
        return self._keep(AsyncStreamConsumer(self._opened(), subscription, self._forget))

    @takes(reader_parameters)
    def reader(self, plan: Subscription[ReaderPlan]) -> AsyncReader:
        return self._keep(AsyncReader(self._opened(), plan, self._forget))

    async def list_offsets(
        self,
        topic: str,
        partition: int,
        offset: Start | None = None,
        *,
        timestamp_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> Offset:
        """The offset of the oldest record (earliest), of the next to be written (latest), or of the first record at
        or after a time; -1: no record is that young."""
        if (offset is None) == (timestamp_ms is None):
            raise InvalidArgumentError("say either earliest or latest, or a time")
        limit_ms = self._limit_ms(timeout_ms)
        return await list_offset(self._opened(), topic, partition, offset, timestamp_ms or 0, limit_ms)

    async def commit_offset(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: Offset,
        *,
        reset: bool = False,
        timeout_ms: int | None = None,
    ) -> Offset:
        """Sets where a group goes on reading, and says where it stands now. It moves back only with `reset`."""
        request = CommitOffset(group, topic, partition, offset, reset)
        return await commit_offset(self._opened(), request, self._limit_ms(timeout_ms))

    async def committed_offset(
        self, group: str, topic: str, partition: int, *, timeout_ms: int | None = None
    ) -> Offset | None:
        """Where a group goes on reading; None when it never committed."""
        return await read_offset(self._opened(), group, topic, partition, self._limit_ms(timeout_ms))

    # Queue groups.

    async def groups(self, topic: str, *, timeout_ms: int | None = None) -> dict[str, str]:
        """The groups of a topic by name, and what they are: queue, stream, or offset if they only commit offsets."""
        return await self._groups(topic, timeout_ms).names()

    async def describe_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> GroupInfo:
        """What a group has before it and behind it, and who its members are. Raises NotFoundError."""
        return await self._groups(topic, timeout_ms).describe(group)

    async def reset_group(
        self,
        topic: str,
        group: str,
        start: StartAt = "earliest",
        *,
        timestamp_ms: int | None = None,
        partitions: Sequence[int] | None = None,
        dry_run: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[int, GroupReset]:
        """Moves a group, forwards or backwards: for each partition from where to where. Leases of it are over then.

        With `dry_run` nothing changes. Raises GroupInUseError for a stream group that has members.
        """
        return await self._groups(topic, timeout_ms).reset(group, start, timestamp_ms, partitions, dry_run=dry_run)

    async def pause_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Has the group get nothing until it is resumed. What is leased stays so. Returns the group's settings."""
        return await self._groups(topic, timeout_ms).alter(group, {"paused": "1"})

    async def resume_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Ends a pause. Returns the group's settings."""
        return await self._groups(topic, timeout_ms).alter(group, {"paused": "0"})

    async def alter_group(
        self, topic: str, group: str, *, timeout_ms: int | None = None, **settings: int | str
    ) -> dict[str, str]:
        """Sets something for one group of a topic; an empty text takes it back. Returns all that is set for it."""
        return await self._groups(topic, timeout_ms).alter(group, read_settings(settings))

    async def delete_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> None:
        """Forgets a group with everything it has settled. Raises NotFoundError, or GroupInUseError: see reset_group."""
        await self._groups(topic, timeout_ms).delete(group)

    async def cancel(
        self,
        topic: str,
        partition: int | None = None,
        *,
        offset: Offset | None = None,
        idempotency_key: str | bytes | None = None,
        timeout_ms: int | None = None,
    ) -> list[tuple[int, Offset]]:
        """Has no group get a message any more. Returns (partition, offset) of what is cancelled now.

        An idempotency key is looked for in all partitions unless one is named. What a group has finished stays so.
        """
        return await self._groups(topic, timeout_ms).cancel(partition, offset, idempotency_key)

    async def peek(
        self,
        topic: str,
        partition: int = 0,
        *,
        offset: Offset | None = None,
        max_messages: int = 10,
        timeout_ms: int | None = None,
    ) -> list[Message]:
        """Looks at messages from an offset, or the oldest, on. Nothing changes by it for anybody."""
        return await self._groups(topic, timeout_ms).peek(partition, offset, max_messages)

    async def explain(
        self,
        topic: str,
        partition: int,
        offset: Offset,
        group: str,
        *,
        history: bool = True,
        timeout_ms: int | None = None,
    ) -> Explanation:
        """Where a message is for a group, why, and what comes next; with `history`, every step the log still knows."""
        return await self._groups(topic, timeout_ms).explain(group, partition, offset, has_history=history)

    def dead_letters(self, topic: str, group: str, *, timeout_ms: int | None = None) -> AsyncDeadLetters:
        """The messages of a topic that a group gave up: to be looked at, sent again, or thrown away."""
        return AsyncDeadLetters(self, topic, group, self._limit_ms(timeout_ms))

    # The cluster.

    async def metadata(self, topics: Sequence[str] = (), *, timeout_ms: int | None = None) -> Metadata:
        """Brokers, and the topics that are named (all, if none is) with who leads what."""
        return await self._call(GetMetadata(list(topics)), timeout_ms)

    async def cluster_status(self, *, timeout_ms: int | None = None) -> Metadata:
        """Everything that the cluster tells of itself."""
        return await self.metadata(timeout_ms=timeout_ms)

    async def init_cluster(self, nodes: Mapping[NodeId, str], *, timeout_ms: int | None = None) -> ClusterReply:
        """Forms a cluster out of waiting nodes: id to peer address. Doing it again with the same nodes is fine."""
        return await self._call(InitCluster(dict(nodes)), timeout_ms)

    async def join_cluster(
        self,
        node: NodeId,
        *,
        peer: str,
        client: str,
        http: str = "",
        incarnation: int = 0,
        timeout_ms: int | None = None,
    ) -> ClusterReply:
        """Makes a node a broker of this cluster; it says where it can be reached, and on which data it runs."""
        return await self._call(JoinCluster(node, peer, client, http, incarnation), timeout_ms)

    async def enter_cluster(self, servers: Sequence[str], *, timeout_ms: int | None = None) -> ClusterReply:
        """Has a node that waits join the running cluster at these addresses. Ask that node, and no other."""
        return await self._call(EnterCluster(list(servers)), timeout_ms)

    async def remove_node(self, node: NodeId, *, timeout_ms: int | None = None) -> ClusterReply:
        """Takes a node out of the cluster for good: at once if it holds nothing, else when that has moved elsewhere.

        Raises ConfigurationChangeError when the other brokers cannot take what it holds.
        """
        return await self._call(RemoveNode(node), timeout_ms)

    async def drain_node(self, node: NodeId, *, is_draining: bool = True, timeout_ms: int | None = None) -> None:
        """Has a broker give away what it holds and get nothing new; or ends that."""
        await self._call(DrainNode(node, is_draining), timeout_ms)

    async def rebalance(
        self, topics: Sequence[str] = (), *, dry_run: bool = False, timeout_ms: int | None = None
    ) -> list[PlannedMove]:
        """Spreads replicas and leaders evenly, by the fewest moves, which go on in the background: those planned.

        With `dry_run` nothing moves.
        """
        return (await self._call(Rebalance(list(topics), dry_run), timeout_ms)).moves

    async def cancel_moves(self, topics: Sequence[str] = (), *, timeout_ms: int | None = None) -> list[PlannedMove]:
        """Has partitions that are on the move stay where they live. Returns the moves that are given up."""
        return (await self._call(CancelMoves(list(topics)), timeout_ms)).moves

    async def describe_replicas(
        self, topic: str, partition: int, *, timeout_ms: int | None = None
    ) -> ReplicasDescribed:
        """Who belongs to a partition and how far each replica has come, as its leader sees it."""
        return await self._call(DescribeReplicas(topic, partition), timeout_ms)

    async def transfer_leadership(
        self, topic: str, partition: int, to: NodeId = NO_NODE, *, timeout_ms: int | None = None
    ) -> None:
        """Has another replica lead a partition: the one named, or any."""
        await self._call(TransferLeadership(topic, partition, to), timeout_ms)

    # Its own life.

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Sends what producers still hold, up to the time limit, and ends every connection."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._close_all(timeout_ms)
        finally:
            if self._network is not None:
                await self._network.close()

    async def __aenter__(self) -> Self:
        self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, "a client") as limit_ms:
            await self.close(timeout_ms=limit_ms)

    def __del__(self) -> None:
        # No loop is left to send it now.
        unsent = [batch for producer in self._producers for batch in producer.unresolved()]
        if unsent and not self._is_closed:
            warn_unclosed("a client", unsent)

    async def _close_all(self, timeout_ms: int | None) -> None:
        limit = TimeLimit(timeout_ms)
        closing = [
            consumer.close() if isinstance(consumer, AsyncReader) else consumer.close(timeout_ms=timeout_ms)
            for consumer in list(self._consumers)
        ]
        # Producers last: a handler that is being drained may still send something.
        outcomes = await asyncio.gather(*closing, return_exceptions=True)
        sending = [producer.close(timeout_ms=limit.left_ms) for producer in list(self._producers)]
        for outcome in (*outcomes, *await asyncio.gather(*sending, return_exceptions=True)):
            if isinstance(outcome, BaseException):
                raise outcome

    # Inside.

    def _groups(self, topic: str, timeout_ms: int | None) -> Groups:
        return Groups(self._opened(), topic, self._limit_ms(timeout_ms))

    def _opened(self) -> Network:
        if self._is_closed:
            raise ConnectionClosedError("the client is closed")
        if self._network is None:
            self._network = Network(new_session(self._addresses, self._name))
        return self._network

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return read_timeout(timeout_ms, self._timeout_ms)

    async def _call(self, request: Request[R], timeout_ms: int | None, *, route: Route | None = None) -> R:
        return await self._opened().call(request, self._limit_ms(timeout_ms), route=route)

    async def _change_topic(self, request: Request[TopicReply], timeout_ms: int | None) -> TopicInfo:
        reply = await self._call(request, timeout_ms)
        routes = self._opened().session.routes
        if isinstance(request, DeleteTopic):
            routes.forget(reply.topic.name)
        else:
            routes.learn(reply.topic)
        return reply.topic

    def _own_producer(self, topic: str) -> AsyncProducer:
        producer = self._own_producers.get(topic)
        if producer is None:
            options = ProducerOptions(timeout_ms=self._timeout_ms)
            producer = self._own_producers[topic] = self._new_producer(topic, options)
        return producer

    def _new_producer(self, topic: str, options: ProducerOptions) -> AsyncProducer:
        producer = AsyncProducer(self._opened(), topic, options, self._forget_producer)
        self._producers[producer] = None
        return producer

    def _forget_producer(self, producer: AsyncProducer) -> None:
        self._producers.pop(producer, None)

    def _keep(self, consumer: Consumer) -> Consumer:
        self._consumers[consumer] = None
        return consumer

    def _forget(self, consumer: AsyncReader | AsyncQueueConsumer | AsyncStreamConsumer) -> None:
        self._consumers.pop(consumer, None)
