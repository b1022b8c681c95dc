"""A producer for coroutines: sends records in batches, many at a time, and returns a delivery for each."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, Self, Unpack

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.positions import find_topic
from flotilla.client._duration import Duration, milliseconds
from flotilla.client.producer._at_exit import report_unanswered
from flotilla.client.producer._batch import Batch, Delivery
from flotilla.client.producer._core import ProducerCore
from flotilla.client.producer._receipts import Receipts, raise_first
from flotilla.client.producer._record_buffer import RecordBuffer, buffer_full, record_bytes
from flotilla.client.producer.options import ProducerOptions
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields, as_records, make_record, plain_values
from flotilla.machine import now_ms, steady_ms
from flotilla.types.errors import ConnectionClosedError, FlotillaError
from flotilla.types.records import Record


class AsyncDelivery(Delivery):
    """What will become of one record: await it for its receipt."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Receipt]:
        if not self._batch.is_done:
            yield from wait_for((self._batch,)).__await__()
        return self._receipt()

    async def result(self, *, timeout_ms: Duration | None = None) -> Receipt:
        """The receipt, when the record is stored. Raises why it failed, or TimeoutError if that is not known yet."""
        async with asyncio.timeout(None if timeout_ms is None else milliseconds(timeout_ms) / 1000):
            return await self


async def wait_for(batches: Sequence[Batch]) -> None:
    """Waits until all of these have come to their end."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    remaining = len(batches)

    def done() -> None:
        nonlocal remaining
        remaining -= 1
        if not remaining and not future.done():
            future.set_result(None)

    for batch in batches:
        batch.when_done(done)
    if batches:
        await future


class AsyncProducer:
    """Made by `AsyncClient.producer`. Use it as a context manager, or close it."""

    def __init__(
        self, network: Network, topic: str, options: ProducerOptions, closed: Callable[["AsyncProducer"], None]
    ) -> None:
        self.topic = topic
        self._network = network
        self._options = options
        self._closed = closed
        self._buffer = RecordBuffer(options, network.session.chance, topic)
        self._core = ProducerCore(network.session, topic, options, self._buffer, nullcontext(), self._on_released)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False
        self._is_closed = False
        #: The first batch that failed since the last flush.
        self._failure: Batch | None = None

    async def send(
        self, payload: bytes, *, key: bytes | None = None, partition: int | None = None, **fields: Unpack[RecordFields]
    ) -> AsyncDelivery:
        """Sends one record without waiting for its answer: await what this returns for the receipt.

        Waits only while the buffer is full. Raises BufferFullError when it stays full until the time limit of the
        producer, and InvalidArgumentError for a record that no broker would take.
        """
        if key is None and partition is None and type(payload) is bytes and not fields and not self._is_closed:
            batch = self._buffer.append(payload, now_ms())
            if batch is not None:
                # That it has to leave was said with its first record.
                return AsyncDelivery(batch, batch.count - 1)
        record = await self.make_record(payload, key, fields, self._options.timeout_ms)
        return await self.send_record(record, partition, self._options.timeout_ms)

    async def flush(self, *, timeout_ms: Duration | None = None) -> None:
        """Waits until everything that was sent has its answer.

        Raises the error of the first record that failed since the last flush, unless the application has seen it
        already, and TimeoutError after `timeout_ms`. Without a limit it ends with the last delivery.
        """
        self._core.flush(steady_ms())
        self._network.wake()
        await self._wait_for_all(timeout_ms)
        failure, self._failure = self._failure, None
        if failure is not None and failure.error is not None and not failure.is_observed:
            failure.is_observed = True
            raise failure.error

    async def close(self, *, timeout_ms: Duration | None = None) -> None:
        """Flushes, and takes no more records. What has no answer by the time limit fails."""
        if self._is_closed:
            # Another task closes it, and tells what becomes of the records.
            with suppress(TimeoutError):
                await self._wait_for_all(timeout_ms)
            return
        self._is_closed = True
        self._wake_waiters()
        try:
            await self.flush(timeout_ms=timeout_ms)
        except FlotillaError:
            raise
        except TimeoutError:
            pass
        finally:
            report_unanswered(self.topic, self.unresolved())
            self._core.abandon(ConnectionClosedError("the producer was closed before an answer came"))
            self._network.wake()
            self._closed(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, f"a producer of {self.topic}") as limit_ms:
            await self.close(timeout_ms=limit_ms)

    async def _wait_for_all(self, timeout_ms: Duration | None) -> None:
        async with asyncio.timeout(None if timeout_ms is None else milliseconds(timeout_ms) / 1000):
            await wait_for(self.unresolved())

    # What the client uses too.

    def unresolved(self) -> list[Batch]:
        """Everything without an answer."""
        return list(self._buffer.unresolved)

    def adapt(self) -> None:
        """The topic may have got more partitions."""
        self._core.adapt()

    async def make_record(self, payload: bytes, key: bytes | None, fields: RecordFields, timeout_ms: int) -> Record:
        """Raises InvalidArgumentError for one that no broker would take, without asking any."""
        time_ms = now_ms()
        if not fields:
            return make_record(payload, key, fields, time_ms)
        record = make_record(payload, key, fields, time_ms, self._network.difference)
        if self._buffer.partitions:
            return record
        # Delays count by the time of a broker, which the broker that described the topic has sent.
        await self._make_ready(0, timeout_ms)
        return make_record(payload, key, fields, time_ms, self._network.difference)

    async def send_record(self, record: Record, partition: int | None, timeout_ms: int) -> AsyncDelivery:
        size_bytes = record_bytes(record)
        if self._is_closed or not self._buffer.can_take(size_bytes):
            timeout_ms = await self._make_ready(size_bytes, timeout_ms)
        batch = self._buffer.add(record, size_bytes, partition, steady_ms(), timeout_ms)
        if batch.count == 1 or self._buffer.has_full:
            self._schedule()
        return AsyncDelivery(batch, batch.count - 1)

    async def send_all(
        self,
        payloads: Iterable[bytes | Record],
        key: bytes | None,
        partition: int | None,
        timeout_ms: int,
        fields: RecordFields,
    ) -> Sequence[Receipt]:
        """Sends many and waits for all. Raises the error of the first one that fails."""
        listed = list(payloads)
        values = plain_values(listed, key, fields)
        if values is None:
            return await self._send_records(listed, key, partition, timeout_ms, fields)
        template = await self.make_record(b"", None, fields, timeout_ms)
        batches = []
        timeout_ms = await self._make_ready(0, timeout_ms)
        if partition is not None:
            self._buffer.check_partition(partition)
        for piece, size_bytes in self._buffer.cut(values):
            await self._make_ready(size_bytes, timeout_ms)
            batches.append(self._buffer.add_values(piece, size_bytes, template, partition, steady_ms(), timeout_ms))
            self._schedule()
        await wait_for(batches)
        raise_first(batches)
        return Receipts(batches)

    async def _send_records(
        self,
        payloads: Sequence[bytes | Record],
        key: bytes | None,
        partition: int | None,
        timeout_ms: int,
        fields: RecordFields,
    ) -> Sequence[Receipt]:
        time_ms = now_ms()
        records = as_records(payloads, key, fields, time_ms, self._network.difference)
        if not self._buffer.partitions:
            timeout_ms = await self._make_ready(0, timeout_ms)
            records = as_records(payloads, key, fields, time_ms, self._network.difference)
        sent = [await self.send_record(record, partition, timeout_ms) for record in records]
        self._core.flush(steady_ms())
        self._network.wake()
        batches = list(dict.fromkeys(delivery.batch for delivery in sent))
        await wait_for(batches)
        raise_first(batches)
        return [await delivery for delivery in sent]

    # Inside.

    async def _make_ready(self, size_bytes: int, timeout_ms: int) -> int:
        """Returns when the record may be added, with the time that is left."""
        limit = TimeLimit(timeout_ms)
        if self._is_closed:
            raise ConnectionClosedError("the producer is closed")
        if not self._buffer.partitions:
            await find_topic(self._network, self.topic, timeout_ms, create=True)
            self._core.adapt()
        if not self._buffer.can_take(size_bytes):
            await self._wait_for_room(size_bytes, limit.left_ms or 1)
        if self._is_closed:
            raise ConnectionClosedError("the producer is closed")
        return limit.left_ms or 1

    async def _wait_for_room(self, size_bytes: int, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self._buffer.can_take(size_bytes) and not self._is_closed:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise buffer_full(self._options, timeout_ms) from None

    def _schedule(self) -> None:
        """Has the core look at the buffer, once, when this turn of the loop has added all it will add."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_scheduled = False
        self._core.pump(steady_ms())
        self._network.perform()

    def _on_released(self, batch: Batch) -> None:
        if batch.error is not None and self._failure is None:
            self._failure = batch
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
