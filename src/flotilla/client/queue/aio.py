"""A member of a queue group for coroutines: messages under leases, each to be settled."""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import Subscription
from flotilla.client.queue._loop import QueueLoop
from flotilla.client.queue.message import Leased, masks_of
from flotilla.client.queue.options import QueueOptions
from flotilla.client.queue.outcome import ACKED, Outcome, failed, is_decision, outcome_of, rejected, released


class AsyncQueueMessage(Leased["AsyncQueueConsumer"]):
    """A message under a lease. As a context manager it is acknowledged at the end, or has failed with an exception."""

    __slots__ = ()

    async def ack(self, *, wait: bool = True) -> None:
        """It is done, and never delivered to the group again. Raises LeaseExpiredError when it is somebody else's.

        Returns when that is on disk at a majority; with `wait=False` at once, and the consumer's next call raises
        what went wrong.
        """
        await self.owner.settle((self,), ACKED, wait=wait)

    async def nack(self, *, reason: str = "", delay_ms: int | None = None, wait: bool = True) -> None:
        """It failed: counted as an attempt, and delivered again after `delay_ms`, or the group's backoff."""
        await self.owner.settle((self,), failed(reason, delay_ms), wait=wait)

    async def release(self, *, delay_ms: int = 0, wait: bool = True) -> None:
        """Gives it back uncounted, for somebody else."""
        await self.owner.settle((self,), released(delay_ms), wait=wait)

    async def reject(self, *, reason: str = "", wait: bool = True) -> None:
        """It is no good: to the dead letters at once."""
        await self.owner.settle((self,), rejected(reason), wait=wait)

    async def extend(self, visibility_ms: int) -> None:
        """Has the lease last so long from now on. Raises LeaseExpiredError."""
        await self.owner.extend(self, visibility_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self.is_settled:
            await self.owner.settle((self,), outcome_of(error), wait=False)
        return error is not None and is_decision(error)


class AsyncQueueConsumer:
    """Made by `AsyncClient.queue`: iterate it, or poll it. It has no end but `close`."""

    def __init__(
        self,
        network: Network,
        subscription: Subscription[QueueOptions],
        closed: Callable[["AsyncQueueConsumer"], None],
    ) -> None:
        topic, group, options = subscription
        self.topic = topic
        self.group = group
        self._closed = closed
        self._feed = QueueLoop(network, topic, group, options, AsyncQueueMessage, self)
        self._ready = self._feed.reader.ready
        self._errors = self._feed.reader.errors

    @property
    def member(self) -> str:
        """The name under which its leases stand."""
        return self._feed.member

    async def poll(self, max_messages: int = 16, *, wait_ms: int = 20_000) -> list[AsyncQueueMessage]:
        """Leases messages, up to so many; waits for the first one, and returns none if none comes in time."""
        feed = self._feed
        feed.check_open()
        feed.raise_error()
        if not self._ready:
            await feed.fetch(max_messages, wait_ms)
        messages = feed.reader.take(max_messages)
        if not messages:
            feed.check_open()
            feed.raise_error()
        return messages

    async def ack(self, messages: Iterable[AsyncQueueMessage], *, wait: bool = True) -> None:
        """Acknowledges many at once, and returns when that is on disk at a majority. Raises LeaseExpiredError.

        With `wait=False` it returns at once, and the consumer's next call raises what went wrong.
        """
        await self.settle(messages, ACKED, wait=wait)

    async def nack(
        self, messages: Iterable[AsyncQueueMessage], *, reason: str = "", delay_ms: int | None = None
    ) -> None:
        """Says of many that they failed."""
        await self.settle(messages, failed(reason, delay_ms))

    async def release(self, messages: Iterable[AsyncQueueMessage], *, delay_ms: int = 0) -> None:
        """Gives many back uncounted."""
        await self.settle(messages, released(delay_ms))

    async def flush(self) -> None:
        """Waits until everything that was settled without waiting is done. Raises the first error of it."""
        await self._feed.flush()

    async def close(self, *, drain_ms: Duration = 0, timeout_ms: Duration | None = None) -> None:
        """Takes nothing more, waits up to `drain_ms` for messages that are not settled, and gives the rest back.

        Raises the first error of what was settled without waiting, and OutcomeUnknownError when answers are missing
        after `timeout_ms`.
        """
        if not self._feed.reader.is_closed:
            try:
                await self._feed.close(milliseconds(drain_ms), TimeLimit(timeout_ms).left_ms)
            finally:
                self._closed(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncQueueMessage:
        feed = self._feed
        if self._errors:
            feed.raise_error()
        while not self._ready:
            feed.check_open()
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

    async def extend(self, message: Leased[Any], visibility_ms: int) -> None:
        """Has the lease of one message last so long from now on. Raises LeaseExpiredError."""
        await self._feed.extend(message.lease, message.lease.bit(message.offset), visibility_ms)
