"""A message has one result, and every caller gets that one, whatever fails."""

import asyncio

import pytest

from flotilla import FlotillaError, Receipt
from flotilla.testing import simulate

COUNT = 25


async def persist(call):
    """The answer of a call that is repeated until it has one."""
    while True:
        try:
            return await call()
        except FlotillaError:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("seed", range(1, 4))
def test_every_caller_gets_the_one_result_while_things_fail(seed):
    async def scenario(cluster):
        async def work(name: int) -> None:
            """Its results tell it apart from the other worker."""
            async with cluster.client() as client, client.queue("jobs", group="workers") as consumer:
                while True:
                    try:
                        message = await anext(consumer)
                        await asyncio.sleep(cluster.random.random() / 2)
                        await message.ack(result=b"%s by %d" % (message.payload, name))
                    except FlotillaError:
                        await asyncio.sleep(0.1)

        async def ask(client, other, number: int) -> None:
            async def produce() -> Receipt:
                return await client.produce("jobs", b"%d" % number, idempotency_key=b"%d" % number)

            await asyncio.sleep(cluster.random.random() * 20)
            receipt = await persist(produce)
            found = await asyncio.gather(
                *[persist(lambda who=who: who.result(receipt, timeout_ms=20_000)) for who in (client, client, other)]
            )
            assert found[0].startswith(b"%d by " % number)
            assert len(set(found)) == 1, f"one message has the results {found}"

        async with cluster.client() as client, cluster.client() as other:
            await client.create_topic("jobs", partitions=2, replication_factor=3, visibility_ms=2_000)
            workers = [cluster.process(f"worker {name}", lambda name=name: work(name)) for name in range(2)]
            asking = [asyncio.ensure_future(ask(client, other, number)) for number in range(COUNT)]
            for _ in range(3):
                await asyncio.sleep(6)
                workers[0].kill()
                await asyncio.sleep(1)
                workers[0].start()
            cluster.heal()
            async with asyncio.timeout(120):
                await asyncio.gather(*asking)

    simulate(seed, scenario)
