"""Records of one caller on their way through a gateway, in batches with those of others.

What is refused for the sake of somebody else's record is sent again without company: nothing of a batch that was
refused is stored.
"""

import asyncio
from typing import Final

from flotilla.client._core.asyncio_network import Network
from flotilla.client.producer.aio import AsyncDelivery, AsyncProducer
from flotilla.client.producer.options import ProducerOptions
from flotilla.client.producer.receipt import Receipt
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.records import Record

#: How long a batch of records may take; whoever has less time stops waiting before.
PRODUCE_MS: Final = 30_000
OPTIONS: Final = ProducerOptions(timeout_ms=PRODUCE_MS)


class Sent:
    """Records of one caller that are on their way."""

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
        """Where they are stored, in their order. Raises the first error."""
        try:
            return [await delivery for delivery in self._deliveries]
        except InvalidArgumentError:
            batches = dict.fromkeys(delivery.batch for delivery in self._deliveries)
            if sum([batch.count for batch in batches]) == len(self._deliveries):
                raise
        # It may have been a record of somebody else in the same batch, and nothing of that batch is stored.
        return await self._again()

    async def _again(self) -> list[Receipt]:
        """Sends what has failed without company."""
        alone = AsyncProducer(self._network, self._topic, OPTIONS, lambda closed: None)
        try:
            alone.adapt()
            for number, delivery in enumerate(self._deliveries):
                if delivery.exception() is not None:
                    record = self._records[number]
                    self._deliveries[number] = await alone.send_record(record, self._partition, PRODUCE_MS)
            return [await delivery for delivery in self._deliveries]
        finally:
            await asyncio.gather(alone.close(), return_exceptions=True)
