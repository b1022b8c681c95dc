"""The fast path of a single record that its sender waits for, while nothing else of the producer is in flight.

The caller's own thread makes the first attempt, over a direct connection that it has to itself. The lane of the
partition numbers the batch for it. On any failure the lane takes the batch back as one that was sent, and treats it
like any other: numbering and retrying exist once, and the fast path can neither lose nor duplicate a record. A batch
whose caller is interrupted is taken back, too, and is resolved without the caller.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import UNSURE, outcome_unknown
from flotilla.client._core.loop_thread import Gate, LoopThread
from flotilla.client.producer._batch import Batch
from flotilla.client.producer._core import ProducerCore
from flotilla.client.producer._direct_connection import DirectConnection, DirectConnections
from flotilla.client.producer._partition_lane import PartitionLane
from flotilla.client.producer._record_buffer import RecordBuffer, record_bytes
from flotilla.client.producer.receipt import Receipt
from flotilla.machine import steady_ms
from flotilla.types.errors import ConnectionClosedError, FlotillaError, UnknownError
from flotilla.types.ids import Offset
from flotilla.types.limits import KIB
from flotilla.types.operations import Produce, Produced
from flotilla.types.records import Record

#: A larger record gains nothing from the fast path.
_RECORD_BYTES_MAX: Final = 64 * KIB


class FastPath:
    def __init__(
        self,
        thread: LoopThread,
        network: Network,
        direct: DirectConnections,
        core: ProducerCore,
        buffer: RecordBuffer,
        lock: threading.Lock,
        released: Callable[[Batch], None],
    ) -> None:
        """`lock` guards the buffer; `released` is called for each resolved batch, under the lock."""
        self._thread = thread
        self._network = network
        self._direct = direct
        self._core = core
        self._buffer = buffer
        self._lock = lock
        self._released = released

    def store(self, record: Record, partition: int | None, timeout_ms: int) -> Receipt | None:
        """The receipt, when the record is stored; None: nothing was done, and the record must go through the buffer."""
        found = self._prepare(record, partition, timeout_ms)
        if found is None:
            return None
        lane, batch, connection = found
        try:
            request = self._begin(lane, batch)
            answer = None if request is None else connection.ask(request, self._network.session.seen.index)
            if isinstance(answer, Produced) and not answer.known:
                self._finish(lane, batch, answer.base_offset)
            elif answer is not None:
                refusal = answer if isinstance(answer, FlotillaError) else UnknownError(f"answered with {answer}")
                self._hand_over(batch, refusal, is_unsure=isinstance(refusal, UNSURE))
            self._direct.put_back(connection)
        except BaseException as error:
            has_begun = lane.direct_batch is batch
            # A plain store first: from here on the lane may take the batch back, also when what follows is interrupted.
            batch.is_orphaned = True
            self._hand_over(batch, None, is_unsure=True)
            self._direct.discard(connection)
            if not has_begun or not isinstance(error, OSError | FlotillaError):
                raise
        else:
            if answer is None:
                return None
        if not batch.is_done:
            self._wait_for_lane(batch)
        if batch.error is not None:
            batch.is_observed = True
            raise batch.error
        return Receipt(batch.partition, batch.base_offset, False, self._buffer.topic, batch.topic_id)

    def _prepare(
        self, record: Record, partition: int | None, timeout_ms: int
    ) -> tuple[PartitionLane, Batch, DirectConnection] | None:
        buffer = self._buffer
        size_bytes = record_bytes(record)
        if record.idempotency_key or size_bytes > _RECORD_BYTES_MAX:
            return None
        if buffer.unresolved or not buffer.partitions or not self._thread.is_usable:
            return None
        number = buffer.choose(record) if partition is None else partition
        lane = self._core.lane(number)
        leader = None if lane is None else lane.leader
        connection = None if leader is None else self._direct.take(leader)
        if lane is None or connection is None:
            return None
        time_ms = steady_ms()
        batch = Batch.of_record(number, record, size_bytes, opened_ms=time_ms, deadline_ms=time_ms + timeout_ms)
        return lane, buffer.stamp(batch), connection

    def _begin(self, lane: PartitionLane, batch: Batch) -> Produce | None:
        """None: other records came first, and the batch had better share theirs. Raises InvalidArgumentError."""
        with self._lock:
            if not self._thread.is_usable or self._buffer.unresolved:
                return None
            request = lane.begin_direct(batch)
            if request is not None:
                self._buffer.count_in(batch)
            return request

    def _finish(self, lane: PartitionLane, batch: Batch, base_offset: Offset) -> None:
        batch.resolve(base_offset)
        with self._lock:
            has_waiting = lane.end_direct(batch)
            self._buffer.release(batch)
            self._released(batch)
            self._core.adapt()
            has_waiting = has_waiting or self._buffer.is_waiting
        if has_waiting:
            self._hand_over(batch, None, is_unsure=False)

    def _hand_over(self, batch: Batch, refusal: FlotillaError | None, *, is_unsure: bool) -> None:
        # A loop that has ended takes nothing back; waiting for the batch raises then.
        with suppress(ConnectionClosedError):
            self._thread.post(self._take_back, batch, refusal, is_unsure)

    def _wait_for_lane(self, batch: Batch) -> None:
        gate = Gate()
        batch.when_done(gate.open)
        try:
            self._thread.wait(gate)
        except ConnectionClosedError as closed:
            raise outcome_unknown(closed) from None

    # On the loop.

    def _take_back(self, batch: Batch, refusal: FlotillaError | None, is_unsure: bool) -> None:
        self._core.take_back(batch, refusal, is_unsure=is_unsure, now_ms=steady_ms())
        self._network.perform()
