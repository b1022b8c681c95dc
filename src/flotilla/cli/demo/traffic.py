"""The producer and the reader of the demo: numbered messages at a steady rate, and all of them read back.

Each partition has its own sender, so that one without a leader does not block the others, and the time to its next
acknowledgement can be measured.
"""

import asyncio
import time
from dataclasses import dataclass

from flotilla.cli.demo.ledger import Ledger, Place
from flotilla.client.async_client import AsyncClient
from flotilla.client.producer.aio import AsyncDelivery, AsyncProducer
from flotilla.types.errors import FlotillaError

_SEND_EVERY_S = 0.01
_POLL_MS = 200
#: Of one partition; enough for many seconds without a leader.
_IN_FLIGHT_MAX = 20_000


@dataclass(slots=True)
class Outage:
    """One partition after a failure: when it began, and when the first later message was acknowledged."""

    began: float
    ended: float | None = None


class Traffic:
    def __init__(self, client: AsyncClient, topic: str, partitions: int, rate: float, ledger: Ledger) -> None:
        """`rate` is in messages a second, of all partitions together."""
        self.ledger = ledger
        self._client = client
        self._topic = topic
        self._partitions = range(partitions)
        self._rate = rate / partitions
        self._is_stopping = False
        self._senders: list[asyncio.Task[None]] = []
        self._reader: asyncio.Task[None] | None = None
        #: By partition that lost its leader.
        self.outages: dict[int, Outage] = {}

    def start(self) -> None:
        # Batches fill while others are in flight, so sending one record at a time is enough.
        producer = self._client.producer(self._topic, linger_ms=2)
        self._senders = [asyncio.create_task(self._send(producer, partition)) for partition in self._partitions]
        self._reader = asyncio.create_task(self._read())

    def mark_failure(self, partitions: list[int], when: float) -> None:
        """Starts measuring the time to the next acknowledgement of these partitions."""
        self.outages = {partition: Outage(when) for partition in partitions}

    @property
    def has_recovered(self) -> bool:
        return all(outage.ended is not None for outage in self.outages.values())

    @property
    def gaps_s(self) -> dict[int, float]:
        """The length of each outage that is over."""
        return {
            partition: outage.ended - outage.began
            for partition, outage in self.outages.items()
            if outage.ended is not None
        }

    def check(self) -> None:
        """Raises the error that ended a sender or the reader."""
        for task in (*self._senders, self._reader):
            if task is not None and task.done() and not task.cancelled():
                task.result()

    async def finish_sending(self) -> None:
        """Stops sending and waits for every receipt."""
        self._is_stopping = True
        await asyncio.gather(*self._senders)

    async def finish_reading(self, timeout_s: float) -> None:
        """Waits until every acknowledged message is read, then a little longer for duplicates."""
        assert self._reader is not None
        deadline = time.monotonic() + timeout_s
        while self.ledger.lost and time.monotonic() < deadline:
            self.check()
            await asyncio.sleep(_SEND_EVERY_S)
        await asyncio.sleep(2 * _POLL_MS / 1000)
        await self.close()

    async def close(self) -> None:
        tasks = [task for task in (*self._senders, self._reader) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, producer: AsyncProducer, partition: int) -> None:
        deliveries: asyncio.Queue[tuple[int, float, AsyncDelivery] | None] = asyncio.Queue(_IN_FLIGHT_MAX)
        taking = asyncio.create_task(self._take_receipts(partition, deliveries))
        try:
            started = time.monotonic()
            count = 0
            while not self._is_stopping:
                while count < (time.monotonic() - started) * self._rate:
                    number = self.ledger.next_number()
                    sent_at = time.monotonic()
                    delivery = await producer.send(b"%d" % number, partition=partition)
                    await deliveries.put((number, sent_at, delivery))
                    count += 1
                await asyncio.sleep(_SEND_EVERY_S)
            await deliveries.put(None)
            await taking
        finally:
            taking.cancel()

    async def _take_receipts(
        self, partition: int, deliveries: "asyncio.Queue[tuple[int, float, AsyncDelivery] | None]"
    ) -> None:
        while (sent := await deliveries.get()) is not None:
            number, sent_at, delivery = sent
            try:
                receipt = await delivery
            except FlotillaError as error:
                self.ledger.note_failed(number, f"{error.code}: {error}")
                continue
            self.ledger.note_acknowledged(number, Place(receipt.partition, receipt.offset))
            outage = self.outages.get(partition)
            if outage is not None and outage.ended is None and sent_at > outage.began:
                outage.ended = time.monotonic()

    async def _read(self) -> None:
        async with self._client.reader(self._topic, offset=0) as consumer:
            while True:
                for message in await consumer.poll(5_000, wait_ms=_POLL_MS):
                    self.ledger.note_read(int(message.payload), Place(message.partition, message.offset))
