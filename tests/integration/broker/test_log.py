"""What is written can be read, again and from anywhere, and a topic is what its name says it is."""

import asyncio
from pathlib import Path

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.types.errors import AlreadyExistsError, NotFoundError, OffsetOutOfRangeError
from tests.integration.broker.cluster import BrokerCluster, run, wait_for, wait_until
from tests.integration.broker.ledger import Traffic, read_all

pytestmark = pytest.mark.slow


def test_records_come_back_as_they_were_sent(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("letters", partitions=3)
        receipts = [
            await client.produce("letters", b"payload %d" % number, key=b"key", headers=[("n", b"%d" % number)])
            for number in range(20)
        ]
        # One key is one partition, whose offsets are dense.
        assert [receipt.offset for receipt in receipts] == list(range(20))
        messages = await read_all(client, "letters")
        assert {message.partition for message in messages} == {receipts[0].partition}
        assert [(message.payload, message.key, message.headers) for message in messages] == [
            (b"payload %d" % number, b"key", (("n", b"%d" % number),)) for number in range(20)
        ]

    run(cluster, scenario)


def test_many_producers_and_a_reader_that_follows_them(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("stream", partitions=3)
        seen: dict[tuple[int, int], bytes] = {}

        async def follow() -> None:
            async with client.reader("stream", offset="earliest") as consumer:
                async for message in consumer:
                    assert (message.partition, message.offset) not in seen
                    seen[message.partition, message.offset] = message.payload

        following = asyncio.create_task(follow())
        async with Traffic(cluster.addresses, "stream", partitions=3) as traffic:
            await traffic.wait_acks(150)
        ledger = traffic.ledger
        assert not ledger.refused
        assert not ledger.unsure
        await wait_until(lambda: len(seen), "a reader that caught up", is_enough=len(ledger.acked).__eq__)
        following.cancel()
        assert seen == ledger.acked
        await ledger.check_every_replica(cluster, client)

    run(cluster, scenario)


def test_replay_and_seek(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("history", partitions=1)
        for number in range(10):
            await client.produce("history", b"%d" % number, timestamp_ms=1_000_000 + 1_000 * number)
        async with client.reader("history", offset="earliest") as consumer:

            async def take(count: int) -> list[bytes]:
                messages: list[bytes] = []
                while len(messages) < count:
                    messages += [message.payload for message in await consumer.poll(count - len(messages))]
                return messages

            assert await take(10) == [b"%d" % number for number in range(10)]
            await consumer.seek(4)
            assert await take(2) == [b"4", b"5"]
            await consumer.seek(timestamp_ms=1_006_500)
            assert await take(3) == [b"7", b"8", b"9"]
            await consumer.seek("earliest")
            assert await take(10) == [b"%d" % number for number in range(10)]
            await consumer.seek("latest")
            assert await consumer.poll(wait_ms=50) == []
            await client.produce("history", b"news")
            assert await take(1) == [b"news"]
            await consumer.seek(999)
            with pytest.raises(OffsetOutOfRangeError):
                await take(1)
        assert await client.find_offset("history", 0, timestamp_ms=1_003_000) == 3
        assert await client.find_offset("history", 0, timestamp_ms=2**45) == -1

    run(cluster, scenario)


def test_a_group_goes_on_where_it_committed_and_never_moves_back_by_itself(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("work", partitions=1)
        await client.produce_many("work", [b"%d" % number for number in range(10)])
        async with client.reader("work", group="billing") as consumer:
            assert await consumer.committed() == {0: None}
            assert len(await consumer.poll(6)) == 6
            assert await consumer.commit() == {0: 6}
        assert await client.commit_offset("work", "billing", 0, 2) == 6

        # The position is replicated: it outlives the node that took it.
        leader = await cluster.leader("work")
        await leader.kill()
        async with client.reader("work", group="billing") as consumer:
            assert [message.payload for message in await consumer.poll(10)] == [b"6", b"7", b"8", b"9"]
        assert await client.committed_offset("work", "billing", 0) == 6
        assert await client.commit_offset("work", "billing", 0, 2, reset=True) == 2
        leader.start()

    run(cluster, scenario)


def test_a_deleted_topic_is_gone_and_its_name_is_free(cluster: BrokerCluster) -> None:
    mark = b"to be deleted"

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        first = await client.create_topic("fleeting", partitions=2)
        # Several journal files' worth, so that there are segments.
        for _ in range(8):
            await client.produce_many("fleeting", [mark * 200] * 300)
        await wait_until(lambda: all(segments_with(mark, cluster[node].data) for node in cluster.running), "segments")
        with pytest.raises(AlreadyExistsError):
            await client.create_topic("fleeting")
        await client.delete_topic("fleeting")
        await wait_until_gone(client, "fleeting")
        await wait_until(
            lambda: not any(segments_with(mark, cluster[node].data) for node in cluster.running), "empty disks"
        )

        second = await client.create_topic("fleeting", partitions=1)
        assert second.topic_id != first.topic_id
        receipt = await client.produce("fleeting", b"new", partition=0)
        assert receipt.offset == 0
        assert [message.payload for message in await read_all(client, "fleeting")] == [b"new"]

    run(cluster, scenario)


async def wait_until_gone(client: AsyncClient, topic: str) -> None:
    """A broker may be a moment behind the one that deleted it."""
    await wait_for(client.topics, "its absence", is_enough=lambda topics: topic not in [each.name for each in topics])


def segments_with(mark: bytes, data: Path) -> list[Path]:
    found = []
    for path in (data / "groups").rglob("*"):
        try:
            if path.is_file() and mark in path.read_bytes():
                found.append(path)
        except FileNotFoundError:
            # Removed since it was listed.
            continue
    return found


def test_a_topic_is_created_by_the_first_produce(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        names = [f"sudden-{number}" for number in range(5)]
        # Many at once, by two clients that know nothing of each other: each topic is made once.
        async with cluster.client() as other:
            receipts = await asyncio.gather(*(one.produce(name, b"x") for one in (client, other) for name in names))
        assert sorted(receipt.offset for receipt in receipts) == [0] * 5 + [1] * 5
        topic = await client.describe_topic(names[0])
        assert len(topic.partitions[0].replicas) == 3
        # Reading does not make a topic.
        with pytest.raises(NotFoundError):
            await read_all(client, "never")

    run(cluster, scenario)


def test_leaders_are_spread(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("spread", partitions=6)

        def is_even(leaders: dict[int, int]) -> bool:
            return sorted(leaders.values()) == [1, 1, 2, 2, 3, 3]

        await wait_for(lambda: cluster.leaders("spread"), "two partitions for each", is_enough=is_even)

    run(cluster, scenario)
