"""Reading from followers on real brokers: one is paused and comes back, and no reader sees a gap or waits for it."""

import asyncio
import signal
from time import monotonic

import pytest

from flotilla.broker.partition.follower_reads import UNSEEN_MS_MAX
from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.client.async_client import AsyncClient
from flotilla.codec.batch.header import parse_header
from flotilla.types.errors import ReplicaBehindError
from flotilla.types.operations import Fetch, Fetched
from tests.integration.broker.cluster import BrokerCluster, run, wait_for

pytestmark = pytest.mark.slow


async def ask(cluster: BrokerCluster, node: int, request: Fetch) -> object:
    async with DirectConnection(cluster[node].client_address) as connection:
        return await connection.ask(request)


def test_every_replica_serves_and_a_paused_one_is_passed_over(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        topic = "followed"
        await client.create_topic(topic, partitions=1)
        leader = (await cluster.wait_led(topic))[0]
        paused = next(node for node in cluster.brokers if node != leader)
        await client.produce_many(topic, [b"%d" % number for number in range(100)])
        for node in cluster.brokers:
            request = Fetch(topic, 0, 0, 1 << 20, is_any_replica=True)
            served = await wait_for(
                lambda node=node, request=request: ask(cluster, node, request),  # type: ignore[misc]
                f"node {node} to serve all",
                is_enough=lambda found: isinstance(found, Fetched) and found.next_offset == 100,
            )
            assert isinstance(served, Fetched)
            assert sum(parse_header(batch).count for batch in served.batches) == 100

        readers = [client.reader(topic, offset=0, read_from="spread") for _ in range(3)]
        seen: list[list[int]] = [[], [], []]

        async def read_to(end: int) -> None:
            async def read(place: int) -> None:
                while len(seen[place]) < end:
                    seen[place] += [message.offset for message in await readers[place].poll(wait_ms=500)]

            await asyncio.gather(*[read(place) for place in range(3)])

        await read_to(100)
        end = 100
        cluster[paused].signal(signal.SIGSTOP)
        try:
            # It sleeps long enough to know that it has slept, and all that time the other readers go on.
            awake_s = monotonic() + 1.5 * UNSEEN_MS_MAX / 1000
            while end == 100 or monotonic() < awake_s:
                await client.produce_many(topic, [b"%d" % number for number in range(end, end + 100)])
                end += 100
                await read_to(end)
        finally:
            cluster[paused].signal(signal.SIGCONT)
        # What it says from now on is either that it is behind, or whole.
        while True:
            found = await ask(cluster, paused, Fetch(topic, 0, 0, 1 << 20, is_any_replica=True))
            if isinstance(found, Fetched):
                break
            assert isinstance(found, ReplicaBehindError), found
        assert found.next_offset == end
        await client.produce_many(topic, [b"%d" % number for number in range(end, end + 100)])
        await read_to(end + 100)
        assert seen == [list(range(end + 100))] * 3

    run(cluster, scenario, seconds=90)


def test_a_linearizable_reader_sees_what_was_acknowledged_at_any_replica(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        topic = "linearizable"
        await client.create_topic(topic, partitions=1)
        await cluster.wait_led(topic)
        for number in range(20):
            receipt = await client.produce(topic, b"%d" % number)
            node = 1 + number % 3
            request = Fetch(topic, 0, receipt.offset, 1 << 20, is_any_replica=True, is_linearizable=True)
            found = await wait_for(
                lambda node=node, request=request: ask(cluster, node, request),  # type: ignore[misc]
                f"an answer of node {node}",
                is_enough=lambda found: isinstance(found, Fetched),
            )
            assert isinstance(found, Fetched)
            assert found.next_offset == number + 1, "the first answer that is one shows it"

    run(cluster, scenario, seconds=60)
