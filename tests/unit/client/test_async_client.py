"""A client under cancellation and other effects of tasks."""

import asyncio
import gc
import re
import time
import warnings

import pytest
import uvloop

from flotilla import AsyncClient, ConnectionClosedError, OutcomeUnknownError, Receipt
from flotilla.client._options import TIMEOUT_MS_DEFAULT
from flotilla.types.operations import Fetch, GetMetadata, Produce
from flotilla.types.operations.queue import Settle
from tests.unit.client.test_client import HeldBrokers, UnansweredRequests


async def seen(held: UnansweredRequests | HeldBrokers) -> None:
    await asyncio.to_thread(held.seen.wait, 10)


def run(work) -> None:
    asyncio.run(work)


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (Produce, lambda client: client.produce("orders", b"x")),
        (GetMetadata, lambda client: client.topics()),
        (Fetch, lambda client: anext(client.reader("orders"))),
        (Fetch, lambda client: client.reader("orders").poll(wait_ms=60_000)),
    ],
)
def test_a_call_can_be_cancelled(servers, kind, action):
    servers.cluster.create("orders")
    held = UnansweredRequests(servers, kind)

    async def work() -> None:
        async with AsyncClient(servers.addresses) as client:
            task = asyncio.ensure_future(action(client))
            await seen(held)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.close(timeout_ms=10)

    run(work())


def test_records_of_many_tasks_travel_together(servers):
    servers.cluster.create("orders")

    async def work() -> list[Receipt]:
        async with AsyncClient(servers.addresses) as client:
            await client.produce("orders", b"first")
            return await asyncio.gather(*[client.produce("orders", b"x") for _ in range(500)])

    receipts = asyncio.run(work())
    assert sorted(receipt.offset for receipt in receipts) == list(range(1, 501))
    assert servers.cluster.count(Produce) < 20


@pytest.mark.parametrize(
    ("kind", "action", "error"),
    [
        (Produce, lambda client: client.produce("orders", b"x"), OutcomeUnknownError),
        (GetMetadata, lambda client: client.topics(), ConnectionClosedError),
        (Fetch, lambda client: anext(client.reader("orders")), ConnectionClosedError),
    ],
)
def test_closing_ends_the_waits_of_other_tasks(servers, kind, action, error):
    servers.cluster.create("orders")
    held = UnansweredRequests(servers, kind)

    async def work() -> None:
        client = AsyncClient(servers.addresses)
        task = asyncio.ensure_future(action(client))
        await seen(held)
        await client.close(timeout_ms=10)
        with pytest.raises(error):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work())


@pytest.mark.parametrize("kind", [Settle, Produce])
def test_every_close_returns_when_the_first_is_done(servers, kind):
    servers.cluster.create("orders")

    async def work() -> None:
        client = AsyncClient(servers.addresses)
        await client.produce("orders", b"a")
        consumer = client.queue("orders", group="workers")
        (message,) = await consumer.poll()
        held = HeldBrokers(servers, kind)
        if kind is Settle:
            await message.ack(wait=False)
            tasks = [asyncio.ensure_future(consumer.close())]
        else:
            producer = client.producer("orders")
            delivery = await producer.send(b"b")
            tasks = [asyncio.ensure_future(producer.close())]
        await seen(held)
        tasks += [asyncio.ensure_future(client.close()) for _ in range(2)]
        done, _ = await asyncio.wait(tasks, timeout=0.05)
        held.go_on.set()
        assert not done
        await asyncio.gather(*tasks)
        if kind is Produce:
            assert (await delivery).offset == 1
        async with AsyncClient(servers.addresses) as other:
            assert (await other.describe_group("orders", "workers")).acked_total == (kind is Settle)

    run(work())


def test_closing_a_consumer_ends_its_iteration(servers):
    servers.cluster.create("orders")

    async def work() -> None:
        async with AsyncClient(servers.addresses) as client:
            consumer = client.queue("orders", group="workers")
            task = asyncio.ensure_future(anext(consumer))
            while not consumer._feed.reader.is_flowing:
                await asyncio.sleep(0.001)
            await consumer.close()
            with pytest.raises(ConnectionClosedError):
                await asyncio.wait_for(task, 10)

    run(work())


def test_a_close_that_is_cancelled_leaves_nothing(servers):
    servers.cluster.create("orders")
    held = UnansweredRequests(servers, Produce)

    async def work() -> None:
        client = AsyncClient(servers.addresses)
        delivery = await client.producer("orders").send(b"x")
        await seen(held)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.close(), 0.05)
        with pytest.raises(OutcomeUnknownError):
            await delivery
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work())


@pytest.mark.slow
def test_a_task_that_is_cancelled_in_a_with_block_ends_in_time(servers, caplog):
    servers.cluster.create("orders")
    held = UnansweredRequests(servers, Produce)

    async def send() -> None:
        async with AsyncClient(servers.addresses) as client, client.producer("orders") as producer:
            await producer.send(b"x")
            await (await producer.send(b"y"))

    async def work() -> None:
        task = asyncio.ensure_future(send())
        await seen(held)
        task.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < TIMEOUT_MS_DEFAULT / 1000 / 2

    run(work())
    assert [record.getMessage() for record in caplog.records] == [
        "a producer of orders was closed before 2 of its records had an answer"
    ]


@pytest.mark.parametrize("library", [asyncio, uvloop])
def test_a_client_that_was_forgotten_with_records_is_reported(servers, library):
    servers.cluster.create("orders")

    async def work() -> None:
        producer = AsyncClient(servers.addresses).producer("orders", linger_ms=60_000)
        for _ in range(7):
            await producer.send(b"x")

    def forget() -> None:
        loop = library.new_event_loop()
        loop.run_until_complete(work())
        loop.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forget()
        gc.collect()
    # A loop that ends before its connections has something to say of its own.
    own = [str(warning.message) for warning in caught if "AsyncClient" in str(warning.message)]
    assert [re.sub(r" of [\w.:,]+ was", " was", text) for text in own] == [
        "the AsyncClient was not closed when 7 of its records had no answer"
    ]


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 6])
def test_a_dial_in_flight_is_given_up(servers, turns):
    async def work() -> None:
        client = AsyncClient(servers.addresses)
        task = asyncio.ensure_future(client.topics())
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ConnectionClosedError):
            await task

    run(work())
