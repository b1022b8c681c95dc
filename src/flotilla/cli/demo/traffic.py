"""The demo's producer and reader: numbered messages at a steady rate to every partition, and all of them read back.

Each partition has its own sender, so that one without a leader does not hold up the others, and the time to its next
acknowledgement can be measured.
"""

import asyncio
import time
from dataclasses import dataclass

from flotilla.cli.demo.ledger import Ledger, Place
from flotilla.client.async_client import AsyncClient
from flotilla.client.producer.aio import AsyncDelivery, AsyncProducer
from flotilla.types.errors import FlotillaError

#: How often a sender sends what is due.
_TURN_S = 0.01
_POLL_MS = 200
#: Messages of one partition that are under way at most; enough for many seconds without a leader.
_UNANSWERED_MAX = 20_000


@dataclass(slots=True)
class Stretch:
    """One partition after a failure: when it began, and when the first message sent after that was acknowledged."""

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
        #: Partitions that lost their leader and what became of it.
        self.stretches: dict[int, Stretch] = {}

    def start(self) -> None:
        # One at a time per turn of the loop is enough: batches gather by themselves while others are under way.
        producer = self._client.producer(self._topic, linger_ms=2)
        self._senders = [asyncio.create_task(self._send(producer, partition)) for partition in self._partitions]
        self._reader = asyncio.create_task(self._read())

    def mark_failure(self, partitions: list[int], when: float) -> None:
        """From now on the next acknowledgements of these partitions are waited for."""
        self.stretches = {partition: Stretch(when) for partition in partitions}

    @property
    def has_recovered(self) -> bool:
        return all(stretch.ended is not None for stretch in self.stretches.values())

    @property
    def gaps_s(self) -> dict[int, float]:
        """For each marked partition that came back: how long that took."""
        return {
            partition: stretch.ended - stretch.began
            for partition, stretch in self.stretches.items()
            if stretch.ended is not None
        }

    def check(self) -> None:
        """Raises what ended a part of the traffic that should go on."""
        for task in (*self._senders, self._reader):
            if task is not None and task.done() and not task.cancelled():
                task.result()

    async def finish_sending(self) -> None:
        """Sends no more and waits for every answer."""
        self._is_stopping = True
        await asyncio.gather(*self._senders)

    async def finish_reading(self, timeout_s: float) -> None:
        """Waits until everything that was acknowledged has been read, then a little for what should not come."""
        assert self._reader is not None
        deadline = time.monotonic() + timeout_s
        while self.ledger.lost and time.monotonic() < deadline:
            self.check()
            await asyncio.sleep(_TURN_S)
        await asyncio.sleep(2 * _POLL_MS / 1000)
        await self.close()

    async def close(self) -> None:
        tasks = [task for task in (*self._senders, self._reader) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, producer: AsyncProducer, partition: int) -> None:
        answers: asyncio.Queue[tuple[int, float, AsyncDelivery] | None] = asyncio.Queue(_UNANSWERED_MAX)
        answering = asyncio.create_task(self._take_answers(partition, answers))
        try:
            started = time.monotonic()
            count = 0
            while not self._is_stopping:
                while count < (time.monotonic() - started) * self._rate:
                    number = self.ledger.next_number()
                    sent_at = time.monotonic()
                    delivery = await producer.send(b"%d" % number, partition=partition)
                    await answers.put((number, sent_at, delivery))
                    count += 1
                await asyncio.sleep(_TURN_S)
            await answers.put(None)
            await answering
        finally:
            answering.cancel()

    async def _take_answers(
        self, partition: int, answers: "asyncio.Queue[tuple[int, float, AsyncDelivery] | None]"
    ) -> None:
        while (sent := await answers.get()) is not None:
            number, sent_at, delivery = sent
            try:
                receipt = await delivery
            except FlotillaError as error:
                self.ledger.note_failed(number, f"{error.code}: {error}")
                continue
            self.ledger.note_acknowledged(number, Place(receipt.partition, receipt.offset))
            stretch = self.stretches.get(partition)
            if stretch is not None and stretch.ended is None and sent_at > stretch.began:
                stretch.ended = time.monotonic()

    async def _read(self) -> None:
        async with self._client.reader(self._topic, offset=0) as consumer:
            while True:
                for message in await consumer.poll(5_000, wait_ms=_POLL_MS):
                    self.ledger.note_read(int(message.payload), Place(message.partition, message.offset))
