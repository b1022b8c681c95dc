"""The client for threads. `aio.AsyncClient` has the same names and signatures.

An AsyncClient does the work, on a thread with an event loop that is started when it is first needed. Only
what has to be quick has a path of its own: producing and polling.
"""

import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.loop_thread import LoopThread
from flotilla.client._core.positions import Start
from flotilla.client._options import (
    TIMEOUT_MS_DEFAULT,
    Subscription,
    full_name,
    read_timeout,
    takes,
)
from flotilla.client.admin.dead_letters import DeadLetters
from flotilla.client.admin.group_info import GroupInfo
from flotilla.client.async_client import AsyncClient
from flotilla.client.producer._at_exit import warn_unclosed
from flotilla.client.producer._direct_connection import DirectConnections
from flotilla.client.producer.options import ProducerOptions
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.producer.sync import Producer
from flotilla.client.queue.options import QueueOptions, StartAt, queue_parameters
from flotilla.client.queue.sync import QueueConsumer
from flotilla.client.reader.message import Message
from flotilla.client.reader.options import ReaderPlan, reader_parameters
from flotilla.client.reader.sync import Reader
from flotilla.client.stream.options import StreamOptions, stream_parameters
from flotilla.client.stream.sync import StreamConsumer
from flotilla.client.transaction._core import Committed
from flotilla.client.transaction.sync import Transaction
from flotilla.types.errors import ConnectionClosedError, FlotillaError
from flotilla.types.ids import NO_NODE, NodeId, Offset
from flotilla.types.limits import KIB, MIB
from flotilla.types.operations import ClusterReply, Metadata, TopicInfo
from flotilla.types.operations.cluster import PlannedMove, ReplicasDescribed
from flotilla.types.operations.queue import Explanation, GroupReset
from flotilla.types.records import Record

Result = TypeVar("Result")
Consumer = TypeVar("Consumer", Reader, QueueConsumer, StreamConsumer)


class Client:
    """A client of a Flotilla cluster, for any number of threads of one process.

    `addresses` names one or more brokers as `host:port`, by commas or as a list; the others are found by asking.
    Nothing is connected before it is needed. Every call ends by its time limit, `timeout_ms` unless the call says
    otherwise, and has one of three outcomes: it returns, so it is done; it raises OutcomeUnknownError, so it may
    be done or not; it raises anything else, so it is certainly not done. A call that is interrupted may be done.

    Close it, or use it as a context manager. What a process has sent and not waited for is sent at its end all the
    same, for a few seconds; consumers are not closed then. After a fork the child must open a client of its own; one
    that came along refuses to work.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = "localhost:7600",
        *,
        timeout_ms: int = TIMEOUT_MS_DEFAULT,
        name: str = "",
    ) -> None:
        """`name` tells people at the broker who is connected."""
        #: The thread and what lives on it, when it was first needed; the lock guards its beginning and its end.
        self._open: tuple[LoopThread, Network] | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self._finalizer: Callable[[], object] | None = None
        self._inner = AsyncClient(addresses, timeout_ms=timeout_ms, name=name)
        self._timeout_ms = timeout_ms
        self._direct = DirectConnections(full_name(name))
        #: For `produce`, by topic.
        self._own_producers: dict[str, Producer] = {}
        #: Whatever has to be closed with the client.
        self._producers: dict[Producer, None] = {}
        self._consumers: dict[Reader | QueueConsumer | StreamConsumer, None] = {}

    # Topics.

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 0,
        replication_factor: int = 0,
        timeout_ms: int | None = None,
        **settings: int | str,
    ) -> TopicInfo:
        """Makes a topic. 0: as the cluster is set up. Raises AlreadyExistsError."""
        return self._run(
            self._inner.create_topic(
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                timeout_ms=timeout_ms,
                **settings,
            )
        )

    def alter_topic(
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
        return self._run(
            self._inner.alter_topic(
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                timeout_ms=timeout_ms,
                **settings,
            )
        )

    def delete_topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicInfo:
        """Removes a topic with all its messages; what it was is returned. Raises NotFoundError."""
        return self._run(self._inner.delete_topic(topic, timeout_ms=timeout_ms))

    def topics(self, *, timeout_ms: int | None = None) -> list[TopicInfo]:
        """All topics."""
        return self._run(self._inner.topics(timeout_ms=timeout_ms))

    def describe_topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicInfo:
        """One topic. Raises NotFoundError."""
        return self._run(self._inner.describe_topic(topic, timeout_ms=timeout_ms))

    # Producing.

    def produce(
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
        record = producer.make_record(payload, key, fields, limit_ms)
        receipt = producer.lone.store(record, partition, limit_ms)
        return receipt or producer.send_record(record, partition, limit_ms).result()

    def produce_many(
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
        return producer.send_all(payloads, key, partition, self._limit_ms(timeout_ms), fields)

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
    ) -> Producer:
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

    def transaction(self, transaction_id: str | None = None, *, timeout_ms: int | None = None) -> Transaction:
        """A transaction: records of several topics that are seen together, or not at all.

        With an id of your own, any number of processes may stage under the same id; one of them commits. Records have
        no idempotency keys, and everything must be decided within a quarter of an hour.
        """
        return Transaction(self._inner.transaction(transaction_id, timeout_ms=timeout_ms), self._run)

    def commit_transaction(
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
        return self._run(
            self._inner.commit_transaction(
                transaction_id,
                partitions=partitions,
                application_id=application_id,
                version=version,
                members=members,
                timeout_ms=timeout_ms,
            )
        )

    def abort_transaction(
        self,
        transaction_id: str,
        *,
        partitions: Sequence[tuple[str, int]] = (),
        timeout_ms: int | None = None,
    ) -> None:
        """Drops what was staged under this id, by whoever. Raises TransactionEndedError when it was committed.

        Partitions that are not named drop their part as well, a little later.
        """
        self._run(self._inner.abort_transaction(transaction_id, partitions=partitions, timeout_ms=timeout_ms))

    # Consuming.

    @takes(queue_parameters)
    def queue(self, subscription: Subscription[QueueOptions]) -> QueueConsumer:
        return self._keep(QueueConsumer(*self._opened(), subscription, self._forget))

    @takes(stream_parameters)
    def stream(self, subscription: Subscription[StreamOptions]) -> StreamConsumer:
        return self._keep(StreamConsumer(*self._opened(), subscription, self._forget))

    @takes(reader_parameters)
    def reader(self, plan: Subscription[ReaderPlan]) -> Reader:
        return self._keep(Reader(*self._opened(), plan, self._forget))

    def list_offsets(
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
        return self._run(
            self._inner.list_offsets(topic, partition, offset, timestamp_ms=timestamp_ms, timeout_ms=timeout_ms)
        )

    def commit_offset(
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
        return self._run(self._inner.commit_offset(group, topic, partition, offset, reset=reset, timeout_ms=timeout_ms))

    def committed_offset(
        self, group: str, topic: str, partition: int, *, timeout_ms: int | None = None
    ) -> Offset | None:
        """Where a group goes on reading; None when it never committed."""
        return self._run(self._inner.committed_offset(group, topic, partition, timeout_ms=timeout_ms))

    # Queue groups.

    def groups(self, topic: str, *, timeout_ms: int | None = None) -> dict[str, str]:
        """The groups of a topic by name, and what they are: queue, stream, or offset if they only commit offsets."""
        return self._run(self._inner.groups(topic, timeout_ms=timeout_ms))

    def describe_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> GroupInfo:
        """What a group has before it and behind it, and who its members are. Raises NotFoundError."""
        return self._run(self._inner.describe_group(topic, group, timeout_ms=timeout_ms))

    def reset_group(
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
        work = self._inner.reset_group(
            topic,
            group,
            start,
            timestamp_ms=timestamp_ms,
            partitions=partitions,
            dry_run=dry_run,
            timeout_ms=timeout_ms,
        )
        return self._run(work)

    def pause_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Has the group get nothing until it is resumed. What is leased stays so. Returns the group's settings."""
        return self._run(self._inner.pause_group(topic, group, timeout_ms=timeout_ms))

    def resume_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Ends a pause. Returns the group's settings."""
        return self._run(self._inner.resume_group(topic, group, timeout_ms=timeout_ms))

    def alter_group(
        self, topic: str, group: str, *, timeout_ms: int | None = None, **settings: int | str
    ) -> dict[str, str]:
        """Sets something for one group of a topic; an empty text takes it back. Returns all that is set for it."""
        return self._run(self._inner.alter_group(topic, group, timeout_ms=timeout_ms, **settings))

    def delete_group(self, topic: str, group: str, *, timeout_ms: int | None = None) -> None:
        """Forgets a group with everything it has settled. Raises NotFoundError, or GroupInUseError: see reset_group."""
        self._run(self._inner.delete_group(topic, group, timeout_ms=timeout_ms))

    def cancel(
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
        work = self._inner.cancel(
            topic, partition, offset=offset, idempotency_key=idempotency_key, timeout_ms=timeout_ms
        )
        return self._run(work)

    def peek(
        self,
        topic: str,
        partition: int = 0,
        *,
        offset: Offset | None = None,
        max_messages: int = 10,
        timeout_ms: int | None = None,
    ) -> list[Message]:
        """Looks at messages from an offset, or the oldest, on. Nothing changes by it for anybody."""
        work = self._inner.peek(topic, partition, offset=offset, max_messages=max_messages, timeout_ms=timeout_ms)
        return self._run(work)

    def explain(
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
        work = self._inner.explain(topic, partition, offset, group, history=history, timeout_ms=timeout_ms)
        return self._run(work)

    def dead_letters(self, topic: str, group: str, *, timeout_ms: int | None = None) -> DeadLetters:
        """The messages of a topic that a group gave up: to be looked at, sent again, or thrown away."""
        return DeadLetters(self._inner.dead_letters(topic, group, timeout_ms=timeout_ms), self._run)

    # The cluster.

    def metadata(self, topics: Sequence[str] = (), *, timeout_ms: int | None = None) -> Metadata:
        """Brokers, and the topics that are named (all, if none is) with who leads what."""
        return self._run(self._inner.metadata(topics, timeout_ms=timeout_ms))

    def cluster_status(self, *, timeout_ms: int | None = None) -> Metadata:
        """Everything that the cluster tells of itself."""
        return self._run(self._inner.cluster_status(timeout_ms=timeout_ms))

    def init_cluster(self, nodes: Mapping[NodeId, str], *, timeout_ms: int | None = None) -> ClusterReply:
        """Forms a cluster out of waiting nodes: id to peer address. Doing it again with the same nodes is fine."""
        return self._run(self._inner.init_cluster(nodes, timeout_ms=timeout_ms))

    def join_cluster(
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
        return self._run(
            self._inner.join_cluster(
                node, peer=peer, client=client, http=http, incarnation=incarnation, timeout_ms=timeout_ms
            )
        )

    def enter_cluster(self, servers: Sequence[str], *, timeout_ms: int | None = None) -> ClusterReply:
        """Has a node that waits join the running cluster at these addresses. Ask that node, and no other."""
        return self._run(self._inner.enter_cluster(servers, timeout_ms=timeout_ms))

    def remove_node(self, node: NodeId, *, timeout_ms: int | None = None) -> ClusterReply:
        """Takes a node out of the cluster for good: at once if it holds nothing, else when that has moved elsewhere.

        Raises ConfigurationChangeError when the other brokers cannot take what it holds.
        """
        return self._run(self._inner.remove_node(node, timeout_ms=timeout_ms))

    def drain_node(self, node: NodeId, *, is_draining: bool = True, timeout_ms: int | None = None) -> None:
        """Has a broker give away what it holds and get nothing new; or ends that."""
        self._run(self._inner.drain_node(node, is_draining=is_draining, timeout_ms=timeout_ms))

    def rebalance(
        self, topics: Sequence[str] = (), *, dry_run: bool = False, timeout_ms: int | None = None
    ) -> list[PlannedMove]:
        """Spreads replicas and leaders evenly, by the fewest moves, which go on in the background: those planned.

        With `dry_run` nothing moves.
        """
        return self._run(self._inner.rebalance(topics, dry_run=dry_run, timeout_ms=timeout_ms))

    def cancel_moves(self, topics: Sequence[str] = (), *, timeout_ms: int | None = None) -> list[PlannedMove]:
        """Has partitions that are on the move stay where they live. Returns the moves that are given up."""
        return self._run(self._inner.cancel_moves(topics, timeout_ms=timeout_ms))

    def describe_replicas(self, topic: str, partition: int, *, timeout_ms: int | None = None) -> ReplicasDescribed:
        """Who belongs to a partition and how far each replica has come, as its leader sees it."""
        return self._run(self._inner.describe_replicas(topic, partition, timeout_ms=timeout_ms))

    def transfer_leadership(
        self, topic: str, partition: int, to: NodeId = NO_NODE, *, timeout_ms: int | None = None
    ) -> None:
        """Has another replica lead a partition: the one named, or any."""
        self._run(self._inner.transfer_leadership(topic, partition, to, timeout_ms=timeout_ms))

    # Its own life.

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Sends what producers still hold, up to the time limit, and ends every connection."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._open is None or self._open[0].is_foreign:
            return
        self._direct.close()
        try:
            self._close_all(timeout_ms)
        finally:
            for producer in list(self._producers):
                self._open[0].post(producer.abandon)
            assert self._finalizer is not None
            self._finalizer()

    def __enter__(self) -> Self:
        self._opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, "a client") as limit_ms:
            self.close(timeout_ms=limit_ms)

    def __del__(self) -> None:
        if not self._is_closed and self._open is not None and not self._open[0].is_foreign:
            # Nothing is unsent: the loop keeps whoever waits for an answer.
            warn_unclosed("a client")

    def _close_all(self, timeout_ms: int | None) -> None:
        limit = TimeLimit(timeout_ms)
        first: FlotillaError | None = None
        # Producers last: a handler that is being drained may still send something.
        for each in [*self._consumers, *self._producers]:
            try:
                each.close() if isinstance(each, Reader) else each.close(timeout_ms=limit.left_ms)
            except FlotillaError as error:
                first = first or error
        if first is not None:
            raise first

    # Inside.

    def _opened(self) -> tuple[LoopThread, Network]:
        with self._lock:
            if self._is_closed:
                raise ConnectionClosedError("the client is closed")
            if self._open is None:
                thread = LoopThread()
                network = thread.run(_network(self._inner))
                self._open = (thread, network)
                # Must not know the client, which could never be collected then. Runs at exit too.
                self._finalizer = weakref.finalize(self, thread.stop, network.close)
            return self._open

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            thread, _ = self._opened()
        except BaseException:
            work.close()
            raise
        return thread.run(work)

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return read_timeout(timeout_ms, self._timeout_ms)

    def _own_producer(self, topic: str) -> Producer:
        producer = self._own_producers.get(topic)
        if producer is None:
            options = ProducerOptions(timeout_ms=self._timeout_ms)
            fresh = self._new_producer(topic, options)
            producer = self._own_producers.setdefault(topic, fresh)
            if producer is not fresh:
                # Another thread was quicker.
                self._forget_producer(fresh)
        return producer

    def _new_producer(self, topic: str, options: ProducerOptions) -> Producer:
        thread, network = self._opened()
        producer = Producer(thread, network, topic, options, self._forget_producer, self._direct)
        self._producers[producer] = None
        return producer

    def _forget_producer(self, producer: Producer) -> None:
        self._producers.pop(producer, None)

    def _keep(self, consumer: Consumer) -> Consumer:
        self._consumers[consumer] = None
        return consumer

    def _forget(self, consumer: Reader | QueueConsumer | StreamConsumer) -> None:
        self._consumers.pop(consumer, None)


async def _network(client: AsyncClient) -> Network:
    """Made on the loop that it is to live on."""
    return client._opened()
