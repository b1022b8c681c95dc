"""The buffer of a transaction: records in batches to stage, messages to acknowledge, and offsets after the commit.

Records of one partition are staged in the order in which they were given, numbered from 0 under a producer id of the
transaction's own, so that a batch that is sent twice is staged once. What was sent once never changes: a record that is
added while it is on its way, or after its answer was lost, begins another batch. It knows nothing of the network.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from flotilla.client.producer._record_buffer import record_bytes
from flotilla.client.producer.partitioner import partition_of
from flotilla.client.producer.receipt import Receipt
from flotilla.client.queue._leases import Lease, merged
from flotilla.client.queue._settlements import lease_expired
from flotilla.client.queue.message import Leased
from flotilla.codec.batch.records import encode_batch
from flotilla.types.errors import InvalidArgumentError, TransactionEndedError
from flotilla.types.ids import Offset
from flotilla.types.limits import MIB, RESULT_REQUEST_BYTES_MAX, RESULT_WAIT_COUNT_MAX
from flotilla.types.operations import TopicInfo
from flotilla.types.operations.queue import LeaseRange, MessageResult
from flotilla.types.operations.transactions import StagedBatch
from flotilla.types.records import Record

#: A batch is full at either of these.
BATCH_BYTES: Final = 1 * MIB
BATCH_RECORDS: Final = 10_000
#: Buffered before staging begins.
BUFFER_BYTES: Final = 4 * MIB

#: Topic and number.
Partition = tuple[str, int]


class Committed(NamedTuple):
    """The result of a commit."""

    #: Nothing was committed now: the application has committed this version, or a newer one, before.
    is_repeated: bool
    #: The batches that are visible now, by topic and partition, in the order of offsets.
    batches: dict[Partition, list[StagedBatch]]


class PendingBatch:
    """Records for one partition that share priority and deliver-at."""

    __slots__ = ("base_offset", "count", "is_sent", "partition", "records", "sequence", "size_bytes")

    def __init__(self, partition: Partition, sequence: int) -> None:
        self.partition = partition
        #: The sequence number of its first record.
        self.sequence = sequence
        #: Empty after they are staged.
        self.records: list[Record] = []
        self.count = 0
        self.size_bytes = 0
        self.base_offset: Offset = -1
        #: A broker may have staged it.
        self.is_sent = False

    def takes(self, record: Record, size_bytes: int) -> bool:
        if self.is_sent or self.count >= BATCH_RECORDS or self.size_bytes + size_bytes > BATCH_BYTES:
            return False
        first = self.records[0]
        return first.priority == record.priority and first.deliver_at_ms == record.deliver_at_ms

    def encode(self, producer_id: int) -> bytes:
        self.is_sent = True
        return encode_batch(self.records, producer_id=producer_id, sequence=self.sequence)


@dataclass(slots=True, eq=False)
class PendingAcks:
    """Messages of one queue group in one partition that the transaction acknowledges."""

    partition: Partition
    group: str
    topic_id: int
    masks: dict[Lease, int] = field(default_factory=dict)
    #: The messages live as long, so that their leases are renewed.
    messages: list[Leased[Any]] = field(default_factory=list)
    results: list[MessageResult] = field(default_factory=list)
    #: A broker may have staged them.
    is_sent: bool = False

    def ranges(self) -> list[LeaseRange]:
        self.is_sent = True
        return merged([run for lease, mask in self.masks.items() for run in lease.runs(mask)])


class TransactionBuffer:
    """The records that this process adds to one transaction, and the messages that it acknowledges."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        #: Of records that are not staged yet.
        self.size_bytes = 0
        self._batches: list[PendingBatch] = []
        #: The batch of each record and its position there, in the order of adding.
        self._places: list[tuple[PendingBatch, int]] = []
        #: The last batch of each partition, and the count of its records in all batches.
        self._last: dict[Partition, PendingBatch] = {}
        #: The ids of the topics: one that is created anew while the transaction is open is another topic.
        self.topic_ids: dict[str, int] = {}
        self._counts: dict[Partition, int] = {}
        #: Of the topics of acknowledged messages.
        self._ack_topic_ids: dict[str, int] = {}
        #: Acknowledgements that are not staged yet.
        self._acks: list[PendingAcks] = []

    @property
    def partitions(self) -> list[Partition]:
        return list(self._counts)

    def topic_id(self, topic: str) -> int:
        """Of the topic in which this transaction has staged something. With two of one name, one stage was refused."""
        return self.topic_ids.get(topic, 0) or self._ack_topic_ids.get(topic, 0)

    def add(self, topic: str, partition: int, record: Record) -> None:
        if record.idempotency_key:
            raise InvalidArgumentError("records of a transaction have no idempotency keys: it commits once as a whole")
        place = (topic, partition)
        size_bytes = record_bytes(record)
        batch = self._last.get(place)
        if batch is None or not batch.takes(record, size_bytes):
            batch = self._last[place] = PendingBatch(place, self._counts.get(place, 0))
            self._batches.append(batch)
        self._places.append((batch, batch.count))
        batch.records.append(record)
        batch.count += 1
        batch.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self._counts[place] = self._counts.get(place, 0) + 1

    def has_room(self, message: Leased[Any], result: bytes) -> bool:
        """Whether one request can carry this result with those that are not staged yet."""
        acks = self._unsent_acks(message._lease)
        if acks is None:
            return True
        size_bytes = sum([len(each.payload) for each in acks.results]) + len(result)
        return len(acks.results) < RESULT_WAIT_COUNT_MAX and size_bytes <= RESULT_REQUEST_BYTES_MAX

    def add_ack(self, message: Leased[Any], result: bytes | None = None) -> None:
        """Raises LeaseExpiredError for a message whose lease is over."""
        lease = message._lease
        if message.is_settled:
            raise lease_expired(lease, lease.bit(message.offset))
        place = (lease.topic, lease.partition)
        if any(acks.masks.get(lease, 0) & lease.bit(message.offset) for acks in self._acks):
            # The first one counts, as for any other ack.
            return
        acks = self._unsent_acks(lease)
        if acks is None:
            acks = PendingAcks(place, lease.group, lease.topic_id)
            self._acks.append(acks)
        acks.masks[lease] = acks.masks.get(lease, 0) | lease.bit(message.offset)
        acks.messages.append(message)
        if result is not None:
            acks.results.append(MessageResult(message.offset, result))
        self._counts.setdefault(place, 0)
        self._ack_topic_ids.setdefault(lease.topic, lease.topic_id)

    def _unsent_acks(self, lease: Lease) -> PendingAcks | None:
        """Those that another message of the same group and partition can join."""
        wanted = ((lease.topic, lease.partition), lease.group, lease.topic_id)
        for acks in self._acks:
            if not acks.is_sent and (acks.partition, acks.group, acks.topic_id) == wanted:
                return acks
        return None

    def unstaged_acks(self) -> list[PendingAcks]:
        return list(self._acks)

    def staged_acks(self, acks: PendingAcks) -> None:
        """The messages are staged: the transaction has taken over their leases."""
        self._acks.remove(acks)
        for lease, mask in acks.masks.items():
            lease.taken_over(lease, mask)

    def unstaged(self) -> list[PendingBatch]:
        """Batches to stage, in the order of adding."""
        return [batch for batch in self._batches if batch.records]

    def staged(self, batch: PendingBatch) -> None:
        """The batch is staged: its records are not needed here any more."""
        self.size_bytes -= batch.size_bytes
        batch.records = []

    def shown(self, partition: Partition, batches: Iterable[StagedBatch]) -> None:
        """Takes over the offsets of the batches that are visible in a partition, from this process and others."""
        offsets = {(shown.producer_id, shown.producer_sequence): shown.base_offset for shown in batches}
        for batch in self._batches:
            if batch.partition == partition:
                batch.base_offset = offsets.get((self.producer_id, batch.sequence), -1)

    def receipts(self) -> list[Receipt]:
        """One per record, in the order of adding. Raises TransactionEndedError while it is not committed."""
        for batch in self._batches:
            if batch.base_offset < 0:
                raise TransactionEndedError("the transaction was not committed here, so its records have no offsets")
        return [
            Receipt(number, batch.base_offset + place, topic=topic, topic_id=self.topic_ids.get(topic, 0))
            for batch, place in self._places
            for topic, number in (batch.partition,)
        ]


def choose_partition(record: Record, chosen: int | None, topic: TopicInfo, unkeyed: int) -> int:
    """The chosen partition, that of the key, or the one for records without a key."""
    count = len(topic.partitions)
    if chosen is not None:
        if not 0 <= chosen < count:
            raise InvalidArgumentError(f"there is no partition {chosen}, only {count} of them")
        return chosen
    return unkeyed % count if record.key is None else partition_of(record.key, topic.key_partitions or count)
