"""What is added to a transaction while a stage is on its way, or after its answer was not waited for, is part of it."""

import asyncio
from collections.abc import Iterator

import pytest

from flotilla.client._core.closing import TimeLimit
from flotilla.client.async_client import AsyncClient
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.testing import LocalBroker
from flotilla.types.errors import TransactionEndedError
from flotilla.types.operations.transactions import CommitTransaction, Stage, StageSettlement


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as opened:
        yield opened


async def _stage_unanswered(client: AsyncClient, transaction: AsyncTransaction) -> None:
    """The broker stages what was added; its answer is not waited for."""
    network, staged = client._opened(), asyncio.Event()
    call = network.call

    async def silent(request, *arguments):
        await call(request, *arguments)
        assert isinstance(request, Stage | StageSettlement)
        staged.set()
        await asyncio.Event().wait()

    network.call = silent  # type: ignore[method-assign]
    flushing = asyncio.ensure_future(transaction._flush(TimeLimit(30_000)))
    await staged.wait()
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)
    network.call = call  # type: ignore[method-assign]


async def _payloads(client: AsyncClient, topic: str) -> list[bytes]:
    return [message.payload for message in await client.peek(topic, 0)]


def test_a_record_after_a_stage_without_an_answer(broker: LocalBroker) -> None:
    async def run() -> None:
        async with broker.async_client() as client:
            await client.create_topic("lost")
            transaction = client.transaction()
            await transaction.produce("lost", b"a")
            await _stage_unanswered(client, transaction)
            await transaction.produce("lost", b"b")
            await transaction.commit()
            assert await _payloads(client, "lost") == [b"a", b"b"]
            assert [receipt.offset for receipt in transaction.receipts] == [0, 1]

    asyncio.run(asyncio.wait_for(run(), 30))


def test_stages_at_the_same_time(broker: LocalBroker) -> None:
    async def run() -> None:
        async with broker.async_client() as client:
            await client.create_topic("together")
            transaction = client.transaction()
            await asyncio.gather(*[transaction.stage("together", [b"%d" % number]) for number in range(10)])
            await transaction.commit()
            assert sorted(await _payloads(client, "together")) == [b"%d" % number for number in range(10)]

    asyncio.run(asyncio.wait_for(run(), 30))


def test_an_ack_after_a_stage_without_an_answer(broker: LocalBroker) -> None:
    async def run() -> None:
        async with broker.async_client() as client:
            await client.create_topic("work")
            await client.produce_many("work", [b"a", b"b"])
            async with client.queue("work", group="g") as queue:
                first, second = await queue.poll(2, wait_ms=5_000)
                transaction = client.transaction()
                await transaction.ack(first)
                await _stage_unanswered(client, transaction)
                await transaction.ack(first, second)
                await transaction.commit()
            assert (await client.describe_group("work", "g")).acked_total == 2

    asyncio.run(asyncio.wait_for(run(), 30))


def test_what_is_added_during_a_commit_is_refused(broker: LocalBroker) -> None:
    async def run() -> None:
        async with broker.async_client() as client:
            await client.create_topic("late")
            await client.produce("late", b"work")
            async with client.queue("late", group="g") as queue:
                (message,) = await queue.poll(1, wait_ms=5_000)
                transaction = client.transaction()
                await transaction.produce("late", b"in time")
                network = client._opened()
                call, refused = network.call, list[str]()

                async def add_before(request, *arguments):
                    if isinstance(request, CommitTransaction):
                        for adding in (transaction.produce("late", b"late"), transaction.ack(message)):
                            with pytest.raises(TransactionEndedError) as error:
                                await adding
                            refused.append(str(error.value))
                    return await call(request, *arguments)

                network.call = add_before  # type: ignore[method-assign]
                await transaction.commit()
            assert len(refused) == 2
            assert await _payloads(client, "late") == [b"work", b"in time"]
            assert len(transaction.receipts) == 1

    asyncio.run(asyncio.wait_for(run(), 30))
