"""The ledger of acknowledged records, and its check against the log.

A payload names its producer, its partition and its number, so that each record read back shows by itself whether it was
sent, whether it is there twice, and whether it stands in its place. Traffic keeps many records in flight for as long as
a test runs and writes the ledger; the check reads everything back.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from types import TracebackType
from typing import NamedTuple

from flotilla.client.async_client import AsyncClient
from flotilla.client.producer.aio import AsyncDelivery, AsyncProducer
from flotilla.client.reader.message import Message
from flotilla.types.errors import FlotillaError, NotFoundError, OutcomeUnknownError
from flotilla.types.ids import Offset
from tests.integration.broker.cluster import WAIT_S_MAX, BrokerCluster, wait_until

#: Distinguishes the producers of one topic.
_NUMBERS = count()


class Sent(NamedTuple):
    delivery: AsyncDelivery
    payload: bytes
    sent_s: float


class Ack(NamedTuple):
    """One acknowledged record, in seconds of the monotonic clock."""

    sent_s: float
    acked_s: float


@dataclass(slots=True)
class Ledger:
    """The ledger of one topic."""

    topic: str
    #: Partition and offset to the payload that was acknowledged there.
    acked: dict[tuple[int, Offset], bytes] = field(default_factory=dict)
    acks: dict[int, list[Ack]] = field(default_factory=dict)
    #: Sent, and neither acknowledged nor refused: these may be stored or not.
    unsure: dict[bytes, None] = field(default_factory=dict)
    #: Certainly not stored.
    refused: dict[bytes, FlotillaError] = field(default_factory=dict)

    def note_sent(self, payload: bytes) -> None:
        assert payload not in self.unsure
        self.unsure[payload] = None

    def note_acked(self, payload: bytes, partition: int, offset: Offset, sent_s: float) -> None:
        assert (partition, offset) not in self.acked, "two records were promised one place"
        del self.unsure[payload]
        self.acked[partition, offset] = payload
        self.acks.setdefault(partition, []).append(Ack(sent_s, monotonic()))

    def note_failed(self, payload: bytes, error: FlotillaError) -> None:
        if not isinstance(error, OutcomeUnknownError):
            del self.unsure[payload]
            self.refused[payload] = error

    def first_ack_after(self, moment_s: float, partition: int) -> float | None:
        """How long after a moment a record that was sent later was acknowledged; None: not yet."""
        later = [ack.acked_s for ack in self.acks.get(partition, []) if ack.sent_s >= moment_s]
        return min(later) - moment_s if later else None

    def longest_wait_s(self, since_s: float = 0.0) -> float:
        """The longest that any record waited for its acknowledgement."""
        return max(ack.acked_s - ack.sent_s for acks in self.acks.values() for ack in acks if ack.sent_s >= since_s)

    async def check(self, client: AsyncClient) -> None:
        """Reads everything back and compares."""
        self.judge(await read_all(client, self.topic))

    def judge(self, messages: list[Message]) -> None:
        """What was promised is in its place and in its order, and nothing is twice or comes from nowhere."""
        stored = {(message.partition, message.offset): message.payload for message in messages}
        for place, payload in self.acked.items():
            assert stored.get(place) == payload, f"{payload!r} was acknowledged at {place}: {stored.get(place)!r}"
        twice = [payload for payload, times in Counter(stored.values()).items() if times > 1]
        assert not twice, f"stored more than once: {twice[:5]}"
        sent = {*self.acked.values(), *self.unsure}
        unexpected = [payload for payload in stored.values() if payload not in sent]
        assert not unexpected, f"never sent, or refused and stored all the same: {unexpected[:5]}"
        _check_order(messages)

    async def check_every_replica(self, cluster: BrokerCluster, client: AsyncClient) -> None:
        """The same, with each replica of each partition in the lead once: each replica has all of it."""
        topic = await client.describe_topic(self.topic)
        for turn in range(len(topic.partitions[0].replicas)):
            for partition in topic.partitions:
                await cluster.lead(client, self.topic, partition.number, partition.replicas[turn])
            await self.check(client)


def _check_order(messages: list[Message]) -> None:
    """In each partition a producer's records stand in the order in which they were sent, and offsets are dense."""
    newest: dict[tuple[int, bytes], int] = {}
    offsets: dict[int, Offset] = {}
    for message in messages:
        expected = offsets.get(message.partition, 0)
        assert message.offset == expected, f"offset {expected} of partition {message.partition} is missing"
        offsets[message.partition] = message.offset + 1
        producer, _, number = message.payload.partition(b" ")[0].rpartition(b"/")
        lane = (message.partition, producer)
        assert int(number) > newest.get(lane, -1), f"{message.payload!r} stands behind a later one"
        newest[lane] = int(number)


async def read_all(client: AsyncClient, topic: str, *, seconds: float = WAIT_S_MAX) -> list[Message]:
    """Everything that is stored now. It needs no quorum of the metadata."""
    topics = (await client.admin.metadata([topic])).topics
    if not topics:
        raise NotFoundError(f"there is no topic {topic!r}")
    partitions = [partition.number for partition in topics[0].partitions]
    ends = {number: await client.find_offset(topic, number, "latest") for number in partitions}
    messages: list[Message] = []
    async with asyncio.timeout(seconds), client.reader(topic, offset="earliest") as consumer:
        while any(position < ends[number] for number, position in (await consumer.positions()).items()):
            messages += await consumer.poll(10_000)
    return messages


class Traffic:
    """Producers at work in the background, each with records in flight to every partition."""

    def __init__(
        self,
        addresses: list[str],
        topic: str,
        *,
        partitions: int = 1,
        producers: int = 2,
        pause_s: float = 0.004,
        padding_bytes: int = 100,
        in_flight_max: int = 1_000,
        timeout_ms: int = 30_000,
        ledger: Ledger | None = None,
    ) -> None:
        """Every producer has a client of its own, and sends to each partition once in `pause_s`."""
        self.ledger = ledger or Ledger(topic)
        self._addresses = addresses
        self._partitions = partitions
        self._producer_count = producers
        self._pause_s = pause_s
        self._padding = b" " + b"x" * padding_bytes
        self._in_flight_max = in_flight_max
        self._timeout_ms = timeout_ms
        self._number = next(_NUMBERS)
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Traffic":
        self._tasks = [asyncio.create_task(self._produce(number)) for number in range(self._producer_count)]
        try:
            await self.wait_acks(20)
        except BaseException:
            await self._give_up()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sends no more, and waits until everything has its answer."""
        if kind is not None:
            await self._give_up()
            return
        self._is_stopping = True
        await asyncio.gather(*self._tasks)

    async def _give_up(self) -> None:
        """The test has failed: the answers are not needed any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_acks(self, more: int, seconds: float = WAIT_S_MAX) -> None:
        """So many more records to every partition are sent from now on and acknowledged."""
        now_s = monotonic()

        def is_reached() -> bool:
            self._raise_failure()
            acks = self.ledger.acks
            return all(
                sum(1 for ack in reversed(acks.get(number, [])[-10 * more :]) if ack.sent_s >= now_s) >= more
                for number in range(self._partitions)
            )

        await wait_until(is_reached, f"{more} acknowledgements in every partition", seconds)

    async def wait_failover(self, since_s: float, partition: int = 0) -> float:
        """The time from a moment to the first acknowledgement of a record that was sent after it."""

        def passed() -> float | None:
            self._raise_failure()
            return self.ledger.first_ack_after(since_s, partition)

        found = await wait_until(passed, f"an acknowledgement in partition {partition}", is_enough=_is_known)
        assert found is not None
        return found

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done() and task.exception() is not None:
                task.result()

    async def _produce(self, number: int) -> None:
        client = AsyncClient(self._addresses, timeout_ms=self._timeout_ms)
        producer = client.producer(self.ledger.topic, linger_ms=2)
        try:
            async with asyncio.TaskGroup() as tasks:
                for partition in range(self._partitions):
                    name = b"%d.%d.%d" % (self._number, number, partition)
                    sent: asyncio.Queue[Sent | None] = asyncio.Queue(self._in_flight_max)
                    tasks.create_task(self._send(producer, name, partition, sent))
                    tasks.create_task(self._settle(sent))
        finally:
            await client.close(timeout_ms=100)

    async def _send(
        self, producer: AsyncProducer, name: bytes, partition: int, sent: "asyncio.Queue[Sent | None]"
    ) -> None:
        for number in count():
            if self._is_stopping:
                break
            payload = b"%b/%d%b" % (name, number, self._padding)
            self.ledger.note_sent(payload)
            sent_s = monotonic()
            await sent.put(Sent(await producer.send(payload, partition=partition), payload, sent_s))
            await asyncio.sleep(self._pause_s)
        await sent.put(None)

    async def _settle(self, sent: "asyncio.Queue[Sent | None]") -> None:
        while (record := await sent.get()) is not None:
            try:
                receipt = await record.delivery
            except FlotillaError as error:
                self.ledger.note_failed(record.payload, error)
            else:
                self.ledger.note_acked(record.payload, receipt.partition, receipt.offset, record.sent_s)


def _is_known(seconds: float | None) -> bool:
    return seconds is not None
