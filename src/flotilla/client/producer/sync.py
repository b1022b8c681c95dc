"""A producer for threads: sends records in batches, many at a time, and returns a delivery for each.

Records are gathered in the caller's thread, under a lock that is held for a microsecond; batches leave from
the client's thread. Any number of threads may send.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import leaving
from flotilla.client._core.loop_thread import WAIT_MS_MAX, Gate, LoopThread
from flotilla.client._core.positions import find_topic
from flotilla.client._duration import Duration, milliseconds
from flotilla.client.producer._at_exit import flush_at_exit, report_unanswered
from flotilla.client.producer._batch import Batch, Delivery
from flotilla.client.producer._core import ProducerCore
from flotilla.client.producer._direct_connection import DirectConnections
from flotilla.client.producer._fast_path import FastPath
from flotilla.client.producer._receipts import Receipts, raise_first
from flotilla.client.producer._record_buffer import RecordBuffer, buffer_full, record_bytes
from flotilla.client.producer.options import ProducerOptions
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields, as_records, make_record, plain_values
from flotilla.machine import now_ms, steady_ms
from flotilla.types.errors import ConnectionClosedError, FlotillaError
from flotilla.types.records import Record


class SyncDelivery(Delivery):
    """What will become of one record: `result` waits for its receipt."""

    __slots__ = ()

    def result(self, *, timeout_ms: Duration | None = None) -> Receipt:
        """The receipt, when the record is stored. Raises why it failed, or TimeoutError if that is not known yet."""
        batch = self._batch
        if not batch.is_done and not wait_for_batches((batch,), timeout_ms):
            raise TimeoutError(f"the record has no answer after {timeout_ms} ms")
        return self._receipt()


def wait_for_batches(batches: Sequence[Batch], timeout_ms: Duration | None = None) -> bool:
    """Waits until all of these have come to their end. False: that took too long."""
    deadline_ms = None if timeout_ms is None else steady_ms() + milliseconds(timeout_ms)
    for batch in batches:
        if not batch.is_done:
            gate = Gate()
            batch.when_done(gate.open)
            if not gate.wait(None if deadline_ms is None else max(deadline_ms - steady_ms(), 0)):
                return False
    return True


class Producer:
    """Made by `Client.producer`. Use it as a context manager, or close it."""

    def __init__(
        self,
        thread: LoopThread,
        network: Network,
        topic: str,
        options: ProducerOptions,
        closed: Callable[["Producer"], None],
        direct: DirectConnections,
    ) -> None:
        self.topic = topic
        self._thread = thread
        self._network = network
        self._options = options
        self._closed = closed
        self._lock = threading.Lock()
        #: Opened when records have left the buffer, or when the producer is closed. Callers wait for room there.
        self._room: list[Gate] = []
        self._buffer = RecordBuffer(options, network.session.chance, topic, self._announce)
        self._core = ProducerCore(network.session, topic, options, self._buffer, self._lock, self._on_released)
        #: The quick way of those that are waited for one by one.
        self.lone = FastPath(thread, network, direct, self._core, self._buffer, self._lock, self._on_released)
        self._is_closed = False
        #: The loop will look at the buffer, under the lock; it need not be told again before it does.
        self._is_posted = False
        #: The first batch that failed since the last flush.
        self._failure: Batch | None = None
        flush_at_exit(self)

    def send(
        self, payload: bytes, *, key: bytes | None = None, partition: int | None = None, **fields: Unpack[RecordFields]
    ) -> SyncDelivery:
        """Sends one record without waiting for its answer: what this returns has a `result` with the receipt.

        Waits only while the buffer is full. Raises BufferFullError when it stays full until the time limit of the
        producer, and InvalidArgumentError for a record that no broker would take.
        """
        if key is None and partition is None and type(payload) is bytes and not fields:
            time_ms = now_ms()
            with self._lock:
                is_usable = self._thread.is_usable and not self._is_closed
                batch = self._buffer.append(payload, time_ms) if is_usable else None
                if batch is not None:
                    # That it has to leave was said with its first record.
                    return SyncDelivery(batch, batch.count - 1)
        record = self.make_record(payload, key, fields, self._options.timeout_ms)
        return self.send_record(record, partition, self._options.timeout_ms)

    def flush(self, *, timeout_ms: Duration | None = None) -> None:
        """Waits until everything that was sent has its answer.

        Raises the error of the first record that failed since the last flush, unless the application has seen it
        already, and TimeoutError after `timeout_ms`. Without a limit it ends with the last delivery.
        """
        if self._thread.is_foreign:
            self._thread.check()
        unresolved = self.unresolved()
        if unresolved:
            self.hurry()
            if not wait_for_batches(unresolved, timeout_ms):
                raise TimeoutError(f"records have no answer after {timeout_ms} ms")
        failure, self._failure = self._failure, None
        if failure is not None and failure.error is not None and not failure.is_observed:
            failure.is_observed = True
            raise failure.error

    def close(self, *, timeout_ms: Duration | None = None) -> None:
        """Flushes, and takes no more records. What has no answer by the time limit fails."""
        if self._thread.is_foreign:
            # Another process sends what is here, and its thread may hold the lock for good.
            self._is_closed = True
            return
        with self._lock:
            is_first = not self._is_closed
            self._is_closed = True
            self._open_gates()
        if not is_first:
            # Another thread closes it, and tells what becomes of the records.
            if not self._thread.is_current:
                wait_for_batches(self.unresolved(), timeout_ms)
            return
        try:
            self.flush(timeout_ms=timeout_ms)
        except FlotillaError:
            raise
        except TimeoutError:
            pass
        finally:
            self._closed(self)
            unresolved = self.unresolved()
            report_unanswered(self.topic, unresolved)
            if unresolved:
                self._thread.post(self.abandon)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, f"a producer of {self.topic}") as limit_ms:
            self.close(timeout_ms=limit_ms)

    # What the client uses too.

    @property
    def is_usable(self) -> bool:
        """Whether it can send anything."""
        return self._is_usable

    def unresolved(self) -> list[Batch]:
        """Everything without an answer."""
        with self._lock:
            self._buffer.mend()
            return list(self._buffer.unresolved)

    def hurry(self) -> None:
        """Nothing lingers any more. Raises ConnectionClosedError."""
        self._thread.post(self._flush)

    def make_record(self, payload: bytes, key: bytes | None, fields: RecordFields, timeout_ms: int) -> Record:
        """Raises InvalidArgumentError for one that no broker would take, without asking any."""
        time_ms = now_ms()
        if not fields:
            return make_record(payload, key, fields, time_ms)
        record = make_record(payload, key, fields, time_ms, self._network.difference)
        if self._buffer.partitions:
            return record
        # Delays count by the time of a broker, which the broker that described the topic has sent.
        self._make_ready(0, timeout_ms)
        return make_record(payload, key, fields, time_ms, self._network.difference)

    def send_record(self, record: Record, partition: int | None, timeout_ms: int) -> SyncDelivery:
        size_bytes = record_bytes(record)
        buffer = self._buffer
        end_ms = 0
        while True:
            with self._lock:
                if self._is_usable and buffer.can_take(size_bytes):
                    # The time that it took to get here counts.
                    at_ms = steady_ms()
                    left_ms = max(end_ms - at_ms, 1) if end_ms else timeout_ms
                    batch = buffer.add(record, size_bytes, partition, at_ms, left_ms)
                    return SyncDelivery(batch, batch.count - 1)
            end_ms = end_ms or steady_ms() + timeout_ms
            self._make_ready(size_bytes, timeout_ms, end_ms)

    def send_all(
        self,
        payloads: Iterable[bytes | Record],
        key: bytes | None,
        partition: int | None,
        timeout_ms: int,
        fields: RecordFields,
    ) -> Sequence[Receipt]:
        """Sends many and waits for all. Raises the error of the first one that fails."""
        listed = payloads if isinstance(payloads, list) else list(payloads)
        values = plain_values(listed, key, fields)
        if values is None:
            return self._send_records(listed, key, partition, timeout_ms, fields)
        template = self.make_record(b"", None, fields, timeout_ms)
        self._make_ready(0, timeout_ms)
        if partition is not None:
            self._buffer.check_partition(partition)
        batches = [
            self._send_values(piece, size_bytes, template, partition, timeout_ms)
            for piece, size_bytes in self._buffer.cut(values)
        ]
        wait_for_batches(batches)
        raise_first(batches)
        return Receipts(batches)

    def _send_values(
        self, piece: list[bytes], size_bytes: int, template: Record, partition: int | None, timeout_ms: int
    ) -> Batch:
        buffer = self._buffer
        end_ms = steady_ms() + timeout_ms
        while True:
            with self._lock:
                if self._is_usable and buffer.can_take(size_bytes):
                    return buffer.add_values(piece, size_bytes, template, partition, steady_ms(), timeout_ms)
            self._make_ready(size_bytes, timeout_ms, end_ms)

    def _send_records(
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
            self._make_ready(0, timeout_ms)
            records = as_records(payloads, key, fields, time_ms, self._network.difference)
        sent = [self.send_record(record, partition, timeout_ms) for record in records]
        self._thread.post(self._flush)
        batches = list(dict.fromkeys(delivery.batch for delivery in sent))
        wait_for_batches(batches)
        raise_first(batches)
        return [delivery.result() for delivery in sent]

    # In the caller's thread.

    @property
    def _is_usable(self) -> bool:
        return self._thread.is_usable and not self._is_closed

    def _make_ready(self, size_bytes: int, timeout_ms: int, end_ms: int = 0) -> None:
        """Returns when a record of that size may find room. Raises BufferFullError at `end_ms`.

        Without the lock: a caller that is interrupted while it takes a lock again would not have it.
        """
        self._check_open()
        if not self._buffer.partitions:
            self._thread.run(self._find_topic(max(end_ms - steady_ms(), 1) if end_ms else timeout_ms))
            self._check_open()
        gate = Gate()
        with self._lock:
            if self._buffer.can_take(size_bytes) or self._is_closed:
                return
            self._room.append(gate)
        remaining_ms = (end_ms or steady_ms() + timeout_ms) - steady_ms()
        if remaining_ms <= 0:
            raise buffer_full(self._options, timeout_ms)
        gate.wait(min(remaining_ms, WAIT_MS_MAX))
        self._check_open()

    def _announce(self) -> None:
        """Tells the loop, with the lock, that something comes: it sees what is there when the lock is free.

        The flag is set last: a caller that is interrupted before is announced, too, and once more by the next one.
        """
        if not self._is_posted:
            self._thread.post(self._pump)
            self._is_posted = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedError("the producer is closed")
        self._thread.check()

    # On the loop.

    async def _find_topic(self, timeout_ms: int) -> None:
        await find_topic(self._network, self.topic, timeout_ms, create=True)
        self._core.adapt()

    def _pump(self) -> None:
        with self._lock:
            self._is_posted = False
        self._core.pump(steady_ms())
        self._network.perform()

    def _flush(self) -> None:
        self._core.flush(steady_ms())
        self._network.perform()

    def abandon(self) -> None:
        """Every record without an answer fails now."""
        self._core.abandon(ConnectionClosedError("the producer was closed before an answer came"))
        self._network.perform()

    def _on_released(self, batch: Batch) -> None:
        if batch.error is not None and self._failure is None:
            self._failure = batch
        self._open_gates()

    def _open_gates(self) -> None:
        """With the lock."""
        while self._room:
            self._room.pop().open()
