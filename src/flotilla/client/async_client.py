"""The client for coroutines. `client.Client` has the same names and signatures."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from flotilla.client._core.asyncio_network import Network, R
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.positions import Start, commit_offset, list_offset, read_offset
from flotilla.client._core.session import no_topic
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import (
    TIMEOUT_MS_DEFAULT,
    GroupOptions,
    Subscription,
    TopicOptions,
    new_session,
    read_settings,
    read_timeout,
    takes,
)
from flotilla.client.admin.group_info import GroupInfo
from flotilla.client.admin.groups import Groups
from flotilla.client.admin.trimming import Ask, purge, trim
from flotilla.client.credentials import Credentials, CredentialsProvider, read_credentials
from flotilla.client.producer._at_exit import warn_unclosed
from flotilla.client.producer.aio import AsyncProducer
from flotilla.client.producer.options import ProducerOptions, producer_parameters
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.queue.aio import AsyncQueueConsumer
from flotilla.client.queue.following import Next
from flotilla.client.queue.message import Leased
from flotilla.client.queue.options import QueueOptions, StartAt, queue_parameters
from flotilla.client.queue.results import Place, ResultWaits
from flotilla.client.reader.aio import AsyncReader
from flotilla.client.reader.message import Message
from flotilla.client.reader.options import ReaderPlan, reader_parameters
from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.client.stream.options import StreamOptions, stream_parameters
from flotilla.client.transaction._core import Committed
from flotilla.client.transaction.aio import AsyncTransaction, abort_transaction, commit_together, commit_transaction
from flotilla.security.client_tls import Tls, fresh_context
from flotilla.security.tls_endpoints import TlsDialler
from flotilla.types.address import read_addresses
from flotilla.types.errors import (
    AlreadyExistsError,
    ConnectionClosedError,
    DeadlineError,
    InvalidArgumentError,
    OutcomeUnknownError,
    TopicReplacedError,
    UnavailableError,
)
from flotilla.types.ids import Offset
from flotilla.types.operations import (
    AlterTopic,
    CommitOffset,
    CreateTopic,
    DeleteTopic,
    Metadata,
    Request,
    Route,
    TopicInfo,
    TopicReply,
)
from flotilla.types.operations.queue import REJECT, RELEASE, Explanation, GroupReset
from flotilla.types.operations.waiting import BlockedKeys, DelayedPage, DueTimes
from flotilla.types.records import Record
from flotilla.types.tasks import WORKER_GROUP
from flotilla.types.topics import check_group_name

if TYPE_CHECKING:
    # Loaded by the first use: most programs administer nothing.
    from flotilla.client.admin.cluster import AsyncAdmin
    from flotilla.client.admin.dead_letters import AsyncDeadLetters
    from flotilla.client.admin.schedules import AsyncSchedules

#: The pause after metadata that no quorum confirmed.
CONFIRM_AGAIN_MS: Final = 50

Consumer = TypeVar("Consumer", AsyncReader, AsyncQueueConsumer, AsyncStreamConsumer)


class AsyncClient:
    """A client of a Flotilla cluster, for coroutines of one event loop.

    `addresses` names one or more brokers as `host:port`, separated by commas or as a list; the client finds the others.
    It connects when it is first needed. Every call ends within `timeout_ms`, its own or the client's, and has one of
    three outcomes: it returns, and is done; it raises OutcomeUnknownError, and may be done or not; it raises another
    error, and is certainly not done. A call that is cancelled may be done.
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
        connection. Files are read again for each connection; a certificate of `tls` may name the user, too. Raises
        InvalidArgumentError, also for files of `tls` that cannot be used.
        """
        self._network: Network | None = None
        self._is_closed = False
        #: The first call of `close` is done.
        self._ended = asyncio.Event()
        #: False: a Client around this one closes it, and warns.
        self._is_watched = True
        #: Closed with the client.
        self._producers: dict[AsyncProducer, None] = {}
        self._addresses = read_addresses(addresses)
        self._tls = None if tls is None else fresh_context(tls)
        self._dialler = None if self._tls is None else TlsDialler(self._tls.get)
        self._timeout_ms = read_timeout(timeout_ms, TIMEOUT_MS_DEFAULT)
        self._name = name
        self._credentials = read_credentials(user, password_file, token_file, credentials)
        #: For `produce`, by topic.
        self._own_producers: dict[str, AsyncProducer] = {}
        self._consumers: dict[AsyncReader | AsyncQueueConsumer | AsyncStreamConsumer, None] = {}
        self._result_waits: ResultWaits | None = None

    # Topics.

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 0,
        replication_factor: int = 0,
        timeout_ms: Duration | None = None,
        if_not_exists: bool = False,
        **settings: Unpack[TopicOptions],
    ) -> TopicInfo:
        """Creates a topic; 0 partitions or replicas: the default of the cluster. Raises AlreadyExistsError.

        With `if_not_exists` a topic that exists is returned as it is, whatever its settings.
        """
        request = CreateTopic(topic, partitions, replication_factor, read_settings(settings))
        try:
            return await self._change_topic(request, timeout_ms)
        except AlreadyExistsError:
            if not if_not_exists:
                raise
        return await self.describe_topic(topic, timeout_ms=timeout_ms)

    async def alter_topic(
        self,
        topic: str,
        *,
        partitions: int = 0,
        replication_factor: int = 0,
        timeout_ms: Duration | None = None,
        **settings: Unpack[TopicOptions],
    ) -> TopicInfo:
        """Changes settings of a topic, or adds partitions (0: no change). Raises NotFoundError.

        A change of the replication factor moves replicas in the background; `target` of a partition shows where to.
        """
        request = AlterTopic(topic, partitions, read_settings(settings), replication_factor)
        return await self._change_topic(request, timeout_ms)

    async def delete_topic(self, topic: str, *, timeout_ms: Duration | None = None) -> TopicInfo:
        """Deletes a topic with all its messages, and returns it as it was. Raises NotFoundError."""
        return await self._change_topic(DeleteTopic(topic), timeout_ms)

    async def purge(self, topic: str, *, timeout_ms: Duration | None = None) -> dict[int, Offset]:
        """Removes every message that the topic holds now, and returns by partition where its log begins then.

        Topic, groups and settings stay. Nothing is spared: not what a group owes, holds or has leased, not delayed
        messages. Messages that are produced meanwhile stay. Raises NotFoundError.
        """
        limit = TimeLimit(self._limit_ms(timeout_ms))
        return await purge(self._asking(limit), await self.describe_topic(topic, timeout_ms=limit.left_ms))

    async def trim(
        self, topic: str, offsets: Mapping[int, Offset], *, timeout_ms: Duration | None = None
    ) -> dict[int, Offset]:
        """Removes the messages below an offset of each given partition; as `purge`.

        Raises NotFoundError for a partition that does not exist and OffsetOutOfRangeError for an offset past its end;
        then nothing is removed. A log that begins after its offset stays as it is.
        """
        limit = TimeLimit(self._limit_ms(timeout_ms))
        return await trim(self._asking(limit), await self.describe_topic(topic, timeout_ms=limit.left_ms), offsets)

    def _asking(self, limit: TimeLimit) -> Ask:
        """For an operation of several requests that share one time limit."""
        network = self._opened()

        def ask(request: Request[R]) -> Awaitable[R]:
            return network.call(request, limit.left_ms or 1)

        return ask

    async def topics(self, *, timeout_ms: Duration | None = None) -> list[TopicInfo]:
        """All topics. Raises UnavailableError if no quorum of the metadata confirms in time that none is missing.

        `admin.metadata` returns what a node knows in any case.
        """
        return (await self._confirmed_metadata([], timeout_ms)).topics

    async def describe_topic(self, topic: str, *, timeout_ms: Duration | None = None) -> TopicInfo:
        """One topic. Raises NotFoundError, and UnavailableError without a quorum of the metadata, as `topics`."""
        found = await self._confirmed_metadata([topic], timeout_ms)
        if not found.topics:
            raise no_topic(topic)
        return found.topics[0]

    async def _confirmed_metadata(self, topics: list[str], timeout_ms: Duration | None) -> Metadata:
        limit = TimeLimit(self._limit_ms(timeout_ms))
        refused = UnavailableError("no quorum of the metadata confirms what brokers know of topics")
        was_answered = False
        while limit.left_ms:
            try:
                found = await self.admin.metadata(topics, timeout_ms=limit.left_ms)
            except DeadlineError as error:
                if was_answered:
                    raise refused from error
                raise
            if not found.is_stale:
                return found
            was_answered = True
            # A broker waits for a quorum before it answers, unless it is not part of a cluster yet.
            await asyncio.sleep(CONFIRM_AGAIN_MS / 1000)
        raise refused

    # Producing.

    async def produce(
        self,
        topic: str,
        payload: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timeout_ms: Duration | None = None,
        **fields: Unpack[RecordFields],
    ) -> Receipt:
        """Stores one record, and returns its receipt when a majority of replicas has it on disk.

        Retries of the client store it once. A record with a key goes to the partition of that key, unless `partition`
        is given.
        """
        producer, limit_ms = self._own_producer(topic), self._limit_ms(timeout_ms)
        limit = TimeLimit(limit_ms)
        record = await producer.make_record(payload, key, fields, limit_ms)
        try:
            return await (await producer.send_record(record, partition, limit.left_ms or 1))
        except TopicReplacedError:
            # Certainly not stored, and the producer knows the new topic by now.
            return await (await producer.send_record(record, partition, limit.left_ms or 1))

    async def produce_many(
        self,
        topic: str,
        payloads: Iterable[bytes | Record],
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timeout_ms: Duration | None = None,
        **fields: Unpack[RecordFields],
    ) -> Sequence[Receipt]:
        """Stores many records in few batches, and returns one receipt for each.

        Keyword arguments hold for every payload; a `Record` among the payloads has its own fields. Raises the error of
        the first batch that fails; other batches may be stored, and a note of the error says how many records are.
        """
        producer = self._own_producer(topic)
        return await producer.send_all(payloads, key, partition, self._limit_ms(timeout_ms), fields)

    async def request(
        self,
        topic: str,
        payload: bytes,
        *,
        group: str = WORKER_GROUP,
        key: bytes | None = None,
        partition: int | None = None,
        timeout_ms: Duration | None = None,
        **fields: Unpack[RecordFields],
    ) -> bytes:
        """Stores one record, waits until a consumer of the group has acknowledged it, and returns the ack's result.

        It is empty if the ack carried none, and is kept for the group's `result_ttl_ms`. Raises MessageFailedError when
        the message failed for the last time, expired or was cancelled, and OutcomeUnknownError when it is stored and
        has not ended in time: `produce` and `result` let you wait again.
        """
        limit = TimeLimit(self._limit_ms(timeout_ms))
        receipt = await self.produce(topic, payload, key=key, partition=partition, timeout_ms=timeout_ms, **fields)
        try:
            return await self.result(receipt, group=group, timeout_ms=limit.left_ms or 1)
        except DeadlineError as error:
            raise OutcomeUnknownError(f"it is stored, and may or may not be done; {error}") from error

    async def result(self, receipt: Receipt, *, group: str = WORKER_GROUP, timeout_ms: Duration | None = None) -> bytes:
        """Waits until the message of a receipt has ended in the group, and returns the result of its ack.

        It is empty if the ack carried none. Raises MessageFailedError as `request` does, ForgottenError when the result
        is not kept any more, and DeadlineError when the message has not ended in time.
        """
        check_group_name(group)
        if not receipt.topic:
            raise InvalidArgumentError("the receipt names no topic")
        network = self._opened()
        if self._result_waits is None:
            self._result_waits = ResultWaits(network)
        place = Place(receipt.topic, receipt.partition, group, receipt.topic_id)
        return await self._result_waits.wait(place, receipt.offset, self._limit_ms(timeout_ms))

    @takes(producer_parameters)
    def producer(self, chosen: tuple[str, ProducerOptions]) -> AsyncProducer:
        return self._new_producer(*chosen)

    # Transactions.

    def transaction(
        self,
        transaction_id: str | None = None,
        *,
        timeout_ms: Duration | None = None,
        transaction_timeout_ms: Duration | None = None,
    ) -> AsyncTransaction:
        """A transaction: records of several topics that become visible together, or not at all.

        Any number of processes may stage records under one `transaction_id`; one of them commits. Records have no
        idempotency keys. A transaction that is not decided within `transaction_timeout_ms` of its first stage is
        aborted (up to 15 minutes; by default as its topics say, 1 minute). One without a `transaction_id` is aborted
        as soon as this process loses its connection.
        """
        limit_ms = 0 if transaction_timeout_ms is None else milliseconds(transaction_timeout_ms)
        return AsyncTransaction(self._opened, transaction_id, self._limit_ms(timeout_ms), limit_ms)

    async def commit_transaction(
        self,
        transaction_id: str,
        *,
        partitions: Sequence[tuple[str, int]] = (),
        application_id: str = "",
        version: int = 0,
        members: Mapping[str, Sequence[tuple[str, int]]] | None = None,
        timeout_ms: Duration | None = None,
    ) -> Committed:
        """Commits the records staged under this id in these partitions, and returns when they are visible there.

        An application numbers its commits: a `version` at or below one that `application_id` has committed is not
        committed again, and its staged records are dropped. Raises TransactionEndedError when it was aborted.

        With `members`, one decision commits the transactions staged under those ids, each in its partitions, all or
        none. Then nothing is staged under this id, and `partitions` is empty.
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
        timeout_ms: Duration | None = None,
    ) -> None:
        """Drops the records staged under this id. Raises TransactionEndedError when it was committed.

        Partitions that are not named drop their part as well, a little later.
        """
        await abort_transaction(self._opened(), transaction_id, partitions, self._limit_ms(timeout_ms))

    # Consuming.

    @takes(queue_parameters)
    def queue(self, subscription: Subscription[QueueOptions]) -> AsyncQueueConsumer:
        return self._keep(AsyncQueueConsumer(self._opened(), subscription, self._forget, self._follow))

    @takes(stream_parameters)
    def stream(self, subscription: Subscription[StreamOptions]) -> AsyncStreamConsumer:
        return self._keep(AsyncStreamConsumer(self._opened(), subscription, self._forget))

    @takes(reader_parameters)
    def reader(self, plan: Subscription[ReaderPlan]) -> AsyncReader:
        return self._keep(AsyncReader(self._opened(), plan, self._forget))

    async def find_offset(
        self,
        topic: str,
        partition: int,
        offset: Start | None = None,
        *,
        timestamp_ms: int | None = None,
        timeout_ms: Duration | None = None,
    ) -> Offset:
        """The offset of the oldest record (earliest), of the next to be written (latest), or of the first record at
        or after a time; -1: no record is that young."""
        if (offset is None) == (timestamp_ms is None):
            raise InvalidArgumentError("say either earliest or latest, or a time")
        limit_ms = self._limit_ms(timeout_ms)
        return await list_offset(self._opened(), topic, partition, offset, timestamp_ms or 0, limit_ms)

    async def commit_offset(
        self,
        topic: str,
        group: str,
        partition: int,
        offset: Offset,
        *,
        reset: bool = False,
        timeout_ms: Duration | None = None,
    ) -> Offset:
        """Commits an offset for a group, and returns its committed offset. It moves back only with `reset`."""
        request = CommitOffset(group, topic, partition, offset, reset)
        return await commit_offset(self._opened(), request, self._limit_ms(timeout_ms))

    async def committed_offset(
        self, topic: str, group: str, partition: int, *, timeout_ms: Duration | None = None
    ) -> Offset | None:
        """The committed offset of a group; None: it never committed."""
        return await read_offset(self._opened(), group, topic, partition, self._limit_ms(timeout_ms))

    # Queue groups.

    async def groups(self, topic: str, *, timeout_ms: Duration | None = None) -> dict[str, str]:
        """The groups of a topic by name, with their kind: queue, stream, or offset if it only commits offsets."""
        return await self._groups(topic, timeout_ms).names()

    async def describe_group(self, topic: str, group: str, *, timeout_ms: Duration | None = None) -> GroupInfo:
        """Lag, leases, totals and members of a group. Raises NotFoundError."""
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
        timeout_ms: Duration | None = None,
    ) -> dict[int, GroupReset]:
        """Moves a group forwards or backwards, and returns the old and new position by partition. Its leases end.

        With `dry_run` nothing changes. Raises GroupInUseError for a stream group that has members.
        """
        return await self._groups(topic, timeout_ms).reset(group, start, timestamp_ms, partitions, dry_run=dry_run)

    async def pause_group(self, topic: str, group: str, *, timeout_ms: Duration | None = None) -> dict[str, str]:
        """Delivers nothing to the group until it is resumed; leases stay. Returns the group's settings."""
        return await self._groups(topic, timeout_ms).alter(group, {"paused": "1"})

    async def resume_group(self, topic: str, group: str, *, timeout_ms: Duration | None = None) -> dict[str, str]:
        """Ends a pause. Returns the group's settings."""
        return await self._groups(topic, timeout_ms).alter(group, {"paused": "0"})

    async def alter_group(
        self, topic: str, group: str, *, timeout_ms: Duration | None = None, **settings: Unpack[GroupOptions]
    ) -> dict[str, str]:
        """Changes settings of one group; "" returns to the topic's value. Returns all settings of the group."""
        return await self._groups(topic, timeout_ms).alter(group, read_settings(settings))

    async def delete_group(
        self, topic: str, group: str, *, force: bool = False, timeout_ms: Duration | None = None
    ) -> None:
        """Deletes a group with its progress and settings. Raises NotFoundError.

        Raises GroupInUseError, which says how many, while it has live members; a consumer that was closed is none. With
        `force` the group is deleted all the same: members that go on found it anew, at its start and without settings.
        """
        await self._groups(topic, timeout_ms).delete(group, is_forced=force)

    async def cancel(
        self,
        topic: str,
        partition: int | None = None,
        *,
        offset: Offset | None = None,
        idempotency_key: str | bytes | None = None,
        timeout_ms: Duration | None = None,
    ) -> list[tuple[int, Offset]]:
        """Cancels a message: no group gets it any more. Returns (partition, offset) of the cancelled messages.

        An idempotency key is looked up in all partitions, unless one is named. Groups that settled it are unaffected.
        """
        return await self._groups(topic, timeout_ms).cancel(partition, offset, idempotency_key)

    async def peek(
        self,
        topic: str,
        partition: int = 0,
        *,
        offset: Offset | None = None,
        max_messages: int = 10,
        timeout_ms: Duration | None = None,
    ) -> list[Message]:
        """Messages from an offset on, or from the oldest on. Changes nothing for any group."""
        return await self._groups(topic, timeout_ms).peek(partition, offset, max_messages)

    async def explain(
        self,
        topic: str,
        group: str,
        partition: int,
        offset: Offset,
        *,
        history: bool = True,
        timeout_ms: Duration | None = None,
    ) -> Explanation:
        """The state of a message in a group, its cause, and what comes next; `history` adds every step in the log."""
        return await self._groups(topic, timeout_ms).explain(group, partition, offset, has_history=history)

    async def release(
        self, topic: str, group: str, partition: int, offset: Offset, *, timeout_ms: Duration | None = None
    ) -> str:
        """Takes a leased message from its member, for an operator: it is ready again, and no attempt is counted.

        Returns the member, which is not notified. Raises LeaseExpiredError if the message is not leased.
        """
        return await self._groups(topic, timeout_ms).settle_held(group, partition, offset, RELEASE)

    async def reject(
        self,
        topic: str,
        group: str,
        partition: int,
        offset: Offset,
        *,
        reason: str = "",
        timeout_ms: Duration | None = None,
    ) -> str:
        """The same, but the message goes to the dead letters at once."""
        return await self._groups(topic, timeout_ms).settle_held(group, partition, offset, REJECT, reason)

    async def due_times(self, topic: str, group: str = "", *, timeout_ms: Duration | None = None) -> DueTimes:
        """When delayed messages of a topic come due; those that a queue group waits for, with its retries."""
        return await self._groups(topic, timeout_ms).due_times(group)

    async def delayed(
        self, topic: str, group: str = "", *, limit: int = 100, after: str = "", timeout_ms: Duration | None = None
    ) -> DelayedPage:
        """What comes due next, as `due_times`: 1,000 messages at most. `after` is `next` of the page before."""
        return await self._groups(topic, timeout_ms).delayed(group, limit, after)

    async def deliver_now(
        self, topic: str, partition: int, offset: Offset, *, group: str = "", timeout_ms: Duration | None = None
    ) -> None:
        """Makes a delayed message due, in every group; in the named queue group also one that waits for a retry."""
        await self._groups(topic, timeout_ms).deliver_now(group, partition, offset)

    async def blocked_keys(
        self, topic: str, group: str, *, limit: int = 100, timeout_ms: Duration | None = None
    ) -> dict[int, BlockedKeys]:
        """By partition: keys whose next messages wait for one that is leased or retried, `limit` of each at most."""
        return await self._groups(topic, timeout_ms).blocked_keys(group, limit)

    def dead_letters(self, topic: str, group: str, *, timeout_ms: Duration | None = None) -> "AsyncDeadLetters":
        """The dead letters of a group of a topic: to be listed, sent again, or deleted."""
        from flotilla.client.admin.dead_letters import AsyncDeadLetters

        return AsyncDeadLetters(self, topic, group, self._limit_ms(timeout_ms))

    @property
    def schedules(self) -> "AsyncSchedules":
        """Recurring messages: cron expressions and intervals."""
        from flotilla.client.admin.schedules import AsyncSchedules

        return AsyncSchedules(self._opened, self._timeout_ms)

    @property
    def admin(self) -> "AsyncAdmin":
        """Administration of the cluster: nodes, replicas, leaders."""
        from flotilla.client.admin.cluster import AsyncAdmin

        return AsyncAdmin(self._call)

    # Its own life.

    async def close(self, *, timeout_ms: Duration | None = None) -> None:
        """Sends what was produced and settled, up to the time limit, and closes every connection.

        A call beside another one returns when that is done, or at its own limit.
        """
        if self._is_closed:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), TimeLimit(timeout_ms).left_seconds)
            return
        self._is_closed = True
        try:
            await self._close_all(timeout_ms)
        finally:
            if self._network is not None:
                await self._network.close()
            self._ended.set()

    async def __aenter__(self) -> Self:
        self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, "a client") as limit_ms:
            await self.close(timeout_ms=limit_ms)

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else ""
        return f"<AsyncClient {','.join(map(str, self._addresses))}{state}>"

    def __del__(self) -> None:
        if self._network is not None and self._is_watched and not self._is_closed:
            # No loop is left to send the records, or to end the connections.
            unsent = [batch for producer in self._producers for batch in producer.unresolved()]
            warn_unclosed(f"the AsyncClient of {','.join(map(str, self._addresses))}", unsent)

    async def _close_all(self, timeout_ms: Duration | None) -> None:
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

    def _groups(self, topic: str, timeout_ms: Duration | None) -> Groups:
        return Groups(self._opened(), topic, self._limit_ms(timeout_ms))

    def _opened(self) -> Network:
        if self._is_closed:
            raise ConnectionClosedError("the client is closed")
        if self._network is None:
            session = new_session(self._addresses, self._name, credentials=self._credentials)
            self._network = Network(session, tls=self._dialler)
        return self._network

    def _limit_ms(self, timeout_ms: Duration | None) -> int:
        return read_timeout(timeout_ms, self._timeout_ms)

    async def _call(self, request: Request[R], timeout_ms: Duration | None, *, route: Route | None = None) -> R:
        return await self._opened().call(request, self._limit_ms(timeout_ms), route=route)

    async def _change_topic(self, request: Request[TopicReply], timeout_ms: Duration | None) -> TopicInfo:
        reply = await self._call(request, timeout_ms)
        routes = self._opened().session.routes
        if isinstance(request, DeleteTopic):
            routes.forget(reply.topic.name)
        else:
            routes.learn(reply.topic)
        return reply.topic

    async def _follow(self, message: Leased[Any], following: Next, timeout_ms: int) -> Receipt:
        """For `then` of a message."""
        topic, payload, key, partition, fields, result = following
        async with self.transaction(timeout_ms=timeout_ms) as transaction:
            await transaction.ack(message, result=result)
            await transaction.produce(topic, payload, key=key, partition=partition, **fields)
        return transaction.receipts[0]

    def _own_producer(self, topic: str) -> AsyncProducer:
        if self._is_closed:
            raise ConnectionClosedError("the client is closed")
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
