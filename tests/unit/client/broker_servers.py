"""Real brokers behind real TCP servers, where time passes by itself."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.client.brokers import Brokers
from tests.unit.client.shells import TcpServers

_TICK_SECONDS = 0.002


@contextmanager
def broker_servers(brokers: Brokers) -> Iterator[TcpServers]:
    """They are formed here."""
    opened = TcpServers(cluster=brokers)
    brokers.on = opened.do
    fleet = brokers.form(time.time_ns() // 1_000_000).fleet

    async def pass_time() -> None:
        ahead_s = time.monotonic() - fleet.clock.now_ms / 1_000
        while True:
            fleet.turn_to(round((time.monotonic() - ahead_s) * 1_000))
            await asyncio.sleep(_TICK_SECONDS)

    task = opened.do(lambda: asyncio.get_running_loop().create_task(pass_time()))
    yield opened
    opened.do(task.cancel)
    opened.close()
