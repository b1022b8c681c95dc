"""The HTTP door of a node: listens in the node's own loop, and ends in order.

Of uvicorn only the protocol is used. Its server class would install signal handlers, end the process when the
port is taken, and wake up ten times a second; the node has its own ways for all of that.
"""

import asyncio
from collections.abc import Callable

from uvicorn.config import Config
from uvicorn.server import ServerState

from flotilla.client.gateway import Gateway
from flotilla.client.network import time_of_day_ms
from flotilla.frontends.http.app import make_app
from flotilla.frontends.http.connection import IDLE_MS_MAX, Connection
from flotilla.frontends.http.guard import HEAD_BYTES_MAX
from flotilla.service.status import NodeStatus

_DRAIN_POLL_MS = 5


class HttpServer:
    def __init__(
        self,
        status: NodeStatus | None,
        gateway: Gateway | None = None,
        now_ms: Callable[[], int] = time_of_day_ms,
        *,
        idle_ms_max: int = IDLE_MS_MAX,
    ) -> None:
        """Of a node, or of a process that only knows the way to a cluster. `now_ms` is the time of day."""
        self._idle_ms_max = idle_ms_max
        self._config = Config(
            make_app(status, gateway, now_ms),
            interface="asgi3",
            http=Connection,
            ws="none",
            lifespan="off",
            # Faults go to the loop's exception handler, and bad requests are not worth a line each.
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            timeout_keep_alive=-(-idle_ms_max // 1000),
        )
        self._state = ServerState()
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, which the system chose if `port` is 0. Raises OSError."""
        self._config.load()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self._config, self._state, self._idle_ms_max), host, port
        )
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    @property
    def connections(self) -> list[Connection]:
        return [connection for connection in self._state.connections if isinstance(connection, Connection)]

    @property
    def request_count(self) -> int:
        """Requests that are being answered."""
        return len(self._state.tasks)

    async def close(self, drain_ms: int = 0) -> None:
        """Ends every connection: what is under way may be answered within drain_ms, and is cut off after that."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in self.connections:
            connection.shutdown()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + drain_ms / 1000
        # A connection goes away when its answer has left, not when it is merely written.
        while self.connections and loop.time() < deadline_s:
            await asyncio.sleep(_DRAIN_POLL_MS / 1000)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        # Before waiting for the tasks: one of them may wait for a client to read.
        for connection in self.connections:
            connection.transport.abort()
        if tasks:
            await asyncio.wait(tasks)
        # What was aborted is gone in the next turn of the loop.
        while self.connections:
            await asyncio.sleep(0)
