"""The client for threads. `AsyncClient` has the same names and signatures.

An AsyncClient does the work, on a thread with an event loop that is started when it is first needed. Only producing and
polling, which must be quick, have paths of their own.
"""

import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from flotilla.client._blocking import blocking, documented_by
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.call_channel import CallChannel
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.loop_thread import LoopThread
from flotilla.client._duration import Duration
from flotilla.client._options import TIMEOUT_MS_DEFAULT, Subscription, full_name, read_timeout, takes
from flotilla.client.async_client import AsyncClient
from flotilla.client.credentials import Credentials, CredentialsProvider
from flotilla.client.producer._at_exit import warn_unclosed
from flotilla.client.producer._direct_connection import DirectConnections
from flotilla.client.producer.options import ProducerOptions, producer_parameters
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.producer.sync import Producer
from flotilla.client.queue.options import QueueOptions, queue_parameters
from flotilla.client.queue.sync import QueueConsumer
from flotilla.client.reader.options import ReaderPlan, reader_parameters
from flotilla.client.reader.sync import Reader
from flotilla.client.stream.options import StreamOptions, stream_parameters
from flotilla.client.stream.sync import StreamConsumer
from flotilla.client.transaction.sync import Transaction
from flotilla.security.client_tls import Tls
from flotilla.types.errors import ConnectionClosedError, FlotillaError, TopicReplacedError
from flotilla.types.records import Record

if TYPE_CHECKING:
    # Loaded by the first use: most programs administer nothing.
    from flotilla.client.admin.cluster import Admin
    from flotilla.client.admin.dead_letters import DeadLetters
    from flotilla.client.admin.schedules import Schedules

Result = TypeVar("Result")
Consumer = TypeVar("Consumer", Reader, QueueConsumer, StreamConsumer)


class Client:
    """A client of a Flotilla cluster, for any number of threads of one process.

    `addresses` names one or more brokers as `host:port`, separated by commas or as a list; the client finds the others.
    It connects when it is first needed. Every call ends within `timeout_ms`, its own or the client's, and has one of
    three outcomes: it returns, and is done; it raises OutcomeUnknownError, and may be done or not; it raises another
    error, and is certainly not done. A call that is interrupted may be done.

    Close it, or use it as a context manager. At the exit of the process, records in flight of an unclosed client are
    sent for up to 5 s; consumers are not closed. After a fork the child must open its own client; an inherited one
    raises ConnectionClosedError.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = "localhost:7600",
        *,
        timeout_ms: Duration = TIMEOUT_MS_DEFAULT,
        name: str = "",
        tls: Tls | None = None,
        user: str = "",
        password_file: str = "",
        token_file: str = "",
        credentials: CredentialsProvider | Credentials | None = None,
    ) -> None:
        """`name` is shown to operators of the brokers. With `tls` connections are encrypted.

        Where brokers ask who their clients are: `user` with the `password_file` that has its password in the first
        line, a `token_file`, or `credentials`, which is a Password, a Token, or a function that returns one for each
        connection. Files are read again for each connection; a certificate of `tls` may name the user, too.

        Raises InvalidArgumentError, also for files of `tls` that cannot be used.
        """
        #: The thread and what lives on it, when it was first needed; the lock guards its beginning and its end.
        self._open: tuple[LoopThread, Network] | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        #: Held while it is closed. Its holder may call `close` again, in a signal handler for example.
        self._closing = threading.RLock()
        self._finalizer: Callable[[], object] | None = None
        self._inner = AsyncClient(
            addresses,
            timeout_ms=timeout_ms,
            name=name,
            tls=tls,
            user=user,
            password_file=password_file,
            token_file=token_file,
            credentials=credentials,
        )
        self._inner._is_watched = False
        self._timeout_ms = read_timeout(timeout_ms, TIMEOUT_MS_DEFAULT)
        self._direct = DirectConnections(full_name(name), self._inner._tls, self._inner._credentials)
        #: For `produce`, by topic.
        self._own_producers: dict[str, Producer] = {}
        #: Closed with the client.
        self._producers: dict[Producer, None] = {}
        self._consumers: dict[Reader | QueueConsumer | StreamConsumer, None] = {}

    # Topics.

    create_topic = blocking(AsyncClient.create_topic)
    alter_topic = blocking(AsyncClient.alter_topic)
    delete_topic = blocking(AsyncClient.delete_topic)
    purge = blocking(AsyncClient.purge)
    trim = blocking(AsyncClient.trim)
    topics = blocking(AsyncClient.topics)
    describe_topic = blocking(AsyncClient.describe_topic)

    # Producing.

    @documented_by(AsyncClient.produce)
    def produce(
        self,
        topic: str,
        payload: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timeout_ms: Duration | None = None,
        **fields: Unpack[RecordFields],
    ) -> Receipt:
        producer, limit_ms = self._own_producer(topic), self._limit_ms(timeout_ms)
        limit = TimeLimit(limit_ms)
        record = producer.make_record(payload, key, fields, limit_ms)
        try:
            receipt = producer.lone.store(record, partition, limit.left_ms or 1)
            return receipt or producer.send_record(record, partition, limit.left_ms or 1).result()
        except TopicReplacedError:
            # Certainly not stored, and the producer knows the new topic by now.
            return producer.send_record(record, partition, limit.left_ms or 1).result()

    @documented_by(AsyncClient.produce_many)
    def produce_many(
        self,
        topic: str,
        payloads: Iterable[bytes | Record],
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timeout_ms: Duration | None = None,
        **fields: Unpack[RecordFields],
    ) -> Sequence[Receipt]:
        producer = self._own_producer(topic)
        return producer.send_all(payloads, key, partition, self._limit_ms(timeout_ms), fields)

    request = blocking(AsyncClient.request)
    result = blocking(AsyncClient.result)

    @takes(producer_parameters)
    def producer(self, chosen: tuple[str, ProducerOptions]) -> Producer:
        return self._new_producer(*chosen)

    # Transactions.

    @documented_by(AsyncClient.transaction)
    def transaction(
        self,
        transaction_id: str | None = None,
        *,
        timeout_ms: Duration | None = None,
        transaction_timeout_ms: Duration | None = None,
    ) -> Transaction:
        inner = self._inner.transaction(
            transaction_id, timeout_ms=timeout_ms, transaction_timeout_ms=transaction_timeout_ms
        )
        return Transaction(inner, self._run)

    commit_transaction = blocking(AsyncClient.commit_transaction)
    abort_transaction = blocking(AsyncClient.abort_transaction)

    # Consuming.

    @takes(queue_parameters)
    def queue(self, subscription: Subscription[QueueOptions]) -> QueueConsumer:
        return self._keep(QueueConsumer(*self._opened(), subscription, self._forget, self._inner._follow))

    @takes(stream_parameters)
    def stream(self, subscription: Subscription[StreamOptions]) -> StreamConsumer:
        return self._keep(StreamConsumer(*self._opened(), subscription, self._forget))

    @takes(reader_parameters)
    def reader(self, plan: Subscription[ReaderPlan]) -> Reader:
        return self._keep(Reader(*self._opened(), plan, self._forget))

    find_offset = blocking(AsyncClient.find_offset)
    commit_offset = blocking(AsyncClient.commit_offset)
    committed_offset = blocking(AsyncClient.committed_offset)

    # Groups and single messages.

    groups = blocking(AsyncClient.groups)
    describe_group = blocking(AsyncClient.describe_group)
    reset_group = blocking(AsyncClient.reset_group)
    pause_group = blocking(AsyncClient.pause_group)
    resume_group = blocking(AsyncClient.resume_group)
    alter_group = blocking(AsyncClient.alter_group)
    delete_group = blocking(AsyncClient.delete_group)
    cancel = blocking(AsyncClient.cancel)
    peek = blocking(AsyncClient.peek)
    explain = blocking(AsyncClient.explain)
    release = blocking(AsyncClient.release)
    reject = blocking(AsyncClient.reject)
    due_times = blocking(AsyncClient.due_times)
    delayed = blocking(AsyncClient.delayed)
    deliver_now = blocking(AsyncClient.deliver_now)
    blocked_keys = blocking(AsyncClient.blocked_keys)

    @documented_by(AsyncClient.dead_letters)
    def dead_letters(self, topic: str, group: str, *, timeout_ms: Duration | None = None) -> "DeadLetters":
        from flotilla.client.admin.dead_letters import DeadLetters

        return DeadLetters(self._inner.dead_letters(topic, group, timeout_ms=timeout_ms), self._run)

    @property
    def schedules(self) -> "Schedules":
        """Recurring messages: cron expressions and intervals."""
        from flotilla.client.admin.schedules import Schedules

        return Schedules(self._inner.schedules, self._run)

    @property
    def admin(self) -> "Admin":
        """Administration of the cluster: nodes, replicas, leaders."""
        from flotilla.client.admin.cluster import Admin

        return Admin(self._inner.admin, self._run)

    # Its own life.

    def close(self, *, timeout_ms: Duration | None = None) -> None:
        """Sends what was produced and settled, up to the time limit, and closes every connection.

        A call beside another one returns when that is done, or at its own limit.
        """
        thread = None if self._open is None else self._open[0]
        if thread is not None and thread.is_foreign:
            # A thread of the parent may hold the locks for good.
            self._is_closed = True
            return
        limit = TimeLimit(timeout_ms)
        seconds = 0 if thread is not None and thread.is_current else limit.left_seconds
        if self._closing.acquire(timeout=-1 if seconds is None else seconds):
            try:
                self._close_once(limit.left_ms)
            finally:
                self._closing.release()

    def _close_once(self, timeout_ms: int | None) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._open is None:
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

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else ""
        return f"<Client {','.join(map(str, self._inner._addresses))}{state}>"

    def __del__(self) -> None:
        if not self._is_closed and self._open is not None and not self._open[0].is_foreign:
            # Nothing is unsent: producers with records in flight keep the client alive.
            warn_unclosed(f"the Client of {','.join(map(str, self._inner._addresses))}")

    def _close_all(self, timeout_ms: Duration | None) -> None:
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

    def _channel(self) -> CallChannel:
        """For `client.bulk`."""
        return CallChannel(*self._opened())

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            thread, _ = self._opened()
        except BaseException:
            work.close()
            raise
        return thread.run(work)

    def _limit_ms(self, timeout_ms: Duration | None) -> int:
        return read_timeout(timeout_ms, self._timeout_ms)

    def _own_producer(self, topic: str) -> Producer:
        if self._is_closed:
            raise ConnectionClosedError("the client is closed")
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
