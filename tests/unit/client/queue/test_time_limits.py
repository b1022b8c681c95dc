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
