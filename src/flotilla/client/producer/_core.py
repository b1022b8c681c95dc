"""The core of a producer without threads or sockets: moves batches from the buffer to the lanes of their partitions.

A batch leaves when it is full, or when its linger has passed and its lane has room; by default a batch of few records
leaves without lingering when its lane is idle. So an idle producer sends at once and a busy one sends large batches by
itself. Everything here belongs to the session's thread.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.session import Session
from flotilla.client._core.timers import Alarm
from flotilla.client.producer._batch import Batch
from flotilla.client.producer._partition_lane import PartitionLane, new_producer_id
from flotilla.client.producer._record_buffer import RecordBuffer
from flotilla.client.producer.options import ProducerOptions
from flotilla.codec.batch.compression import NAMES
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import CONTROLLER, GetMetadata, Metadata, Route

#: The time for a description of the topic; after that, the next refused batch asks again.
_REFRESH_MS_MAX: Final = 10_000


class ProducerCore:
    def __init__(
        self,
        session: Session,
        topic: str,
        options: ProducerOptions,
        buffer: RecordBuffer,
        lock: AbstractContextManager[object],
        released: Callable[[Batch], None],
    ) -> None:
        """`lock` guards the buffer; `released` is called for each resolved batch, under the lock."""
        self._session = session
        self._topic = topic
        self._options = options
        self._buffer = buffer
        self._lock = lock
        self._released = released
        self._producer_id = new_producer_id(session)
        self._compression = {name: code for code, name in NAMES.items()}[options.compression]
        self._lanes: dict[int, PartitionLane] = {}
        self._alarm = Alarm(session.timers, self._on_alarm)
        #: Until the buffer is empty, nothing lingers.
        self._is_flushing = False
        self._is_pumping = False
        #: The buffer must be looked at, once more if that is being done.
        self._is_due = False
        self._is_refreshing = False

    def adapt(self) -> None:
        """Takes over the partition count of the topic, which may have grown."""
        topic = self._session.routes.topics.get(self._topic)
        if topic is not None:
            self._buffer.adapt(topic)

    def refresh(self) -> None:
        """Describes the topic anew: a broker knows that it has grown, or that it is another one of its name."""
        if self._is_refreshing or self._session.is_closed:
            return
        self._is_refreshing = True

        def answered(result: CallResult) -> None:
            self._is_refreshing = False
            if isinstance(result, Metadata):
                self._session.routes.update(result, [self._topic])
                with self._lock:
                    self.adapt()

        session = self._session
        # At the leader of the metadata: the broker that refused knows more than this client, and perhaps than others.
        call = ClientCall(GetMetadata([self._topic]), session.now_ms + _REFRESH_MS_MAX, answered, route=CONTROLLER)
        session.submit(call, session.now_ms)

    def flush(self, now_ms: int) -> None:
        """Sends without lingering until the buffer is empty."""
        self._is_flushing = True
        self._session.now_ms = now_ms
        for lane in list(self._lanes.values()):
            lane.resume()
        self.pump(now_ms)

    def pump(self, now_ms: int) -> None:
        """Moves batches that should leave to their lanes."""
        self._session.now_ms = now_ms
        self._is_due = True
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while self._is_due:
                self._is_due = False
                self._move()
        finally:
            self._is_pumping = False

    def _move(self) -> None:
        buffer, session = self._buffer, self._session
        with self._lock:
            self.adapt()
            batches = buffer.take(session.now_ms, self._has_room, self._is_idle, is_flushing=self._is_flushing)
            self._is_flushing = self._is_flushing and buffer.is_waiting
            due_ms = buffer.next_due_ms
        self._alarm.set(due_ms)
        for batch in batches:
            lane = self._lanes.get(batch.partition) or self._open_lane(batch.partition)
            lane.add(batch)

    def _on_alarm(self) -> None:
        self.pump(self._session.now_ms)

    def lane(self, partition: int) -> PartitionLane | None:
        """None: nothing was sent to this partition yet."""
        return self._lanes.get(partition)

    def take_back(self, batch: Batch, refusal: FlotillaError | None, *, is_unsure: bool, now_ms: int) -> None:
        """Ends the direct attempt of a batch: unless the batch is resolved, its lane goes on with it."""
        self._session.now_ms = now_ms
        self._lanes[batch.partition].take_back(batch, refusal, is_unsure=is_unsure)

    def abandon(self, error: FlotillaError) -> None:
        """Resolves every batch without an answer, now."""
        with self._lock:
            waiting = self._buffer.take(self._session.now_ms, _always, _always, is_flushing=True)
        for lane in self._lanes.values():
            lane.abandon(error)
        for batch in waiting:
            batch.resolve(-1, error)
            self._resolved(batch)

    def _open_lane(self, partition: int) -> PartitionLane:
        lane = self._lanes[partition] = PartitionLane(
            self._session,
            Route(self._topic, partition),
            producer_id=self._producer_id,
            in_flight_max=self._options.in_flight_max,
            compression=self._compression,
            buffer=self._buffer,
            resolved=self._resolved,
            refresh=self.refresh,
        )
        return lane

    def _has_room(self, partition: int) -> bool:
        lane = self._lanes.get(partition)
        return lane is None or lane.has_room

    def _is_idle(self, partition: int) -> bool:
        lane = self._lanes.get(partition)
        return lane is None or lane.is_idle

    def _resolved(self, batch: Batch) -> None:
        with self._lock:
            self._buffer.release(batch)
            self._released(batch)
            is_waiting = self._buffer.is_waiting
        if is_waiting:
            self.pump(self._session.now_ms)


def _always(partition: int) -> bool:
    return True
