"""A queue consumer for coroutines: messages under leases, each to be settled."""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import Subscription
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.queue._loop import QueueLoop
from flotilla.client.queue.following import Follow, Next
from flotilla.client.queue.message import Leased, masks_of
from flotilla.client.queue.options import QueueOptions
from flotilla.client.queue.outcome import ACKED, Outcome, acked, failed, is_decision, outcome_of, rejected, released


class AsyncQueueMessage(Leased["AsyncQueueConsumer"]):
    """A message under a lease. `with` acknowledges it at the end of the block, or fails it by an exception.

    The first outcome counts: settling a message again changes nothing, and raises nothing.
    """

    __slots__ = ()

    async def ack(self, *, result: bytes | None = None, wait: bool = True) -> None:
        """Acknowledges the message: the group never gets it again. The first outcome of a message counts.

        Returns when that is on disk at a majority; with `wait=False` at once, and the consumer's next call raises the
        error. Raises LeaseExpiredError when the lease has expired and another consumer has the message.

        result: up to 64 KiB for the caller that waits for it (`Client.request`, `Client.result`), stored with the ack.
        """
        await self._owner.settle((self,), acked(result), wait=wait)

    async def nack(self, *, reason: str = "", delay_ms: Duration | None = None, wait: bool = True) -> None:
        """Fails the message: counts as an attempt, and delivers it again after `delay_ms`, or the group's backoff."""
        await self._owner.settle((self,), failed(reason, delay_ms), wait=wait)

    async def release(self, *, delay_ms: Duration = 0, wait: bool = True) -> None:
        """Gives the message back, to be delivered again after `delay_ms`. Does not count as an attempt."""
        await self._owner.settle((self,), released(delay_ms), wait=wait)

    async def reject(self, *, reason: str = "", wait: bool = True) -> None:
        """Makes the message a dead letter at once, because it can never succeed."""
        await self._owner.settle((self,), rejected(reason), wait=wait)

    async def then(
        self,
        topic: str,
        payload: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> Receipt:
        """Acknowledges the message and produces the next one, in one transaction: both, or neither.

        Returns when both are on disk at a majority and visible. Raises LeaseExpiredError when another consumer has the
        message, or it has ended; then nothing is produced. The record has no idempotency key: it is produced once.
        """
        return await self._owner.then(self, Next(topic, payload, key, partition, fields))

    async def extend(self, visibility_ms: Duration) -> None:
        """Sets the lease to end `visibility_ms` from now. Raises LeaseExpiredError."""
        await self._owner.extend(self, visibility_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self.is_settled:
            await self._owner.settle((self,), outcome_of(error), wait=False)
        return error is not None and is_decision(error)


class AsyncQueueConsumer:
    """Made by `AsyncClient.queue`: iterate it, or poll it. It never ends by itself."""

    def __init__(
        self,
        network: Network,
        subscription: Subscription[QueueOptions],
        closed: Callable[["AsyncQueueConsumer"], None],
        follow: Follow,
    ) -> None:
        topic, group, options = subscription
        self.topic = topic
        self._closed = closed
        self._follow = follow
        self._timeout_ms = options.timeout_ms
        self._feed = QueueLoop(network, topic, group, options, AsyncQueueMessage, self)
        self.group = self._feed.group
        self._ready = self._feed.reader.ready
        self._errors = self._feed.reader.errors

    @property
    def member(self) -> str:
        """The name of this consumer in the group."""
        return self._feed.member

    @property
    def behind(self) -> int | None:
        """How many messages the group has not settled, those that it holds included, in the partitions polled here.

        As the brokers' answers to this consumer's polls said last; it costs no request. None: there was no answer yet.
        """
        return self._feed.reader.behind

    async def poll(self, max_messages: int = 16, *, wait_ms: Duration = 20_000) -> list[AsyncQueueMessage]:
        """Leases up to `max_messages` messages; waits up to `wait_ms` for the first one. Returns [] if none comes."""
        feed = self._feed
        if not self._ready:
            feed.check_open()
        feed.raise_error()
        if not self._ready:
            await feed.fetch(max_messages, milliseconds(wait_ms))
        messages = feed.reader.take(max_messages)
        if not messages:
            feed.check_open()
            feed.raise_error()
        return messages

    async def ack(self, messages: Iterable[AsyncQueueMessage], *, wait: bool = True) -> None:
        """Acknowledges messages, and returns when that is on disk at a majority. Raises LeaseExpiredError.

        With `wait=False` it returns at once, and the consumer's next call raises the error.
        """
        await self.settle(messages, ACKED, wait=wait)

    async def nack(
        self, messages: Iterable[AsyncQueueMessage], *, reason: str = "", delay_ms: Duration | None = None
    ) -> None:
        """Fails messages: see `nack` of a message."""
        await self.settle(messages, failed(reason, delay_ms))

    async def release(self, messages: Iterable[AsyncQueueMessage], *, delay_ms: Duration = 0) -> None:
        """Gives messages back: see `release` of a message."""
        await self.settle(messages, released(delay_ms))

    async def flush(self) -> None:
        """Waits until everything settled with `wait=False` has its answer. Raises the first error."""
        await self._feed.flush()

    async def close(self, *, drain_ms: Duration = 0, timeout_ms: Duration | None = None) -> None:
        """Leases nothing more, waits up to `drain_ms` for unsettled messages, and gives the rest back.

        With `ack_mode="auto"` nothing can be given back: an iteration gets what the brokers have sent before it ends.
        Raises the first error of messages settled with `wait=False`, and OutcomeUnknownError when answers are missing
        after `timeout_ms`.
        """
        if not self._feed.has_left():
            try:
                await self._feed.close(milliseconds(drain_ms), TimeLimit(timeout_ms).left_ms)
            finally:
                # Not if it was cancelled: closing the client sends what is left.
                if self._feed.has_left():
                    self._closed(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncQueueMessage:
        feed = self._feed
        if self._errors:
            feed.raise_error()
        while not self._ready:
            feed.check_more()
            await feed.flow()
            feed.raise_error()
        message = self._ready.popleft()
        if not self._ready:
            feed.schedule()
        return message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, f"a consumer of {self.topic}") as limit_ms:
            await self.close(timeout_ms=limit_ms)

    # What messages use.

    async def settle(self, messages: Iterable[Leased[Any]], outcome: Outcome, *, wait: bool = True) -> None:
        masks = masks_of(messages)
        if wait:
            error = await self._feed.settle(masks, outcome)
            if error is not None:
                raise error
            return
        self._feed.settle_soon(masks, outcome)
        if self._feed.is_crowded:
            await self._feed.make_room()

    async def then(self, message: Leased[Any], following: Next) -> Receipt:
        """Acknowledges one message and produces the next one in one transaction, as `then` of the message does."""
        return await self._follow(message, following, self._timeout_ms)

    async def extend(self, message: Leased[Any], visibility_ms: Duration) -> None:
        """Sets the lease of one message to end `visibility_ms` from now. Raises LeaseExpiredError."""
        await self._feed.extend(message._lease, message._lease.bit(message.offset), milliseconds(visibility_ms))
