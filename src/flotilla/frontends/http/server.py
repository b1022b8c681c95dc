"""The HTTP server of a node or a proxy: listens on its loop, and drains at shutdown."""

import asyncio
from collections.abc import Iterable, Iterator

from flotilla.broker.observability.status import NodeStatus
from flotilla.frontends.caller import Callers
from flotilla.frontends.connected_clients import HTTP, shown_name
from flotilla.frontends.forwarded_callers import ForwardedCallers
from flotilla.frontends.http.app import make_app
from flotilla.frontends.http.framework.errors import busy, malformed
from flotilla.frontends.http.framework.status_only import StatusOnly
from flotilla.frontends.http.http1.asgi import App
from flotilla.frontends.http.http1.connection import IDLE_MS_MAX, Connection, refused_answer
from flotilla.frontends.listener import ConnectionBudget, Listener
from flotilla.frontends.room_making import SILENT_MS_MIN, RoomMaking
from flotilla.frontends.tcp.budget import Budgets, OutputBudget
from flotilla.gateway.gateway import Gateway
from flotilla.security.endpoint_tls import EndpointTls
from flotilla.types.access import Principal
from flotilla.types.address import Address
from flotilla.types.limits import (
    HTTP_CONNECTION_COUNT_MAX,
    HTTP_STATUS_CONNECTION_COUNT_MAX,
    HTTP_STATUS_MS_MAX,
    SERVER_OUTPUT_BYTES_MAX,
    TRANSFER_MS_MAX,
)
from flotilla.types.operations.cluster import ConnectedClient

_DRAIN_POLL_MS = 5
#: `Retry-After` of a refused connection.
_BUSY_RETRY_S = 1


def _shown(peer: object) -> str:
    return str(Address(str(peer[0]), int(peer[1]))) if isinstance(peer, tuple) and len(peer) > 1 else ""


class HttpServer:
    def __init__(
        self,
        status: NodeStatus | None,
        gateway: Gateway | None = None,
        *,
        idle_ms_max: int = IDLE_MS_MAX,
        body_ms_max: int = TRANSFER_MS_MAX,
        connections_max: int = HTTP_CONNECTION_COUNT_MAX,
        status_connections_max: int = HTTP_STATUS_CONNECTION_COUNT_MAX,
        budget: ConnectionBudget | None = None,
        hosts: Iterable[str] = (),
        tls: EndpointTls | None = None,
        callers: Callers | ForwardedCallers | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        """`status` is None for a proxy. `hosts` are the names by which clients may call this node.

        Beyond `connections_max` and `budget`, `status_connections_max` connections get the status pages.

        With `tls` only HTTPS is served. `callers` asks clients who they are; None: nobody does.
        `budgets` are those that the endpoints of the node share.
        """
        self._tls = tls
        self._output = OutputBudget(SERVER_OUTPUT_BYTES_MAX) if budgets is None else budgets.output
        self.app: App = make_app(status, gateway, hosts, callers, budgets)
        self._idle_ms_max = idle_ms_max
        self._open: dict[Connection, None] = {}
        #: Of these, cut to make room, and not closed yet.
        self._leaving: dict[Connection, None] = {}
        self._room: RoomMaking[Connection] = RoomMaking(
            lambda: [each for each in self._open if each not in self._leaving],
            is_stranger=lambda connection: connection.is_stranger,
            is_silent=lambda connection: connection.is_silent(SILENT_MS_MIN / 1000),
            host=lambda connection: str(connection.peer[0]) if isinstance(connection.peer, tuple) else "",
            cut=self._cut,
        )
        #: Connections beyond the bounds, which get the status pages only.
        self._status_only: dict[Connection, None] = {}
        self._listener = Listener(
            lambda: self._made(self.app, self._open, idle_ms_max, body_ms_max),
            count=self._count,
            connections_max=connections_max,
            budget=budget,
            refusal=lambda reason: refused_answer(503, *busy(reason), retry_after_s=_BUSY_RETRY_S),
            tls=None if tls is None else tls.acceptor(),
            spare_max=status_connections_max,
            spare_count=lambda: len(self._status_only),
            spare=self._status_connection,
            make_room=self._room.make,
        )

    def _count(self) -> int:
        # Those that were cut leave in the next iteration of the loop.
        self._leaving = {each: None for each in self._leaving if each in self._open}
        return len(self._open) - len(self._leaving)

    def _cut(self, connection: Connection) -> None:
        self._leaving[connection] = None
        connection.abort()

    def _status_connection(self, reason: str) -> Connection:
        idle_ms_max = min(self._idle_ms_max, HTTP_STATUS_MS_MAX)
        return self._made(StatusOnly(self.app, reason), self._status_only, idle_ms_max, idle_ms_max)

    def _made(self, app: App, opened: dict[Connection, None], idle_ms_max: int, body_ms_max: int) -> Connection:
        return Connection(app, opened, idle_ms_max, malformed, body_ms_max, self._principal_of, self._output)

    def _principal_of(self, transport: asyncio.BaseTransport) -> Principal | None:
        return None if self._tls is None else self._tls.principal(transport)

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, which the system chose if `port` is 0. Raises OSError."""
        return await self._listener.start(host, port)

    def clients(self) -> Iterator[ConnectedClient]:
        now_s = asyncio.get_running_loop().time()
        for each in self.connections:
            principal = each.caller or str(each.peer_principal or "")
            lasts_ms = int((now_s - each.since_s) * 1000)
            yield ConnectedClient(
                HTTP, shown_name(each.agent), _shown(each.peer), principal, lasts_ms, int(each.task is not None)
            )

    @property
    def connections(self) -> list[Connection]:
        return [*self._open, *self._status_only]

    @property
    def request_count(self) -> int:
        """Requests in flight."""
        return len(self._tasks())

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [connection.task for connection in self.connections if connection.task is not None]

    async def close(self, drain_ms: int = 0) -> None:
        """Ends every connection. Requests in flight have `drain_ms` to be answered, and are cut off then."""
        self._listener.close()
        for connection in self.connections:
            connection.shutdown()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + drain_ms / 1000
        # A connection ends when its answer has left, not when it is only buffered.
        while self.connections and loop.time() < deadline_s:
            await asyncio.sleep(_DRAIN_POLL_MS / 1000)
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        # Before waiting for the tasks: a task may wait for its client to read.
        for connection in self.connections:
            connection.abort()
        if tasks:
            await asyncio.wait(tasks)
        # Aborted connections are gone after the next iteration of the loop.
        while self.connections:
            await asyncio.sleep(0)
