"""A queue consumer for threads: messages under leases, each to be settled.

Messages are taken in the caller's thread. Everything else happens in the client's thread, so leases are renewed while a
handler blocks. Any number of threads may iterate one consumer; each message goes to one of them.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from flotilla.client._blocking import documented_by
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.loop_thread import Gate, LoopThread
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import Subscription
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.queue._core import PendingSettlement, QueueCore
from flotilla.client.queue._loop import QueueLoop, consumer_closed
from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.client.queue.following import Follow, Next
from flotilla.client.queue.message import Leased, masks_of
from flotilla.client.queue.options import QueueOptions
from flotilla.client.queue.outcome import ACKED, Outcome, acked, failed, is_decision, outcome_of, rejected, released
from flotilla.types.errors import FlotillaError


class Settler(Protocol):
    """Settles messages for threads: a consumer, or a worker."""

    def settle(self, messages: Iterable["QueueMessage"], outcome: Outcome, *, wait: bool = True) -> None: ...

    def then(self, message: "QueueMessage", following: Next) -> Receipt: ...

    def extend(self, message: "QueueMessage", visibility_ms: Duration) -> None: ...


class QueueMessage(Leased[Settler]):
    """A message under a lease. `with` acknowledges it at the end of the block, or fails it by an exception.

    The first outcome counts: settling a message again changes nothing, and raises nothing.
    """

    __slots__ = ()

    @documented_by(AsyncQueueMessage.ack)
    def ack(self, *, result: bytes | None = None, wait: bool = True) -> None:
        self._owner.settle((self,), acked(result), wait=wait)

    @documented_by(AsyncQueueMessage.nack)
    def nack(self, *, reason: str = "", delay_ms: Duration | None = None, wait: bool = True) -> None:
        self._owner.settle((self,), failed(reason, delay_ms), wait=wait)

    @documented_by(AsyncQueueMessage.release)
    def release(self, *, delay_ms: Duration = 0, wait: bool = True) -> None:
        self._owner.settle((self,), released(delay_ms), wait=wait)

    @documented_by(AsyncQueueMessage.reject)
    def reject(self, *, reason: str = "", wait: bool = True) -> None:
        self._owner.settle((self,), rejected(reason), wait=wait)

    @documented_by(AsyncQueueMessage.then)
    def then(
        self,
        topic: str,
        payload: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> Receipt:
        return self._owner.then(self, Next(topic, payload, key, partition, fields))

    @documented_by(AsyncQueueMessage.extend)
    def extend(self, visibility_ms: Duration) -> None:
        self._owner.extend(self, visibility_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self.is_settled:
            self._owner.settle((self,), outcome_of(error), wait=False)
        return error is not None and is_decision(error)


class QueueConsumer:
    """Made by `Client.queue`: iterate it, or poll it. It never ends by itself."""

    def __init__(
        self,
        thread: LoopThread,
        network: Network,
        subscription: Subscription[QueueOptions],
        closed: Callable[["QueueConsumer"], None],
        follow: Follow,
    ) -> None:
        topic, group, options = subscription
        self.topic = topic
        self._thread = thread
        self._follow = follow
        self._timeout_ms = options.timeout_ms
        self._closed = closed
        self._feed = QueueLoop(network, topic, group, options, QueueMessage, self)
        self.group = self._feed.group
        self._ready = self._feed.reader.ready
        self._errors = self._feed.reader.errors
        #: Outcomes that the loop has not taken yet, in order, because the first outcome of a message counts.
        self._outbox: deque[tuple[tuple[QueueMessage, ...], Outcome, _AwaitedSettlement | None]] = deque()
        self._outbox_count = 0
        #: The loop will take them, under the lock; it need not be told again before it does.
        self._is_posted = False
        self._lock = threading.Lock()
        self._feed.reader.gather = self._empty_outbox

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

    @documented_by(AsyncQueueConsumer.poll)
    def poll(self, max_messages: int = 16, *, wait_ms: Duration = 20_000) -> list[QueueMessage]:
        feed = self._feed
        if not self._ready:
            self._check_open()
        feed.raise_error()
        if not self._ready:
            self._thread.run(feed.fetch(max_messages, milliseconds(wait_ms)))
        messages: list[QueueMessage] = []
        try:
            feed.reader.take_into(messages, max_messages)
            if not messages:
                self._check_open()
                feed.raise_error()
            return messages
        except BaseException:
            # Interrupted: the next poll gets them.
            self._ready.extendleft(reversed(messages))
            raise

    @documented_by(AsyncQueueConsumer.ack)
    def ack(self, messages: Iterable[QueueMessage], *, wait: bool = True) -> None:
        self.settle(messages, ACKED, wait=wait)

    @documented_by(AsyncQueueConsumer.nack)
    def nack(self, messages: Iterable[QueueMessage], *, reason: str = "", delay_ms: Duration | None = None) -> None:
        self.settle(messages, failed(reason, delay_ms))

    @documented_by(AsyncQueueConsumer.release)
    def release(self, messages: Iterable[QueueMessage], *, delay_ms: Duration = 0) -> None:
        self.settle(messages, released(delay_ms))

    @documented_by(AsyncQueueConsumer.flush)
    def flush(self) -> None:
        self._thread.run(self._flush())

    @documented_by(AsyncQueueConsumer.close)
    def close(self, *, drain_ms: Duration = 0, timeout_ms: Duration | None = None) -> None:
        if self._feed.has_left():
            return
        try:
            if self._thread.is_usable:
                self._thread.run(self._close(milliseconds(drain_ms), TimeLimit(timeout_ms).left_ms))
        finally:
            # Not if it was interrupted: closing the client sends what is left.
            if self._feed.has_left() or not self._thread.is_usable:
                self._closed(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> QueueMessage:
        feed = self._feed
        ready = self._ready
        taken: list[QueueMessage] = []
        try:
            while True:
                if self._errors:
                    feed.raise_error()
                feed.reader.take_into(taken, 1)
                if taken:
                    break
                feed.check_more()
                self._thread.check()
                self._wait_for_news()
            if feed.reader.is_sated and not ready:
                self._thread.post(feed.pump)
            return taken[0]
        except BaseException:
            # Interrupted: the next caller gets it.
            ready.extendleft(taken)
            raise

    def _wait_for_news(self) -> None:
        """Returns when a message or an error may be ready. The loop wakes this thread itself: no coroutine waits."""
        feed = self._feed
        if not feed.reader.is_flowing:
            self._thread.run(feed.flow())
            return
        gate = Gate()
        feed.wakers.append(gate.open)
        # From here on news open the gate; what came before is seen now.
        if self._ready or self._errors or feed.reader.is_closed:
            return
        if feed.reader.is_sated:
            self._thread.post(feed.pump)
        self._thread.wait(gate)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, f"a consumer of {self.topic}") as limit_ms:
            self.close(timeout_ms=limit_ms)

    # What messages use.

    def settle(self, messages: Iterable[QueueMessage], outcome: Outcome, *, wait: bool = True) -> None:
        self._thread.check()
        reader = self._feed.reader
        pending = _AwaitedSettlement(reader) if wait else None
        entry = (tuple(messages), outcome, pending)
        with self._lock:
            # Outcomes gathered until the loop takes them cost one switch of threads. While earlier ones linger it takes
            # them soon, and is told only when a caller waits, or when half of the prefetch window is free again. The
            # loop is told first, and sees what is there when the lock is free: an interrupt comes either before the
            # outcome, or after all of this.
            count = self._outbox_count + len(entry[0])
            is_urgent = pending is not None or 2 * count >= reader.prefetch
            is_first = not self._is_posted and (is_urgent or not reader.is_lingering)
            if is_first:
                self._thread.post(self._feed.pump)
            self._outbox_count = count
            self._outbox.append(entry)
            self._is_posted = self._is_posted or is_first
        if pending is not None:
            self._thread.wait(pending.gate)
            if pending.error is not None:
                raise pending.error
        elif is_first and self._feed.is_crowded:
            self._thread.run(self._feed.make_room())

    @documented_by(AsyncQueueConsumer.then)
    def then(self, message: Leased[Any], following: Next) -> Receipt:
        return self._thread.run(self._then(message, following))

    @documented_by(AsyncQueueConsumer.extend)
    def extend(self, message: Leased[Any], visibility_ms: Duration) -> None:
        self._thread.run(self._extend(message, milliseconds(visibility_ms)))

    def _check_open(self) -> None:
        self._feed.check_open()
        self._thread.check()

    # On the loop.

    def _empty_outbox(self) -> None:
        with self._lock:
            self._is_posted = False
            if not self._outbox:
                return
            outbox, self._outbox = self._outbox, deque()
            self._outbox_count = 0
        reader = self._feed.reader
        gathered: list[QueueMessage] = []
        last = ACKED
        while outbox:
            messages, outcome, pending = outbox.popleft()
            if gathered and (outcome != last or pending is not None):
                reader.settle(masks_of(gathered), last, None)
                gathered = []
            if pending is not None and reader.is_closed:
                pending.done(consumer_closed())
            elif pending is not None:
                reader.settle(masks_of(messages), outcome, pending)
            else:
                gathered += messages
                last = outcome
        reader.settle(masks_of(gathered), last, None)

    async def _then(self, message: Leased[Any], following: Next) -> Receipt:
        self._feed.pump()
        return await self._follow(message, following, self._timeout_ms)

    async def _extend(self, message: Leased[Any], visibility_ms: int) -> None:
        self._feed.pump()
        await self._feed.extend(message._lease, message._lease.bit(message.offset), visibility_ms)

    async def _flush(self) -> None:
        self._empty_outbox()
        await self._feed.flush()

    async def _close(self, drain_ms: int, timeout_ms: int | None) -> None:
        self._empty_outbox()
        await self._feed.close(drain_ms, timeout_ms)


class _AwaitedSettlement(PendingSettlement):
    """A settlement that a thread waits for."""

    __slots__ = ("error", "gate")

    def __init__(self, reader: QueueCore[Any]) -> None:
        super().__init__(reader)
        self.gate = Gate()
        self.error: FlotillaError | None = None

    def done(self, error: FlotillaError | None) -> None:
        self.error = error
        self.gate.open()
