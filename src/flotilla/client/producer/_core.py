"""The core of a producer without threads or sockets: records in, batches on their lanes.

    RecordBuffer   gathers records into batches, within a bound on memory; filled by whoever sends
    ProducerCore   moves batches from the buffer to the lanes of their partitions; lives with the session

A batch leaves when it is full, or when its linger has passed and its lane has room: so an idle producer
sends at once and a busy one sends large batches by itself. Records are gathered by partition, priority and
deliver-at, which a batch has in common; the order of sending is kept among records that share all three.
The two classes are apart because they may be used from two threads: the first needs a lock then, the
second belongs to the session's thread.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import TypeAlias

from flotilla.client._core.deadlines import Deadlines
from flotilla.client._core.session import Session
from flotilla.client._core.timers import Timer
from flotilla.client.producer._batch import Batch
from flotilla.client.producer._partition_lane import PartitionLane, new_producer_id
from flotilla.client.producer._partitioner import StickyPartition, partition_of
from flotilla.codec.batch.compression import NAMES
from flotilla.types.errors import BufferFullError, FlotillaError, InvalidArgumentError
from flotilla.types.limits import BATCH_RECORD_COUNT_MAX, ENTRY_BYTES_MAX, KIB, MIB, VALUE_BYTES_MAX
from flotilla.types.operations import Route
from flotilla.types.records import Record

#: What a record costs beyond its bytes, in the buffer and in a batch, roughly.
_RECORD_BYTES = 64
#: Room in a batch for its header, and for offsets that the estimate above does not cover.
_BATCH_SLACK_BYTES = 64 * KIB

#: What a record is beside its value and its time, if nothing was said.
_PLAIN_BEFORE_TIME = Record(b"")[1:3]
_PLAIN_AFTER_TIME = Record(b"")[4:]

#: Partition, priority, deliver-at.
_Key: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    #: How long a record may wait for company.
    linger_ms: int = 0
    #: A batch is full at either of these.
    batch_bytes: int = 256 * KIB
    batch_records: int = 10_000
    #: Records that were sent and not answered; beyond that, sending waits.
    buffer_bytes_max: int = 32 * MIB
    #: Batches in flight to one partition.
    in_flight_max: int = 8
    #: From sending to the answer.
    timeout_ms: int = 30_000
    #: none, lz4 or zstd.
    compression: str = "none"

    def __post_init__(self) -> None:
        if self.compression not in NAMES.values():
            raise InvalidArgumentError(f"compression is one of {', '.join(NAMES.values())}, not {self.compression!r}")
        for name in ("batch_bytes", "batch_records", "buffer_bytes_max", "in_flight_max", "timeout_ms"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name} is at least 1")
        if self.linger_ms < 0:
            raise InvalidArgumentError("linger_ms is at least 0")
        if self.batch_bytes > ENTRY_BYTES_MAX - _BATCH_SLACK_BYTES or self.batch_records > BATCH_RECORD_COUNT_MAX:
            raise InvalidArgumentError(
                f"a batch has at most {BATCH_RECORD_COUNT_MAX} records and {ENTRY_BYTES_MAX} bytes"
            )


class RecordBuffer:
    def __init__(self, options: ProducerOptions, chance: Random) -> None:
        self._options = options
        self._sticky = StickyPartition(chance)
        #: Set when the topic is known; nothing can be added before.
        self.partitions = 0
        #: Of records without an answer.
        self.used_bytes = 0
        #: Batches that still take records, by their partition, the oldest first, and those that are full, in order.
        #: There may be thousands of the first while a lane is busy, each with its own time of delivery.
        self._open: dict[int, OrderedDict[_Key, Batch]] = {}
        self._full: deque[Batch] = deque()
        #: Of the open ones.
        self._deadlines: Deadlines[_Key] = Deadlines()
        #: When `take` must be called again although nothing is added and no lane gets room; it says so itself.
        self.next_due_ms: int | None = None
        #: The open batch that takes the next plain value, if one does.
        self._plain: Batch | None = None
        self._plain_bytes_max = min(options.batch_bytes, VALUE_BYTES_MAX)
        #: The last record of a batch is not appended: somebody has to be told that the batch is full.
        self._plain_count_max = options.batch_records - 1
        #: Every batch without an answer.
        self.unresolved: dict[Batch, None] = {}

    def can_take(self, size_bytes: int) -> bool:
        """Whether the partitions are known and a record fits the bound; a large one may always come alone."""
        if not self.partitions:
            return False
        return self.used_bytes + size_bytes <= self._options.buffer_bytes_max or not self.used_bytes

    @property
    def is_waiting(self) -> bool:
        """Batches wait for their lane."""
        return bool(self._open or self._full)

    @property
    def has_full(self) -> bool:
        return bool(self._full)

    def append(self, value: bytes, time_ms: int) -> Batch | None:
        """The batch that a value without key or other fields is now the last one of; None: it takes an `add`.

        The way of nearly every record of a busy producer: no object is made for it. All such records have the
        time limit of the producer, so the first one of a batch says when it is overdue.
        """
        batch = self._plain
        if batch is None or batch.count >= self._plain_count_max:
            return None
        size_bytes = len(value) + _RECORD_BYTES
        filled_bytes = batch.size_bytes + size_bytes
        used_bytes = self.used_bytes + size_bytes
        if filled_bytes > self._plain_bytes_max or used_bytes > self._options.buffer_bytes_max:
            return None
        batch.values.append(value)
        batch.times_ms.append(time_ms)
        batch.count += 1
        batch.size_bytes = filled_bytes
        self.used_bytes = used_bytes
        return batch

    def add(self, record: Record, size_bytes: int, partition: int | None, now_ms: int, timeout_ms: int) -> Batch:
        """The batch that the record is now the last one of. Raises InvalidArgumentError."""
        if partition is not None:
            self.check_partition(partition)
        while True:
            number = self.choose(record) if partition is None else partition
            place = (number, record.priority, record.deliver_at_ms)
            opened = self._open.get(number)
            batch = opened.get(place) if opened else None
            if batch is None:
                break
            if batch.size_bytes + size_bytes <= self._options.batch_bytes and record.idempotency_key not in batch.keys:
                break
            self._seal(place)
        deadline_ms = now_ms + timeout_ms
        if batch is None:
            batch = self._open_at(place, now_ms, deadline_ms)
            if _is_plain(record):
                batch.template = record
                if partition is None and timeout_ms == self._options.timeout_ms:
                    self._plain = batch
        else:
            if deadline_ms < batch.deadline_ms:
                batch.deadline_ms = deadline_ms
                self._deadlines.put(place, deadline_ms)
            if batch.template is not None and not _is_plain(record):
                self._spell_out(batch)
        if batch.template is not None:
            batch.values.append(record.value)
            batch.times_ms.append(record.timestamp_ms)
        else:
            batch.records.append(record)
            if record.idempotency_key:
                batch.keys[record.idempotency_key] = None
        batch.count += 1
        batch.size_bytes += size_bytes
        self.used_bytes += size_bytes
        if batch.count >= self._options.batch_records:
            self._seal(place)
        return batch

    def hold(self, batch: Batch) -> None:
        """One that never was in here is under way."""
        self.unresolved[batch] = None
        self.used_bytes += batch.size_bytes
        if batch.partition == self._sticky.current(self.partitions):
            self._sticky.move()

    def choose(self, record: Record) -> int:
        """The partition of its key; one with an idempotency key only must always go to the same one."""
        key = record.key
        if key is None and not record.idempotency_key:
            return self._sticky.current(self.partitions)
        return partition_of(record.idempotency_key if key is None else key, self.partitions)

    def _spell_out(self, batch: Batch) -> None:
        batch.spell_out()
        if batch is self._plain:
            self._plain = None

    def check_partition(self, partition: int) -> None:
        if not 0 <= partition < self.partitions:
            raise InvalidArgumentError(f"there is no partition {partition}, only {self.partitions} of them")

    def add_values(
        self,
        values: list[bytes],
        size_bytes: int,
        template: Record,
        partition: int | None,
        now_ms: int,
        timeout_ms: int,
    ) -> Batch:
        """A batch of its own for values that differ in nothing else; see `cut`."""
        batch = Batch.of_values(
            self._sticky.current(self.partitions) if partition is None else partition,
            values,
            size_bytes,
            template,
            opened_ms=now_ms,
            deadline_ms=now_ms + timeout_ms,
        )
        self._sticky.move()
        self.unresolved[batch] = None
        self._full.append(batch)
        self.used_bytes += size_bytes
        return batch

    def cut(self, values: Sequence[bytes]) -> list[tuple[list[bytes], int]]:
        """Values in pieces that each make a batch, with the size of each. Raises InvalidArgumentError."""
        try:
            ends = list(accumulate(map(len, values)))
        except TypeError as error:
            raise InvalidArgumentError(f"a payload is bytes: {error}") from error
        pieces = []
        first = 0
        while first < len(values):
            before = ends[first - 1] if first else 0
            end = bisect_right(ends, before + self._options.batch_bytes, first)
            end = max(first + 1, min(end, first + self._options.batch_records))
            piece = list(values[first:end])
            pieces.append((piece, ends[end - 1] - before + _RECORD_BYTES * len(piece)))
            first = end
        return pieces

    def _open_at(self, place: _Key, now_ms: int, deadline_ms: int) -> Batch:
        batch = Batch(place[0], now_ms, deadline_ms)
        self.unresolved[batch] = None
        self._open.setdefault(place[0], OrderedDict())[place] = batch
        self._deadlines.put(place, deadline_ms)
        return batch

    def _seal(self, place: _Key) -> None:
        opened = self._open[place[0]]
        batch = opened.pop(place)
        if not opened:
            del self._open[place[0]]
        self._deadlines.discard(place)
        self._full.append(batch)
        if batch is self._plain:
            self._plain = None
        if place[0] == self._sticky.current(self.partitions):
            self._sticky.move()

    def take(self, now_ms: int, has_room: Callable[[int], bool], *, is_flushing: bool) -> list[Batch]:
        """Batches that should leave now: full ones in any case, the others if they waited and their lane has room."""
        # One that is overdue ends in its lane.
        while (overdue := self._deadlines.pop_overdue(now_ms)) is not None:
            self._seal(overdue)
        linger_ms = 0 if is_flushing else self._options.linger_ms
        ends_ms = []
        for partition, opened in list(self._open.items()):
            if has_room(partition):
                while opened:
                    place, oldest = next(iter(opened.items()))
                    if oldest.opened_ms + linger_ms > now_ms:
                        ends_ms.append(oldest.opened_ms + linger_ms)
                        break
                    self._seal(place)
        if self._open and (deadline_ms := self._deadlines.next_ms) is not None:
            ends_ms.append(deadline_ms)
        self.next_due_ms = min(ends_ms, default=None)
        taken = list(self._full)
        self._full.clear()
        return taken

    def release(self, batch: Batch) -> None:
        """The batch has its answer."""
        if batch in self.unresolved:
            del self.unresolved[batch]
            self.used_bytes -= batch.size_bytes


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
        """`lock` guards the buffer; `released` is called, under it, for each batch that has come to its end."""
        self._session = session
        self._topic = topic
        self._options = options
        self._buffer = buffer
        self._lock = lock
        self._released = released
        self._producer_id = new_producer_id(session)
        self._compression = {name: code for code, name in NAMES.items()}[options.compression]
        self._lanes: dict[int, PartitionLane] = {}
        self._timer: Timer | None = None
        #: Nothing lingers any more.
        self._is_flushing = False
        self._is_pumping = False
        #: The buffer has to be looked at, again if that is being done.
        self._is_due = False

    def adapt(self) -> None:
        """A topic may have got more partitions."""
        topic = self._session.routes.topics.get(self._topic)
        if topic is not None:
            self._buffer.partitions = len(topic.partitions)

    def flush(self, now_ms: int) -> None:
        """From now on until the buffer is empty, nothing lingers."""
        self._is_flushing = True
        self.pump(now_ms)

    def pump(self, now_ms: int) -> None:
        """Moves what should leave to its lane."""
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
            batches = buffer.take(session.now_ms, self._has_room, is_flushing=self._is_flushing)
            self._is_flushing = self._is_flushing and buffer.is_waiting
            due_ms = buffer.next_due_ms
        if self._timer is not None and self._timer.when_ms != due_ms:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None and self._timer is None:
            self._timer = session.timers.at(due_ms, self._on_timer)
        for batch in batches:
            lane = self._lanes.get(batch.partition) or self._open_lane(batch.partition)
            lane.add(batch)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump(self._session.now_ms)

    def lane(self, partition: int) -> PartitionLane | None:
        """None: nothing was ever sent there."""
        return self._lanes.get(partition)

    def take_back(self, batch: Batch, refusal: FlotillaError | None, *, is_unsure: bool, now_ms: int) -> None:
        """Whoever made the first attempt is through with it: unless the batch is settled, its lane goes on with it."""
        self._session.now_ms = now_ms
        lane = self._lanes[batch.partition]
        if lane.direct_batch is batch and not batch.is_done:
            lane.take_back(batch, refusal, is_unsure=is_unsure)
            return
        if lane.direct_batch is batch:
            # Interrupted in the middle of settling it.
            lane.end_direct(batch)
        lane.resume()
        self._resolved(batch)

    def abandon(self, error: FlotillaError) -> None:
        """Every record without an answer ends now."""
        with self._lock:
            waiting = self._buffer.take(self._session.now_ms, lambda partition: True, is_flushing=True)
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
            resolved=self._resolved,
        )
        return lane

    def _has_room(self, partition: int) -> bool:
        lane = self._lanes.get(partition)
        return lane is None or lane.has_room

    def _resolved(self, batch: Batch) -> None:
        with self._lock:
            self._buffer.release(batch)
            self._released(batch)
            is_waiting = self._buffer.is_waiting
        if is_waiting:
            self.pump(self._session.now_ms)


def _is_plain(record: Record) -> bool:
    """Whether it says nothing but its value and its time."""
    return record[1:3] == _PLAIN_BEFORE_TIME and record[4:] == _PLAIN_AFTER_TIME


def record_bytes(record: Record) -> int:
    """What a record takes in the buffer."""
    value, key, headers = record[:3]
    size_bytes = len(value) + _RECORD_BYTES
    if key is not None:
        size_bytes += len(key)
    if headers or record.idempotency_key:
        size_bytes += len(record.idempotency_key) + sum([len(name) + len(text) for name, text in headers])
    return size_bytes


def buffer_full(options: ProducerOptions, timeout_ms: int) -> BufferFullError:
    return BufferFullError(
        f"{options.buffer_bytes_max} bytes of records wait for their answers, and none came within {timeout_ms} ms; "
        "send more slowly, or allow more with buffer_bytes_max"
    )
