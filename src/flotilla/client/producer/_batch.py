"""A batch from its first record to its answer, and the delivery of each record in it.

The records of a batch are stored or fail together, so they share one state: a delivery is only a position in a batch,
which makes a future per record nearly free. A batch is encoded when it is first sent; when its numbers change later,
only its header is written anew.

One thread fills and reads, another may resolve. Each callback is called exactly once, by the thread that first sees
both the callback and the end.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from flotilla.client._core.calls import ClientCall
from flotilla.client.producer.receipt import Receipt
from flotilla.codec.batch.header import HEADER_BYTES, pack_header, parse_header
from flotilla.codec.batch.records import decode_batch, encode_batch, encode_payloads
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.records import Record

#: The batch has no sequence number yet, or needs another.
UNNUMBERED: Final = -1


#: Makes a receipt without calling its Python constructor: one is made for each record.
_RECEIPT: Final[Callable[[tuple[int, Offset, bool, str, int]], Receipt]] = partial(tuple.__new__, Receipt)


class Batch:
    """Records for one partition that share priority and deliver-at."""

    __slots__ = (
        "_callbacks",
        "attempts",
        "base_offset",
        "call",
        "count",
        "data",
        "deadline_ms",
        "error",
        "is_done",
        "is_observed",
        "is_orphaned",
        "is_unsure",
        "key_partitions",
        "keys",
        "known",
        "last_error",
        "opened_ms",
        "partition",
        "records",
        "sequence",
        "size_bytes",
        "template",
        "times_ms",
        "topic",
        "topic_id",
        "values",
    )

    def __init__(self, partition: int, opened_ms: int, deadline_ms: int) -> None:
        #: Set by the buffer, for receipts.
        self.topic = ""
        #: The topic in which its partition was chosen, and over how many partitions keys are spread there.
        self.topic_id = 0
        self.key_partitions = 0
        self.partition = partition
        #: When its first record came, and when all of its records are overdue.
        self.opened_ms = opened_ms
        self.deadline_ms = deadline_ms
        self.records: list[Record] = []
        #: Instead of records: payloads that share all other fields, which the template has,
        self.values: list[bytes] = []
        self.template: Record | None = None
        #: but for their times, if they have some.
        self.times_ms: list[int] = []
        self.count = 0
        self.size_bytes = 0
        #: The idempotency keys of its records, none of which may occur twice.
        self.keys: dict[bytes, None] = {}
        #: Offsets of records whose keys were stored before, by position in the batch; they are not in `data` any more.
        self.known: dict[int, Offset] = {}
        # The lane's state.
        self.data = b""
        self.sequence = UNNUMBERED
        #: The attempt in flight.
        self.call: ClientCall | None = None
        #: The caller that made its direct attempt was interrupted, or had no answer.
        self.is_orphaned = False
        #: An attempt may have stored it.
        self.is_unsure = False
        self.attempts = 0
        self.last_error: FlotillaError | None = None
        # The result.
        self.base_offset: Offset = -1
        self.error: FlotillaError | None = None
        self.is_done = False
        #: The application has seen the error.
        self.is_observed = False
        self._callbacks: deque[Callable[[], None]] = deque()

    @classmethod
    def of_values(
        cls, partition: int, values: list[bytes], size_bytes: int, template: Record, *, opened_ms: int, deadline_ms: int
    ) -> "Batch":
        batch = cls(partition, opened_ms, deadline_ms)
        batch.values = values
        batch.template = template
        batch.count = len(values)
        batch.size_bytes = size_bytes
        return batch

    @classmethod
    def of_record(cls, partition: int, record: Record, size_bytes: int, *, opened_ms: int, deadline_ms: int) -> "Batch":
        batch = cls(partition, opened_ms, deadline_ms)
        batch.records = [record]
        batch.count = 1
        batch.size_bytes = size_bytes
        return batch

    def number(self, producer_id: int, epoch: int, sequence: int, compression: int) -> bytes:
        """The bytes of the batch under these numbers. Raises InvalidArgumentError when its records do not fit."""
        if self.data:
            header = parse_header(self.data)
            body = memoryview(self.data)[HEADER_BYTES:]
            self.data = b"".join(
                (
                    pack_header(
                        body,
                        count=header.count,
                        first_time_ms=header.first_time_ms,
                        max_time_ms=header.max_time_ms,
                        compression=header.compression,
                        producer_id=producer_id,
                        producer_epoch=epoch,
                        producer_sequence=sequence,
                    ),
                    body,
                )
            )
        else:
            self.data = self._encode(producer_id, epoch, sequence, compression)
            self.records = []
            self.values = []
            self.times_ms = []
        self.sequence = sequence
        return self.data

    def _encode(self, producer_id: int, epoch: int, sequence: int, compression: int) -> bytes:
        shared = self.template
        if shared is None:
            return encode_batch(
                self.records,
                compression=compression,
                producer_id=producer_id,
                producer_epoch=epoch,
                sequence=sequence,
            )
        return encode_payloads(
            self.values,
            timestamp_ms=shared.timestamp_ms,
            timestamps_ms=self.times_ms,
            priority=shared.priority,
            content_type=shared.content_type,
            deliver_at_ms=shared.deliver_at_ms,
            ttl_ms=shared.ttl_ms,
            max_deliveries=shared.max_deliveries,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=sequence,
        )

    def spell_out(self) -> None:
        """Turns its payloads into records, because a record with other fields joins them."""
        assert self.template is not None
        shared = self.template
        self.records = [
            shared._replace(payload=value, timestamp_ms=time_ms)
            for value, time_ms in zip(self.values, self.times_ms, strict=True)
        ]
        self.template = None
        self.values = []
        self.times_ms = []

    @property
    def left_count(self) -> int:
        """The count of records that are still to be stored."""
        return self.count - len(self.known)

    def leave_out(self, known: Sequence[tuple[int, Offset]]) -> None:
        """Takes out records that are stored already, given by position in the sent batch and by offset.

        Raises InvalidArgumentError when a position is not in the batch.
        """
        left = [position for position in range(self.count) if position not in self.known]
        found = dict(known)
        if not found or not all(at < len(left) for at in found):
            raise InvalidArgumentError(f"the broker knows records {list(found)} of a batch of {len(left)}")
        self.records = [record for at, record in enumerate(decode_batch(self.data)) if at not in found]
        self.data = b""
        self.sequence = UNNUMBERED
        for at, offset in found.items():
            self.known[left[at]] = offset

    @property
    def is_in_flight(self) -> bool:
        return self.call is not None

    def resolve(self, base_offset: Offset, error: FlotillaError | None = None) -> None:
        """Ends it: stored at `base_offset`, or failed."""
        assert not self.is_done
        self.base_offset = base_offset
        self.error = error
        self.data = b""
        self.is_done = True
        self._call_back()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Calls back when the batch is done: at once if it is done already."""
        self._callbacks.append(callback)
        if self.is_done:
            self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                # The other thread took the last one.
                return
            callback()


def count_records(batches: Iterable[Batch]) -> int:
    return sum([batch.count for batch in batches])


class Delivery:
    """The delivery of one record that was sent. Both shells add a way to wait for it."""

    __slots__ = ("_batch", "_position")

    def __init__(self, batch: Batch, position: int) -> None:
        self._batch = batch
        self._position = position

    @property
    def batch(self) -> Batch:
        """The batch that carries it."""
        return self._batch

    def done(self) -> bool:
        """Whether the record is stored, or has failed."""
        return self._batch.is_done

    def exception(self) -> FlotillaError | None:
        """Why the record failed; None while it has not, and when it is stored."""
        self._batch.is_observed = self._batch.is_done
        return self._batch.error

    def _receipt(self) -> Receipt:
        batch = self._batch
        position = self._position
        assert batch.is_done
        if batch.known:
            if position in batch.known:
                return Receipt(batch.partition, batch.known[position], True, batch.topic, batch.topic_id)
            position -= sum([before < position for before in batch.known])
        if batch.error is not None:
            batch.is_observed = True
            raise batch.error
        return _RECEIPT((batch.partition, batch.base_offset + position, False, batch.topic, batch.topic_id))
