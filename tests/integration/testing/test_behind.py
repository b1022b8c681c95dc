"""Consumers know how many messages are behind, from the answers that they get anyway."""

import asyncio

import pytest

from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually

TOPIC = "jobs"


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def test_a_queue_consumer_counts_what_its_group_has_not_settled(client):
    client.create_topic(TOPIC, partitions=2)
    for partition in (0, 1):
        client.produce_many(TOPIC, [b""] * 5, partition=partition)
    with client.queue(TOPIC, "g") as queue:
        assert queue.behind is None
        found = queue.poll(4)
        assert queue.behind == 10, "messages in hand are not settled"
        queue.ack(found)
        queue.poll(1)
        assert queue.behind == 6
        client.produce_many(TOPIC, [b""] * 3)
        queue.poll(1)
        assert queue.behind == 9
    assert client.describe_group(TOPIC, "g").lag == 9


def test_a_poll_that_finds_nothing_tells_it_too(client):
    client.produce(TOPIC, b"")
    with client.queue(TOPIC, "g") as one, client.queue(TOPIC, "g") as other:
        assert one.poll()
        assert other.poll(wait_ms=0) == []
        assert other.behind == 1


def test_a_reader_counts_what_is_after_its_position(client):
    client.produce_many(TOPIC, [b""] * 10)
    with client.reader(TOPIC) as reader:
        assert reader.behind is None
        assert len(reader.poll(4)) == 4
        assert reader.behind == 6
        assert len(reader.poll()) == 6
        assert reader.behind == 0
        client.produce_many(TOPIC, [b""] * 2)
        assert len(reader.poll(1, wait_ms=60_000)) == 1
        assert reader.behind == 1


def test_a_stream_consumer_counts_its_own_partitions(client):
    client.produce_many(TOPIC, [b""] * 10)
    with client.stream(TOPIC, "s") as stream:
        assert stream.behind is None
        assert len(stream.poll(4, wait_ms=60_000)) == 4
        assert stream.behind == 6
        assert stream.lag() == {0: 6}


def test_coroutines_know_it_too(broker, client):
    client.produce_many(TOPIC, [b""] * 3)

    async def take():
        async with (
            broker.async_client() as here,
            here.queue(TOPIC, "g") as queue,
            here.reader(TOPIC) as reader,
            here.stream(TOPIC, "s") as stream,
        ):
            await queue.poll(1)
            await reader.poll(1)
            await stream.poll(1, wait_ms=60_000)
            return queue.behind, reader.behind, stream.behind

    assert asyncio.run(take()) == (3, 2, 2)


def test_a_filter_leaves_nothing_behind_for_a_reader(client):
    client.produce_many(TOPIC, [b""] * 3)
    with client.reader(TOPIC, types=["mail"]) as reader:
        eventually(lambda: (reader.poll(wait_ms=1), reader.behind)[1] == 0)
