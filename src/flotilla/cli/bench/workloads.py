"""Workloads through the public client, each timed on one topic.

They know a client and a topic, not the brokers, so `flotilla bench` and the repository's benchmark measure the same.
Payloads carry only the time of sending. A record counts when the client has its receipt: a majority has it on disk.
"""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from statistics import quantiles
from time import perf_counter
from typing import TypeAlias

import uvloop

from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.types.errors import UnavailableError

_POLL_MESSAGES = 10_000
#: Longer than a healthy broker delays a reader.
_SILENCE_MS = 10_000
_SEND_EVERY_S = 0.001
_SENT_AT = struct.Struct("<d")

#: Reads a number of messages of a topic from an offset, and returns the latency of each.
Reader: TypeAlias = Callable[[AsyncClient, str, int, int], Coroutine[None, None, list[float]]]


def cuts(durations: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    found = quantiles(durations, n=100)
    return found[49], found[98]


def produce_one_by_one(client: Client, topic: str, payload: bytes, count: int) -> list[float]:
    """Seconds until each receipt, with one record in flight."""
    durations = []
    for _ in range(count):
        started = perf_counter()
        client.produce(topic, payload)
        durations.append(perf_counter() - started)
    return durations


def produce_pipelined(client: Client, topic: str, payload: bytes, count: int) -> float:
    """Records a second through `Producer.send`, with a receipt for each."""
    with client.producer(topic) as producer:
        started = perf_counter()
        sent = [producer.send(payload) for _ in range(count)]
        producer.flush()
        for delivery in sent:
            delivery.result()
        return count / (perf_counter() - started)


def produce_in_bulk(client: Client, topic: str, payload: bytes, count: int) -> float:
    """Records a second through `Client.produce_many`."""
    payloads = [payload] * count
    started = perf_counter()
    receipts = client.produce_many(topic, payloads)
    elapsed_s = perf_counter() - started
    assert len(receipts) == count
    return count / elapsed_s


def replay(client: Client, topic: str, count: int) -> float:
    """Messages a second of a reader from the oldest message."""
    with client.reader(topic, offset="earliest") as consumer:
        read = 0
        started = perf_counter()
        while read < count:
            messages = consumer.poll(_POLL_MESSAGES, wait_ms=_SILENCE_MS)
            if not messages:
                raise UnavailableError(f"only {read} of {count} messages can be read back")
            read += len(messages)
        return read / (perf_counter() - started)


def end_to_end(servers: list[str], topic: str, payload_bytes: int, rate: int, count: int) -> list[float]:
    """Seconds from sending to reading, for each of `count` messages at a rate."""
    return _paced(servers, topic, payload_bytes, rate, count, _read)


def produce_to_push(servers: list[str], topic: str, payload_bytes: int, rate: int, count: int) -> list[float]:
    """As `end_to_end`, to a member of a queue group that leases and acknowledges each message."""
    return _paced(servers, topic, payload_bytes, rate, count, _work_off)


def _paced(servers: list[str], topic: str, payload_bytes: int, rate: int, count: int, reader: Reader) -> list[float]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_send_and_read(servers, topic, payload_bytes, rate, count, reader))


async def _send_and_read(
    servers: list[str], topic: str, payload_bytes: int, rate: int, count: int, reader: Reader
) -> list[float]:
    async with AsyncClient(servers) as client:
        end = await client.find_offset(topic, 0, "latest")
        # A task group would wrap the error.
        reading = asyncio.create_task(reader(client, topic, end, count))
        try:
            await _send(client, topic, payload_bytes, rate, count)
            return await reading
        finally:
            reading.cancel()


async def _send(client: AsyncClient, topic: str, payload_bytes: int, rate: int, count: int) -> None:
    padding = bytes(max(payload_bytes - _SENT_AT.size, 0))
    async with client.producer(topic, linger_ms=0) as producer:
        started = perf_counter()
        sent = 0
        while sent < count:
            while sent < count and sent <= (perf_counter() - started) * rate:
                # The due time, so that a delayed sender does not hide the latency.
                await producer.send(_SENT_AT.pack(started + sent / rate) + padding, partition=0)
                sent += 1
            await asyncio.sleep(_SEND_EVERY_S)


async def _read(client: AsyncClient, topic: str, start: int, count: int) -> list[float]:
    durations: list[float] = []
    async with client.reader(topic, offset=start, partitions=[0]) as consumer:
        while len(durations) < count:
            messages = await consumer.poll(_POLL_MESSAGES, wait_ms=_SILENCE_MS)
            if not messages:
                raise UnavailableError(f"only {len(durations)} of {count} messages arrived")
            now = perf_counter()
            durations += [now - _SENT_AT.unpack_from(message.payload)[0] for message in messages]
    return durations


async def _work_off(client: AsyncClient, topic: str, start: int, count: int) -> list[float]:
    durations: list[float] = []
    async with client.queue(topic, group="workers", start=start) as consumer:
        async for message in consumer:
            durations.append(perf_counter() - _SENT_AT.unpack_from(message.payload)[0])
            await message.ack(wait=False)
            if len(durations) == count:
                break
        await consumer.flush()
    return durations
