"""A cancellation at any await leaves a client that works, and nothing lost, doubled or hidden."""

import asyncio

import pytest

from flotilla.testing import LocalBroker
from tests.integration.testing.cancellations import Cancelled
from tests.integration.testing.test_interrupts import check

LIMIT_MS = 10_000


@pytest.fixture(scope="module")
def broker():
    with LocalBroker() as broker:
        yield broker


def run(broker, scene):
    async def play():
        async with broker.async_client() as client:
            await asyncio.wait_for(scene(client), 60)

    asyncio.run(play())


async def stored(client, topic):
    end = await client.find_offset(topic, 0, "latest")
    found = []
    async with client.reader(topic, offset="earliest") as reader:
        while len(found) < end:
            found += [message.payload for message in await reader.poll(wait_ms=LIMIT_MS)]
    return found


@pytest.mark.parametrize("is_lone", [True, False])
def test_produce(broker, is_lone):
    topic = f"produce-{is_lone}"

    async def scene(client):
        await client.create_topic(topic, partitions=1)
        tries = Cancelled()
        sure, unsure = [], []
        while tries.again():
            unsure.append(b"x-%d" % tries.place)
            if is_lone:
                await tries.run(client.produce(topic, unsure[-1]))
            else:
                unsure.append(b"y-%d" % tries.place)
                await tries.run(client.produce_many(topic, unsure[-2:]))
            sure.append(b"probe-%d" % tries.place)
            await client.produce(topic, sure[-1], timeout_ms=LIMIT_MS)
        check(await stored(client, topic), sure, unsure)
        assert client._own_producers[topic]._buffer.used_bytes == 0

    run(broker, scene)


def test_send_while_the_buffer_is_full(broker):
    async def scene(client):
        await client.create_topic("send", partitions=1)
        tries = Cancelled()
        sure, unsure = [], []
        async with client.producer("send", buffer_bytes_max=4_096, linger_ms=5) as producer:
            while tries.again():
                waiting = []
                for number in range(4):
                    sure.append(b"%d-%d-" % (tries.place, number) + bytes(950))
                    waiting.append(await producer.send(sure[-1]))
                unsure.append(b"x-%d" % tries.place + bytes(950))
                await tries.run(producer.send(unsure[-1]))
                sure.append(b"probe-%d" % tries.place)
                await asyncio.wait_for(await producer.send(sure[-1]), LIMIT_MS / 1000)
                await asyncio.gather(*waiting)
            await producer.flush(timeout_ms=LIMIT_MS)
            assert producer._buffer.used_bytes == 0
        check(await stored(client, "send"), sure, unsure)

    run(broker, scene)


def test_poll_and_ack(broker):
    async def scene(client):
        await client.create_topic("queue", partitions=1)
        expected, got = [], []
        async with client.queue("queue", group="g", visibility_ms=600_000) as consumer:
            for call in ("poll", "ack", "extend"):
                tries = Cancelled()
                while tries.again():
                    expected.append(b"%s-%d" % (call.encode(), tries.place))
                    await client.produce("queue", expected[-1])
                    if call == "poll":
                        found = await tries.run(consumer.poll(wait_ms=LIMIT_MS))
                        found = found or await consumer.poll(wait_ms=LIMIT_MS)
                    else:
                        found = await consumer.poll(wait_ms=LIMIT_MS)
                    assert [message.attempt for message in found] == [1]
                    if call == "ack":
                        await tries.run(found[0].ack())
                    elif call == "extend":
                        await tries.run(found[0].extend(1_000_000))
                    await found[0].ack()
                    got.append(found[0].payload)
        assert got == expected
        info = await client.describe_group("queue", "g")
        assert (info.acked_total, info.failed_total, info.leased) == (len(expected), 0, 0)

    run(broker, scene)


def test_stream_poll_and_commit(broker):
    async def scene(client):
        await client.create_topic("stream", partitions=1)
        expected, got = [], []
        async with client.stream("stream", group="g", auto_commit_ms=None) as consumer:
            for call in ("poll", "commit"):
                tries = Cancelled()
                while tries.again():
                    expected.append(b"%s-%d" % (call.encode(), tries.place))
                    await client.produce("stream", expected[-1])
                    found = []
                    if call == "poll":
                        found = await tries.run(consumer.poll(wait_ms=LIMIT_MS)) or []
                    while not found:
                        found = await consumer.poll(wait_ms=LIMIT_MS)
                    got += [message.payload for message in found]
                    if call == "commit":
                        await tries.run(consumer.commit())
                        await consumer.commit()
                        assert await client.committed_offset("stream", "g", 0) == len(expected)
        assert got == expected

    run(broker, scene)


def test_then(broker):
    """Whatever the await: the message is acknowledged and its follower stored, or the message comes back uncounted."""

    async def scene(client):
        for topic in ("steps", "following"):
            await client.create_topic(topic, partitions=1)
        tries = Cancelled()
        expected = []
        async with client.queue("steps", group="g", visibility_ms=600_000) as consumer:
            while tries.again():
                expected.append(b"%d" % tries.place)
                await client.produce("steps", expected[-1])
                found = [await anext(consumer)]
                await tries.run(found[0].then("following", expected[-1]))
                while (await client.describe_group("steps", "g")).lag:
                    found = found if not found[0].is_settled else await consumer.poll(1, wait_ms=LIMIT_MS)
                    for message in found:
                        assert message.attempt == 1
                        await message.then("following", message.payload)
        assert await stored(client, "following") == expected
        assert (await client.describe_group("steps", "g")).failed_total == 0
        assert tries.place > 3

    run(broker, scene)
