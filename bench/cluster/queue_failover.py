"""The pause of queue consumers when their leader is killed or hands over as planned.

A producer sends numbered records at a steady rate; two consumers of one queue group and a reader get them. The pause of
each is the longest time from the sending of a record to its arrival, over the records around the loss of a leader: so a
record that waits for the end of a grace counts, even if others pass it. A record that two deliveries brought is an
added one. The reader's pause stands beside that of the group: it shows what the change of leaders itself takes.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from bench.contest.flotilla import FlotillaContestant
from flotilla.client.async_client import AsyncClient
from flotilla.types.errors import FlotillaError

GROUP = "workers"
_CONSUMERS = 2
_POLL_MESSAGES = 64
#: Records before and after the loss that are looked at.
_BEFORE_S, _AFTER_S = 0.5, 3.5
_BETWEEN_S = 1.0
_RATE = 100


@dataclass
class Arrivals:
    """When each record arrived first, and how often."""

    first: dict[int, float] = field(default_factory=dict)
    added: int = 0

    def note(self, payload: bytes) -> None:
        number = int(payload)
        if number in self.first:
            self.added += 1
        else:
            self.first[number] = time.monotonic()


class SteadyTraffic:
    """Runs on a thread of its own, between `start` and `stop`."""

    def __init__(self, servers: list[str], topic: str, rate: int) -> None:
        self._servers = servers
        self._topic = topic
        self._rate = rate
        self.sent: dict[int, float] = {}
        self.acknowledged: dict[int, float] = {}
        self.queue = Arrivals()
        self.reader = Arrivals()
        self._is_stopping = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._thread.join()

    def pauses(self, struck: float) -> tuple[float, float, float]:
        """Of the group, of the reader and of the producer: the longest of the records around that time."""
        around = [number for number, sent in list(self.sent.items()) if -_BEFORE_S < sent - struck < _AFTER_S - 1]

        def longest(arrived: dict[int, float]) -> float:
            return max(arrived.get(number, time.monotonic()) - self.sent[number] for number in around)

        return longest(self.queue.first), longest(self.reader.first), longest(self.acknowledged)

    def wait_for_traffic(self) -> None:
        """Until a record that is sent from now on has come to the group and to the reader."""
        begun = time.monotonic()
        while not any(self.sent[number] > begun for number in self.queue.first.keys() & self.reader.first.keys()):
            if time.monotonic() > begun + 30:
                raise TimeoutError("no record arrives")
            time.sleep(0.02)

    async def _run(self) -> None:
        async with AsyncClient(self._servers) as client, AsyncClient(self._servers) as consuming:
            tasks = [asyncio.create_task(self._produce(client)), asyncio.create_task(self._read(consuming))]
            for _ in range(_CONSUMERS):
                tasks.append(asyncio.create_task(self._consume(AsyncClient(self._servers))))
            await asyncio.gather(*tasks)

    async def _produce(self, client: AsyncClient) -> None:
        pending: set[asyncio.Task[None]] = set()
        begun, number = time.monotonic(), 0
        while not self._is_stopping:
            await asyncio.sleep(max(begun + number / self._rate - time.monotonic(), 0))
            task = asyncio.create_task(self._send(client, number))
            pending.add(task)
            task.add_done_callback(pending.discard)
            number += 1
        await asyncio.gather(*pending)

    async def _send(self, client: AsyncClient, number: int) -> None:
        self.sent[number] = time.monotonic()
        await client.produce(self._topic, b"%d" % number)
        self.acknowledged[number] = time.monotonic()

    async def _consume(self, client: AsyncClient) -> None:
        async with client, client.queue(self._topic, group=GROUP) as consumer:
            while not self._is_stopping:
                with suppress(FlotillaError):
                    for message in await consumer.poll(_POLL_MESSAGES, wait_ms=200):
                        self.queue.note(message.payload)
                        await message.ack(wait=False)

    async def _read(self, client: AsyncClient) -> None:
        async with client.reader(self._topic, partitions=[0], offset=0) as reader:
            while not self._is_stopping:
                for message in await reader.poll(_POLL_MESSAGES, wait_ms=200):
                    self.reader.note(message.payload)


@dataclass
class QueuePauses:
    """(of the group, of the reader, of the producer) for each loss, in seconds."""

    hand_overs: list[tuple[float, float, float]]
    kills: list[tuple[float, float, float]]
    records: int
    added: int


def measure_queue(contestant: FlotillaContestant, count: int, rate: int = _RATE) -> QueuePauses:
    """Loses the leader `count` times in each way, with traffic all the time."""
    topic = contestant.new_topic()
    cluster = contestant.cluster
    traffic = SteadyTraffic(list(cluster.servers), topic, rate)

    def around(strike: Callable[[], None]) -> tuple[float, float, float]:
        traffic.wait_for_traffic()
        # The grace of the change before is over.
        time.sleep(_BETWEEN_S)
        struck = time.monotonic()
        strike()
        time.sleep(max(struck + _AFTER_S - time.monotonic(), 0))
        return traffic.pauses(struck)

    def kill() -> tuple[float, float, float]:
        victim = int(contestant.leader(topic))
        try:
            return around(cluster.nodes[victim].kill)
        finally:
            cluster.restart_node(victim)
            cluster.wait_ready()

    traffic.start()
    try:
        hand_overs = [around(lambda: contestant.client.admin.transfer_leadership(topic, 0)) for _ in range(count)]
        kills = [kill() for _ in range(count)]
    finally:
        traffic.stop()
    return QueuePauses(hand_overs, kills, len(traffic.acknowledged), traffic.queue.added)
