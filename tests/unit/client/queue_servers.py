"""The cluster with queue groups behind real TCP servers, where time passes by itself."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.client.queue_broker import QueueCluster
from tests.unit.client.shells import TcpServers

_TICK_SECONDS = 0.002
_GRACE_MS = 100


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def queue_servers() -> Iterator[TcpServers]:
    """Two brokers."""
    cluster = QueueCluster(2, _now_ms)
    cluster.grace_ms = _GRACE_MS
    opened = TcpServers(cluster=cluster)

    async def tick() -> None:
        while True:
            opened.cluster.tick()
            await asyncio.sleep(_TICK_SECONDS)

    async def start() -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(tick())

    async def stop(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    task = opened.run(start())
    yield opened
    opened.run(stop(task))
    opened.close()
