"""Records of a gateway's callers, in batches that callers share.

A record is checked against the limits of its topic before it is sent, so that one caller's record cannot fail the batch
of others. When a broker still refuses a batch as invalid, nothing of it is stored, and each caller's records are sent
again in batches of their own.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.positions import find_topic
from flotilla.client.producer.aio import AsyncDelivery, AsyncProducer
from flotilla.client.producer.options import ProducerOptions
from flotilla.client.producer.receipt import Receipt
from flotilla.gateway.long_poll_connections import LongPollConnection
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations import TopicInfo
from flotilla.types.records import Record, RecordLimits, check_record

#: For a batch. A caller with less time stops waiting before, without ending the batch.
PRODUCE_MS: Final = 30_000
_TOPIC_MS: Final = 10_000
_OPTIONS: Final = ProducerOptions(timeout_ms=PRODUCE_MS)


class PendingRecords:
    """Records of one caller that were sent."""

    __slots__ = ("_deliveries", "_network", "_partition", "_records", "_topic")

    def __init__(
        self,
        network: Network,
        topic: str,
        records: list[Record],
        partition: int | None,
        deliveries: list[AsyncDelivery],
    ) -> None:
        self._network = network
        self._topic = topic
        self._records = records
        self._partition = partition
        self._deliveries = deliveries

    @property
    def is_done(self) -> bool:
        """Whether `receipts` has nothing to wait for."""
        return all(delivery.done() for delivery in self._deliveries)

    async def receipts(self) -> list[Receipt]:
        """The receipts in the order of the records. Raises the first error."""
        try:
            return [await delivery for delivery in self._deliveries]
        except InvalidArgumentError:
            batches = dict.fromkeys(delivery.batch for delivery in self._deliveries)
            if sum([batch.count for batch in batches]) == len(self._deliveries):
                raise
        # The cause may be another caller's record in the same batch, and nothing of that batch is stored.
        return await self._send_apart()

    async def _send_apart(self) -> list[Receipt]:
        """Sends failed records again, in batches without other callers' records."""
        producer = AsyncProducer(self._network, self._topic, _OPTIONS, lambda closed: None)
        try:
            producer.adapt()
            for number, delivery in enumerate(self._deliveries):
                if delivery.exception() is not None:
                    record = self._records[number]
                    self._deliveries[number] = await producer.send_record(record, self._partition, PRODUCE_MS)
            return [await delivery for delivery in self._deliveries]
        finally:
            await asyncio.gather(producer.close(), return_exceptions=True)


class GatewayProducers:
    """One producer per topic, shared by all callers."""

    def __init__(self, connection: Callable[[], LongPollConnection], now_ms: Callable[[], int]) -> None:
        """`connection` is opened by the first record; `now_ms` is the brokers' time of day."""
        self._connection = connection
        self._now_ms = now_ms
        self._producers: dict[str, AsyncProducer] = {}
        #: The limits of each topic, and the description that they were read from.
        self._limits: dict[str, tuple[TopicInfo, RecordLimits]] = {}

    async def send(
        self, topic: str, records: Sequence[Record], partition: int | None, *, create: bool = True, owner: str = ""
    ) -> PendingRecords:
        """Raises InvalidArgumentError and NotFoundError."""
        connection = self._connection()
        connection.refresh(topic, lambda: self._refreshed(topic))
        known = connection.network.session.topic(topic)
        if known is None:
            known = await find_topic(connection.network, topic, _TOPIC_MS, create=create, owner=owner)
            self._refreshed(topic)
        stamped = self._stamped(known, records)
        producer = self._producer(topic)
        deliveries = [await producer.send_record(record, partition, PRODUCE_MS) for record in stamped]
        return PendingRecords(connection.network, topic, stamped, partition, deliveries)

    def forget(self, topic: str) -> None:
        """Drops the limits of a topic that was changed or removed."""
        self._limits.pop(topic, None)

    async def close(self) -> None:
        """Sends what is pending, as far as that is quick."""
        closing = [producer.close(timeout_ms=1_000) for producer in list(self._producers.values())]
        # The caller of a record that failed gets the error from its own call.
        await asyncio.gather(*closing, return_exceptions=True)

    def _refreshed(self, topic: str) -> None:
        """The topic may have more partitions, or be gone."""
        if topic in self._connection().network.session.routes.topics:
            producer = self._producers.get(topic)
            if producer is not None:
                producer.adapt()
        else:
            self._producers.pop(topic, None)
            self._limits.pop(topic, None)

    def _stamped(self, topic: TopicInfo, records: Sequence[Record]) -> list[Record]:
        """The checked records, with their time. Raises InvalidArgumentError."""
        limits = self._limits_of(topic)
        time_ms = self._now_ms()
        stamped = []
        for record in records:
            check_record(record, limits)
            stamped.append(record if record.timestamp_ms else record._replace(timestamp_ms=time_ms))
        return stamped

    def _limits_of(self, topic: TopicInfo) -> RecordLimits:
        known = self._limits.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        limits = RecordLimits(payload_bytes_max=topic.settings_in_force.payload_bytes_max)
        self._limits[topic.name] = (topic, limits)
        return limits

    def _producer(self, topic: str) -> AsyncProducer:
        producer = self._producers.get(topic)
        if producer is None:
            network = self._connection().network
            producer = self._producers[topic] = AsyncProducer(network, topic, _OPTIONS, self._closed)
        return producer

    def _closed(self, producer: AsyncProducer) -> None:
        if self._producers.get(producer.topic) is producer:
            del self._producers[producer.topic]
