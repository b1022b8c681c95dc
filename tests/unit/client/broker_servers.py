"""Real brokers behind real TCP servers, where time passes by itself."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.client.brokers import Brokers
from tests.unit.client.shells import TcpServers

_TICK_SECONDS = 0.002
#: More than brokers need to form a cluster.
_FORMING_MS = 5_000


@contextmanager
def broker_servers(brokers: Brokers, ahead_ms: int = 0) -> Iterator[TcpServers]:
    """They are formed here. `ahead_ms`: how far their clocks are ahead of this machine's."""
    opened = TcpServers(brokers)
    brokers.on = opened.do
    fleet = brokers.form(_now_ms() + ahead_ms - _FORMING_MS).fleet

    def now_ms() -> int:
        fleet.turn_to(_now_ms() + ahead_ms - fleet.wall_ahead_ms)
        return fleet.nodes[1].now_ms()

    async def pass_time() -> None:
        while True:
            now_ms()
            await asyncio.sleep(_TICK_SECONDS)

    brokers.now_ms = now_ms  # type: ignore[method-assign]
    opened.do(now_ms)
    task = opened.do(lambda: asyncio.get_running_loop().create_task(pass_time()))
    try:
        yield opened
    finally:
        opened.do(task.cancel)
        opened.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
