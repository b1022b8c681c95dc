"""Records of one producer that have no answer: gathered into batches, within a bound on memory.

Records are gathered by partition, priority and deliver-at, which a batch has in common; the order of sending is kept
among records that share all three. The sender's thread fills the buffer and ProducerCore empties it, perhaps on
another thread: the caller of either holds a lock then.

A signal may raise in the sender's thread after any call (`_core/loop_thread`). So a record joins its batch by plain
stores; a batch that is opened or sealed is noted by a plain store first, and what follows may be done twice: `mend`
finishes it after an interrupt.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from typing import Final, TypeAlias

from flotilla.client._core.deadlines import Deadlines
from flotilla.client.producer._batch import Batch
from flotilla.client.producer.options import ProducerOptions
from flotilla.client.producer.partitioner import StickyPartition, partition_of
from flotilla.types.errors import BufferFullError, InvalidArgumentError
from flotilla.types.limits import PAYLOAD_BYTES_MAX
from flotilla.types.operations import TopicInfo
from flotilla.types.records import Record

#: A batch of more records had better linger: its sender is so busy that it soon has many more. At a thousand records a
#: second an answer comes after few.
PROMPT_COUNT_MAX: Final = 64

#: What a record costs beyond its bytes, in the buffer and in a batch, roughly.
_RECORD_BYTES: Final = 64

#: The fields of a record beside its payload and its time, when none is given.
_PLAIN_BEFORE_TIME: Final = Record(b"")[1:3]
_PLAIN_AFTER_TIME: Final = Record(b"")[4:]

#: Partition, priority, deliver-at.
_Key: TypeAlias = tuple[int, int, int]
_NOTHING: Final[OrderedDict[_Key, Batch]] = OrderedDict()


def _no_one() -> None:
    """The caller of `take` calls it anyway."""


class RecordBuffer:
    def __init__(
        self, options: ProducerOptions, chance: Random, topic: str = "", announce: Callable[[], None] = _no_one
    ) -> None:
        """`announce` is called before something comes that `take` should see."""
        self.topic = topic
        self._announce = announce
        self._options = options
        self._sticky = StickyPartition(chance)
        #: 0 until the topic is known; nothing can be added before.
        self.partitions = 0
        #: Keys are spread over the partitions below this number of the topic of this id.
        self.key_partitions = 0
        self.topic_id = 0
        #: Of records without an answer.
        self.used_bytes = 0
        #: Batches that still take records, by partition, the oldest first. There may be thousands while a lane is
        #: busy, each with its own time of delivery.
        self._open: dict[int, OrderedDict[_Key, Batch]] = {}
        #: Batches that are full, in order.
        self._full: deque[Batch] = deque()
        #: Of the open batches.
        self._deadlines: Deadlines[_Key] = Deadlines()
        #: When `take` must be called again although nothing is added and no lane gets room. Set by `take`.
        self.next_due_ms: int | None = None
        #: The open batch that takes the next plain payload, if there is one.
        self._plain: Batch | None = None
        self._plain_bytes_max = min(options.batch_bytes, PAYLOAD_BYTES_MAX)
        #: The last record of a batch takes an `add`, which seals the batch.
        self._plain_count_max = options.batch_records - 1
        #: Every batch without an answer.
        self.unresolved: dict[Batch, None] = {}
        #: The batch that is being opened, or sealed; see `mend`.
        self._opening: tuple[_Key, Batch, bool] | None = None
        self._sealing: tuple[_Key, Batch] | None = None

    def adapt(self, topic: TopicInfo) -> None:
        """Takes over the partitions of the topic, which may have grown, or may be another one of its name."""
        if topic.topic_id != self.topic_id:
            self.mend()
            for place, batch in [each for opened in self._open.values() for each in opened.items()]:
                self._seal(place, batch)
        self.partitions = len(topic.partitions)
        self.key_partitions = topic.key_partitions or self.partitions
        self.topic_id = topic.topic_id

    def stamp(self, batch: Batch) -> Batch:
        """The batch, for the topic in which its partition is chosen now."""
        batch.topic = self.topic
        batch.topic_id = self.topic_id
        batch.key_partitions = self.key_partitions
        return batch

    def can_take(self, size_bytes: int) -> bool:
        """Whether the partitions are known and a record fits the bound; an empty buffer takes a record of any size."""
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
        """The batch whose last record is now a payload without key or other fields; None: it takes an `add`.

        Nearly every record of a busy producer comes this way, and no object is made for it. All of these have the
        time limit of the producer, so the first one sets the deadline of the batch.
        """
        batch = self._plain
        if batch is None or batch.count >= self._plain_count_max:
            return None
        size_bytes = len(value) + _RECORD_BYTES
        filled_bytes = batch.size_bytes + size_bytes
        used_bytes = self.used_bytes + size_bytes
        if filled_bytes > self._plain_bytes_max or used_bytes > self._options.buffer_bytes_max:
            return None
        # Only stores from here on.
        batch.values += (value,)
        batch.times_ms += (time_ms,)
        batch.count += 1
        batch.size_bytes = filled_bytes
        self.used_bytes = used_bytes
        return batch

    def add(self, record: Record, size_bytes: int, partition: int | None, now_ms: int, timeout_ms: int) -> Batch:
        """The batch whose last record this is now. Raises InvalidArgumentError."""
        self.mend()
        if partition is not None:
            self.check_partition(partition)
        is_plain = _is_plain(record)
        while True:
            number = self.choose(record) if partition is None else partition
            place = (number, record.priority, record.deliver_at_ms)
            opened = self._open.get(number)
            batch = opened.get(place) if opened else None
            if batch is None:
                return self._open_with(
                    record,
                    place,
                    size_bytes,
                    now_ms,
                    now_ms + timeout_ms,
                    is_plain=is_plain,
                    takes_plain=partition is None and timeout_ms == self._options.timeout_ms,
                )
            if batch.size_bytes + size_bytes <= self._options.batch_bytes and record.idempotency_key not in batch.keys:
                return self._join(batch, record, place, size_bytes, now_ms + timeout_ms, is_plain=is_plain)
            self._announce()
            self._seal(place, batch)

    def _open_with(
        self,
        record: Record,
        place: _Key,
        size_bytes: int,
        now_ms: int,
        deadline_ms: int,
        *,
        is_plain: bool,
        takes_plain: bool,
    ) -> Batch:
        """A new batch, with its first record."""
        if is_plain:
            batch = Batch.of_values(
                place[0], [record.payload], size_bytes, record, opened_ms=now_ms, deadline_ms=deadline_ms
            )
            batch.times_ms = [record.timestamp_ms]
        else:
            batch = Batch.of_record(place[0], record, size_bytes, opened_ms=now_ms, deadline_ms=deadline_ms)
            if record.idempotency_key:
                batch.keys[record.idempotency_key] = None
        self.stamp(batch)
        self._announce()
        # It counts from here on.
        self.used_bytes += size_bytes
        self._opening = (place, batch, is_plain and takes_plain)
        self.mend()
        self._seal_full(place, batch)
        return batch

    def _join(
        self, batch: Batch, record: Record, place: _Key, size_bytes: int, deadline_ms: int, *, is_plain: bool
    ) -> Batch:
        if deadline_ms < batch.deadline_ms:
            self._deadlines.put(place, deadline_ms)
        if batch.template is not None and not is_plain:
            self._spell_out(batch)
        if batch.count + 1 >= self._options.batch_records:
            self._announce()
        # Only stores until it is counted.
        if batch.template is not None:
            batch.values += (record.payload,)
            batch.times_ms += (record.timestamp_ms,)
        else:
            batch.records += (record,)
            if record.idempotency_key:
                batch.keys[record.idempotency_key] = None
        if deadline_ms < batch.deadline_ms:
            batch.deadline_ms = deadline_ms
        batch.count += 1
        batch.size_bytes += size_bytes
        self.used_bytes += size_bytes
        self._seal_full(place, batch)
        return batch

    def _seal_full(self, place: _Key, batch: Batch) -> None:
        if batch.count >= self._options.batch_records:
            self._seal(place, batch)

    def count_in(self, batch: Batch) -> None:
        """Counts a batch that is sent directly, without having been in the buffer."""
        self.mend()
        self.unresolved[batch] = None
        self.used_bytes += batch.size_bytes
        if batch.partition == self._sticky.current(self.partitions):
            self._sticky.move()

    def choose(self, record: Record) -> int:
        """The partition of the record's key, or of its idempotency key; without either the sticky partition."""
        key = record.key
        if key is None and not record.idempotency_key:
            return self._sticky.current(self.partitions)
        return partition_of(record.idempotency_key if key is None else key, self.key_partitions)

    def _spell_out(self, batch: Batch) -> None:
        # First: it takes no more plain payloads when it is spelled out.
        if batch is self._plain:
            self._plain = None
        batch.spell_out()

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
        """A batch of its own for payloads that share all other fields; see `cut`."""
        self.mend()
        batch = Batch.of_values(
            self._sticky.current(self.partitions) if partition is None else partition,
            values,
            size_bytes,
            template,
            opened_ms=now_ms,
            deadline_ms=now_ms + timeout_ms,
        )
        self.stamp(batch)
        self._announce()
        # It counts from here on.
        self.used_bytes += size_bytes
        self._sealing = ((batch.partition, template.priority, template.deliver_at_ms), batch)
        self.mend()
        return batch

    def cut(self, values: Sequence[bytes]) -> list[tuple[list[bytes], int]]:
        """Payloads in pieces that each make a batch, with the size of each. Raises InvalidArgumentError."""
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

    def _seal(self, place: _Key, batch: Batch) -> None:
        self._sealing = (place, batch)
        self.mend()

    def mend(self) -> None:
        """Opens and seals to the end what was begun: by the caller just now, or by one that was interrupted.

        Each step changes nothing when it is done again.
        """
        if self._opening is not None:
            place, batch, takes_plain = self._opening
            self.unresolved[batch] = None
            self._open.setdefault(place[0], OrderedDict())[place] = batch
            self._deadlines.put(place, batch.deadline_ms)
            if takes_plain:
                self._plain = batch
            self._opening = None
        if self._sealing is not None:
            place, batch = self._sealing
            self.unresolved[batch] = None
            if not self._full or self._full[-1] is not batch:
                self._full.append(batch)
            opened = self._open.get(place[0])
            if opened is not None and opened.get(place) is batch:
                self._deadlines.discard(place)
                del opened[place]
            if opened is not None and not opened:
                del self._open[place[0]]
            if batch is self._plain:
                self._plain = None
            if place[0] == self._sticky.current(self.partitions):
                self._sticky.move()
            self._sealing = None

    def take(
        self, now_ms: int, has_room: Callable[[int], bool], is_idle: Callable[[int], bool], *, is_flushing: bool
    ) -> list[Batch]:
        """Batches that should leave now: every full one, and of the others those whose linger is over, room permitting.

        `has_room` and `is_idle` tell about the lane of a partition. An overdue batch leaves, too: its lane fails it.
        """
        self.mend()
        while (overdue := self._deadlines.pop_overdue(now_ms)) is not None:
            late = self._open.get(overdue[0], _NOTHING).get(overdue)
            if late is not None:
                self._seal(overdue, late)
        linger_ms = 0 if is_flushing else self._options.linger_ms
        ends_ms = []
        for partition, opened in list(self._open.items()):
            if has_room(partition):
                count_max = PROMPT_COUNT_MAX if self._options.is_prompt and is_idle(partition) else 0
                while opened:
                    place, oldest = next(iter(opened.items()))
                    if oldest.opened_ms + linger_ms > now_ms and oldest.count > count_max:
                        ends_ms.append(oldest.opened_ms + linger_ms)
                        break
                    self._seal(place, oldest)
        if self._open and (deadline_ms := self._deadlines.next_ms) is not None:
            ends_ms.append(deadline_ms)
        self.next_due_ms = min(ends_ms, default=None)
        taken = list(self._full)
        self._full.clear()
        return taken

    def release(self, batch: Batch) -> None:
        """The batch is resolved."""
        if batch in self.unresolved:
            del self.unresolved[batch]
            self.used_bytes -= batch.size_bytes


def _is_plain(record: Record) -> bool:
    """Whether only its payload and its time are set."""
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
        f"{options.buffer_bytes_max} bytes of records are in flight, and none was answered within {timeout_ms} ms; "
        "send more slowly, or raise buffer_bytes_max"
    )
