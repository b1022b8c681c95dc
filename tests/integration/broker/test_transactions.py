"""Transactions on three real brokers: leaders die between the decision and its showing, and anywhere else."""

import asyncio
import signal
from contextlib import suppress
from functools import partial

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.client.queue.aio import AsyncQueueMessage
from flotilla.types.errors import FlotillaError, OutcomeUnknownError
from tests.integration.broker.cluster import BrokerCluster, run, wait_for

pytestmark = pytest.mark.slow

HALTED = "txn-halted"
FREE = "txn-free"
INPUT = "txn-input"
OUTPUT = "txn-output"


def test_a_leader_dies_between_decision_and_showing(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        for topic in (HALTED, FREE):
            await client.create_topic(topic, partitions=1)
            await cluster.wait_led(topic)
            await client.produce(topic, b"before")
        # The decision and the other partition go on while this leader cannot do anything about it.
        controller = (await client.admin.metadata()).controller
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
        # Whichever broker leads now, and whichever is asked to commit again: each record is there once.
        again = await client.commit_transaction(txn.transaction_id, partitions=txn.partitions)
        assert again == committed
        await cluster.lead(client, HALTED, 0, victim)
        assert await _payloads(client, HALTED) == [b"before", *(b"%d" % number for number in range(100))]
        assert await _payloads(client, FREE) == [b"before", b"free"]

    run(cluster, scenario)


def test_each_message_makes_one_product_although_processes_die(cluster: BrokerCluster) -> None:
    """Consume, transform, produce: a message is done and its product there, or neither, over killed leaders."""
    count = 120

    async def work(client: AsyncClient, is_over: asyncio.Event) -> None:
        async with client.queue(INPUT, group="makers") as consumer:
            while not is_over.is_set():
                messages: list[AsyncQueueMessage] = []
                try:
                    messages = await consumer.poll(4, wait_ms=500)
                    await _transform(client, messages)
                except FlotillaError:
                    # Nothing of it happened: the messages come back, or are given back now.
                    with suppress(FlotillaError):
                        await consumer.release([message for message in messages if not message.is_settled])

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        for topic in (INPUT, OUTPUT):
            await client.create_topic(topic, partitions=2)
            await cluster.wait_led(topic, partitions=2)
        for number in range(count):
            await client.produce(INPUT, b"%d" % number, partition=number % 2)
        is_over = asyncio.Event()
        workers = [asyncio.create_task(work(client, is_over)) for _ in range(3)]
        for enough in (count // 4, count // 2):
            await wait_for(
                partial(_products, client), "products", is_enough=lambda found, few=enough: len(found) >= few
            )
            victim = await cluster.leader(INPUT)
            await victim.kill()
            victim.start()
            await cluster.wait_ready(client)
        await wait_for(partial(_products, client), "all products", is_enough=lambda found: len(set(found)) == count)
        is_over.set()
        await asyncio.gather(*workers)
        assert sorted(await _products(client), key=int) == [b"%d" % number for number in range(count)]
        described = await client.describe_group(INPUT, "makers")
        assert described.lag == 0

    run(cluster, scenario, seconds=150)


async def _transform(client: AsyncClient, messages: list[AsyncQueueMessage]) -> None:
    txn = client.transaction()
    for message in messages:
        await txn.produce(OUTPUT, message.payload, key=message.payload)
    await txn.ack(*messages)
    while True:
        try:
            await txn.commit()
        except OutcomeUnknownError:
            continue
        return


async def _products(client: AsyncClient) -> list[bytes]:
    found = [await client.peek(OUTPUT, number, max_messages=1_000) for number in range(2)]
    return [message.payload for messages in found for message in messages]


async def _payloads(client: AsyncClient, topic: str) -> list[bytes]:
    return [message.payload for message in await client.peek(topic, 0, max_messages=1_000)]
