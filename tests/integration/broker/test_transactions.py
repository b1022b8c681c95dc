"""Transactions on three real brokers: a participant's leader dies between the decision and its showing."""

import asyncio
import signal

import pytest

from flotilla.client.aio import AsyncClient
from tests.integration.broker.cluster import BrokerCluster, run, wait_for

pytestmark = pytest.mark.slow

HALTED = "txn-halted"
FREE = "txn-free"


def test_a_leader_dies_between_decision_and_showing(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        for topic in (HALTED, FREE):
            await client.create_topic(topic, partitions=1)
            await cluster.wait_led(topic)
            await client.produce(topic, b"before")
        # The decision and the other partition go on while this leader cannot do anything about it.
        controller = (await client.metadata()).controller
        victim = next(node for node in cluster.running if node != controller)
        await cluster.lead(client, HALTED, 0, victim)
        await cluster.lead(client, FREE, 0, controller)
        txn = client.transaction("txn-halted/1")
        for number in range(10):
            await txn.stage(HALTED, [b"%d" % (10 * number + place) for place in range(10)])
        await txn.stage(FREE, [b"free"])
        assert await _payloads(client, HALTED) == [b"before"]
        cluster[victim].signal(signal.SIGSTOP)
        committing = asyncio.create_task(
            client.commit_transaction(txn.transaction_id, partitions=txn.partitions, timeout_ms=60_000)
        )
        await wait_for(lambda: _payloads(client, FREE), "the decision", is_enough=lambda found: b"free" in found)
        await cluster[victim].kill()
        committed = await committing
        assert [shown.base_offset for shown in committed.batches[HALTED, 0]] == list(range(1, 101, 10))
        cluster[victim].start()
        await cluster.wait_ready(client)
        # Whoever leads now, and whoever is asked to commit again: each record is there once.
        again = await client.commit_transaction(txn.transaction_id, partitions=txn.partitions)
        assert again == committed
        await cluster.lead(client, HALTED, 0, victim)
        assert await _payloads(client, HALTED) == [b"before", *(b"%d" % number for number in range(100))]
        assert await _payloads(client, FREE) == [b"before", b"free"]

    run(cluster, scenario)


async def _payloads(client: AsyncClient, topic: str) -> list[bytes]:
    return [message.payload for message in await client.peek(topic, 0, max_messages=1_000)]
