"""Questions to one broker and no other, asked without waiting for the answers of before.

A client asks the leader that it knows, and waits. Many wait for a broker that is paused or cut off when it comes back;
what that broker answers then, before it hears that it was replaced, only those learn who asked meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.workloads.producers import TIMEOUT_MS
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId
from flotilla.types.operations import Reply, Request, Route

R = TypeVar("R", bound=Reply)

#: Beyond these nobody asks.
_OPEN_MAX: Final = 30


async def ask(client: AsyncClient, request: Request[R], topic: str, partition: int, node: NodeId) -> R:
    """Raises FlotillaError."""
    answer: asyncio.Future[Reply | FlotillaError] = asyncio.get_running_loop().create_future()
    route = Route(topic, partition, node)
    client._opened().submit(request, TIMEOUT_MS, answer.set_result, route=route, is_single=True)
    reply = await answer
    if isinstance(reply, FlotillaError):
        raise reply
    return reply  # type: ignore[return-value]


class Probes:
    def __init__(self) -> None:
        #: In the order in which they were asked.
        self._open: dict[asyncio.Task[None], None] = {}

    def start(self, probe: Callable[[], Awaitable[None]]) -> None:
        """Nothing happens while too many are open."""
        if len(self._open) < _OPEN_MAX:
            task = asyncio.ensure_future(probe())
            self._open[task] = None
            task.add_done_callback(self._open.pop)

    async def wait(self) -> None:
        """For all that are open."""
        await asyncio.gather(*self._open)
