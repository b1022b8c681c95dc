"""Queue groups on three real brokers: what a failover does to leases, attempts and dead letters, and what is freed."""

import pytest

from flotilla.client.async_client import AsyncClient
from tests.integration.broker.cluster import BrokerCluster, run, wait_for

pytestmark = pytest.mark.slow


def test_a_message_leased_through_a_failover_is_not_delivered_again(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("held", partitions=1)
        await client.produce_many("held", [b"%d" % number for number in range(20)])
        async with (
            client.queue("held", group="workers") as holder,
            client.queue("held", group="workers") as other,
        ):
            held = await holder.poll(10)
            leader = await cluster.leader("held")
            await leader.kill()
            # The rest goes to the other one; leases stay with their member, which presents them to the new leader.
            rest = []
            while len(rest) < 20 - len(held):
                rest += await other.poll(20, wait_ms=15_000)
            assert {message.offset for message in held}.isdisjoint(message.offset for message in rest)
            assert {message.attempt for message in rest} == {1}
            await holder.ack(held)
            await other.ack(rest)
            assert await other.poll(1, wait_ms=500) == []
        leader.start()
        await cluster.wait_ready(client)
        info = await client.describe_group("held", "workers")
        assert (info.lag, info.acked_total, info.failed_total) == (0, 20, 0)

    run(cluster, scenario)


def test_attempts_are_counted_across_failovers_and_the_dead_are_buried_once(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("poisoned", partitions=1, max_deliveries=3, nack_backoff_ms=10)
        await client.produce("poisoned", b"poison", key=b"k", priority=5)
        async with client.queue("poisoned", group="workers") as consumer:
            for attempt in (1, 2, 3):
                (message,) = await consumer.poll(1, wait_ms=20_000)
                assert message.attempt == attempt
                await message.nack(reason=f"failure {attempt}")
                leader = await cluster.leader("poisoned")
                await leader.kill()
                leader.start()
            letters = client.dead_letters("poisoned", "workers")
            found = await wait_for(letters.list, "dead letters", is_enough=bool)
            await cluster.wait_ready(client)
            # Whichever leader moves it again, after whichever crash: it is there once.
            assert [(letter.payload, letter.reason, letter.attempts) for letter in found] == [
                (b"poison", "failure 3", 3)
            ]
            redriven = await letters.redrive()
            assert redriven.done == 1
            (again,) = await consumer.poll(1, wait_ms=20_000)
            assert (again.payload, again.key, again.priority, again.attempt) == (b"poison", b"k", 5, 1)
            await again.ack()
            assert await letters.list() == []

    run(cluster, scenario)


def test_retention_never_removes_what_a_holder_needs(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("trimmed", partitions=1)
        await client.alter_group("trimmed", "archive", holds_retention=1)
        async with client.queue("trimmed", group="archive") as archive:
            await client.produce_many("trimmed", [bytes(100)] * 1_000)
            messages = await archive.poll(1_000)
            await client.alter_topic("trimmed", retention_messages=100)
            await archive.ack(messages[:400])
            # Up to what the holder has settled, and not further.
            await wait_for(lambda: _start(client, "trimmed"), "retention to follow the holder", is_enough=bool)
            assert await _start(client, "trimmed") == 400
            await archive.ack(messages[400:])
            await wait_for(
                lambda: _start(client, "trimmed"), "retention to go on", is_enough=lambda start: start == 900
            )

    run(cluster, scenario)


async def _start(client: AsyncClient, topic: str) -> int:
    return await client.find_offset(topic, 0, "earliest")
