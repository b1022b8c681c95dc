"""The bounds of a consumer's calls, in simulated time."""

import asyncio
from contextlib import suppress

from flotilla.client.async_client import AsyncClient
from flotilla.testing import SimulatedCluster, simulate
from flotilla.types.errors import FlotillaError

TIMEOUT_MS = 2_000
WAIT_MS = 500


async def lead(client: AsyncClient, partition: int, node: int) -> None:
    while True:
        topic = await client.describe_topic("orders")
        if topic.partitions[partition].leader == node:
            return
        with suppress(FlotillaError):
            await client.admin.transfer_leadership("orders", partition, node)
        await asyncio.sleep(0.1)


def test_leaders_that_do_not_answer_hold_a_poll_up_by_one_time_limit_in_all() -> None:
    took_ms: list[float] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        async with cluster.client(timeout_ms=TIMEOUT_MS) as client:
            await client.create_topic("orders", partitions=3)
            for partition, node in enumerate(cluster.brokers):
                await lead(client, partition, node)
            consumer = client.queue("orders", group="shipping")
            assert await consumer.poll(wait_ms=0) == []
            for node in cluster.brokers:
                cluster.isolate(node)
            now = asyncio.get_running_loop().time
            began = now()
            assert await consumer.poll(wait_ms=WAIT_MS) == []
            took_ms.append((now() - began) * 1_000)
            cluster.heal()

    simulate(1, scenario, faults=())
    assert TIMEOUT_MS - WAIT_MS < took_ms[0] <= WAIT_MS + TIMEOUT_MS + 100


def test_a_long_poll_whose_leader_changes_now_and_then_goes_on():
    """Each of the leaders held the poll for longer than the time limit: the partition was never without one."""

    async def scenario(cluster: SimulatedCluster) -> None:
        async with cluster.client(timeout_ms=TIMEOUT_MS) as client:
            await client.create_topic("orders")
            consumer = client.queue("orders", group="shipping")
            await lead(client, 0, 1)
            poll = asyncio.create_task(consumer.poll(wait_ms=60_000))
            for node in (2, 3, 1):
                await asyncio.sleep(2 * TIMEOUT_MS / 1_000)
                await lead(client, 0, node)
            assert not poll.done()
            await client.produce("orders", b"late")
            assert [message.payload for message in await poll] == [b"late"]

    simulate(1, scenario, faults=())
