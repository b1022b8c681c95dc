"""Handle messages with coroutines: `AsyncClient` has the methods of `Client`, to be awaited.

Run a broker (`flotilla serve`), then `python examples/asyncio_worker.py`.
"""

import asyncio
import os

from flotilla import AsyncClient

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-asyncio"


async def fetch(page: str) -> str:
    await asyncio.sleep(0.01)  # in its place: a request to another service
    return page.upper()


async def main() -> None:
    async with AsyncClient(SERVERS) as client:
        await client.create_topic(TOPIC, if_not_exists=True)
        await client.produce_many(TOPIC, [b"page %d" % number for number in range(20)])

        done: list[str] = []
        async with client.queue(TOPIC, group="crawlers") as queue:
            while len(done) < 20:
                messages = await queue.poll(max_messages=10, wait_ms=5_000)
                done += await asyncio.gather(*(fetch(message.text) for message in messages))
                await queue.ack(messages)

        print(f"fetched {len(done)} pages, the first is {done[0]}")
        await client.delete_topic(TOPIC)


asyncio.run(main())
