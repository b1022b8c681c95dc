"""The TCP endpoint of a broker: listens, and connects clients with the service.

There is no task, future or timer per request or per connection: requests are served inside the read that completes
them, answers are written once per iteration of the loop, and one coarse timer checks all time limits. A fault in the
service is reported and ends the connection whose request met it.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from flotilla.broker.ports import Service
from flotilla.broker.security.entrance import Entrance, Entrances
from flotilla.codec.client.frames import NO_CORRELATION, encode_response
from flotilla.codec.client.handover import Answers
from flotilla.frontends.connected_clients import TCP, shown_name
from flotilla.frontends.listener import ConnectionBudget, Listener
from flotilla.frontends.room_making import RoomMaking
from flotilla.frontends.tcp.budget import Budgets
from flotilla.frontends.tcp.channel import Channel
from flotilla.frontends.tcp.connection import TICK_MS, Connection, ConnectionLimits, RequestTicket
from flotilla.frontends.tcp.local_channel import LocalBrokerConnection, LocalChannel
from flotilla.machine import steady_ms
from flotilla.security.endpoint_tls import EndpointTls
from flotilla.types.access import NODE, Principal
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import CONNECTION_COUNT_MAX, KIB, SERVER_OUTPUT_BYTES_MAX, SERVER_REQUEST_BYTES_MAX
from flotilla.types.operations.cluster import ConnectedClient

#: One read takes at most this much of small frames.
SCRATCH_BYTES = 128 * KIB
#: `retry_after_ms` of a refused connection.
_REFUSED_RETRY_MS = 1_000

AnyChannel: TypeAlias = Channel | LocalChannel


def _refusal(reason: str) -> bytes:
    error = OverloadedError(reason)
    error.retry_after_ms = _REFUSED_RETRY_MS
    return b"".join(encode_response(NO_CORRELATION, error))


def _principal_of(connection: Connection) -> Principal | None:
    """Who the client is, as far as anybody asked."""
    entrance = connection.entrance
    return entrance.session.principal if isinstance(entrance, Entrance) else connection.peer_principal


class TcpServer:
    def __init__(
        self,
        service: Service,
        *,
        connections_max: int = CONNECTION_COUNT_MAX,
        budget: ConnectionBudget | None = None,
        connection_limits: ConnectionLimits | None = None,
        request_bytes_max: int = SERVER_REQUEST_BYTES_MAX,
        output_bytes_max: int = SERVER_OUTPUT_BYTES_MAX,
        tick_ms: int = TICK_MS,
        tls: EndpointTls | None = None,
        entrances: Entrances | None = None,
    ) -> None:
        """With `tls` connections from other processes are encrypted.

        `entrances` asks clients who they are; None: nobody does. A connection from within is the node itself.
        """
        self._service = service
        self._tls = tls
        self._entrances = entrances
        self._limits = connection_limits or ConnectionLimits()
        #: Other endpoints of the node share them.
        self.budgets = Budgets(request_bytes_max, output_bytes_max)
        #: Batches from within took their bytes before, as bodies and calls: to wait for the same bytes again could
        #: last for ever.
        self._inner_budgets = Budgets(request_bytes_max, output=self.budgets.output)
        self._tick_ms = tick_ms
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Cut to make room, and not closed yet.
        self._leaving: set[AnyChannel] = set()
        self._room: RoomMaking[Channel] = RoomMaking(
            lambda: [each for each in self._channels if isinstance(each, Channel) and each not in self._leaving],
            is_stranger=lambda channel: channel.connection.is_stranger,
            is_silent=lambda channel: channel.connection.is_silent,
            host=lambda channel: "" if channel.address is None else channel.address.host,
            cut=self._cut,
        )
        self._listener = Listener(
            lambda: Channel(self),
            count=lambda: len(self._channels) - len(self._leaving),
            connections_max=connections_max,
            budget=budget,
            refusal=_refusal,
            tls=None if tls is None else tls.acceptor(),
            make_room=self._room.make,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._channels: dict[AnyChannel, None] = {}
        #: Channels to flush at the end of this iteration of the loop.
        self._scheduled: list[AnyChannel] = []
        #: Set while there are no connections.
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._accepted_count = 0
        self._request_count = 0
        #: Of closed connections.
        self._received_bytes = 0
        self._sent_bytes = 0

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, which the system chose if `port` is 0."""
        self._loop = asyncio.get_running_loop()
        bound = await self._listener.start(host, port)
        self._timer = self._loop.call_later(self._tick_ms / 1000, self._on_timer)
        return bound

    def connect(self, received: Callable[[Answers], None], lost: Callable[[str], None]) -> LocalChannel:
        """A connection from within this process: it shares the bound on answers, counts and the end of all others."""
        self._loop = asyncio.get_running_loop()
        channel = LocalChannel(self, received, lost)
        self._channels[channel] = None
        self._is_empty.clear()
        self._accepted_count += 1
        return channel

    def stop_accepting(self) -> None:
        """Stops listening; open connections go on."""
        self._listener.close()

    async def close(self, drain_ms: int = 0) -> None:
        """Ends every connection. Requests in flight have `drain_ms` to be answered, and are cut off then."""
        self.stop_accepting()
        for channel in list(self._channels):
            channel.connection.drain()
        if drain_ms:
            try:
                await asyncio.wait_for(self._is_empty.wait(), drain_ms / 1000)
            except TimeoutError:
                pass
        for channel in list(self._channels):
            channel.cut("shutting down")
        await self._is_empty.wait()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reconsider(self) -> None:
        """Users or grants have changed: ends what is allowed no more."""
        for channel in list(self._channels):
            self._contained(channel, channel.connection.reconsider)

    def tick(self) -> None:
        """A second has passed."""
        for channel in list(self._channels):
            self._contained(channel, channel.tick)

    def statistics(self) -> dict[str, int]:
        channels = self._channels
        shared, inner = self.budgets, self._inner_budgets
        return {
            "connections": len(channels),
            "connections_accepted_total": self._accepted_count,
            "connections_refused_total": self._listener.refused_count,
            "connections_cut_total": self._room.cut_count,
            "requests_total": self._request_count,
            "requests_in_flight": sum(channel.connection.request_count for channel in channels),
            "request_bytes_in_flight": shared.request_bytes + inner.request_bytes,
            "output_bytes_waiting": shared.output.used_bytes,
            "connections_waiting_for_memory": shared.waiting_count + inner.waiting_count,
            "received_bytes_total": self._received_bytes + sum(channel.received_bytes for channel in channels),
            "sent_bytes_total": self._sent_bytes + sum(channel.sent_bytes for channel in channels),
        }

    def clients(self) -> Iterator[ConnectedClient]:
        now_ms = steady_ms()
        for channel in self._channels:
            if isinstance(channel, Channel):
                connection = channel.connection
                principal = str(_principal_of(connection) or "")
                address = str(channel.address or "")
                lasts_ms = now_ms - channel.since_ms
                name = shown_name(connection.client_name)
                yield ConnectedClient(TCP, name, address, principal, lasts_ms, connection.request_count)

    # What channels call.

    @property
    def scratch(self) -> memoryview:
        return self._scratch

    def connection_for(self, channel: Channel) -> Connection:
        wake, serve = partial(self.schedule, channel), partial(self._serve, channel)
        broken = partial(self._broken, channel, "an answer could not be sent")
        return Connection(self._service, self.budgets, wake, serve, self._limits, broken)

    def local_connection_for(self, channel: LocalChannel) -> LocalBrokerConnection:
        wake, serve = partial(self.schedule, channel), partial(self._serve, channel)
        broken = partial(self._broken, channel, "an answer could not be handed over")
        connection = LocalBrokerConnection(self._service, self._inner_budgets, wake, serve, self._limits, broken)
        connection.peer_principal = Principal(NODE, str(self._service.node))
        return connection

    def principal_of(self, transport: asyncio.BaseTransport) -> Principal | None:
        return None if self._tls is None else self._tls.principal(transport)

    def entered(self, channel: Channel) -> None:
        if self._entrances is not None:
            channel.connection.entrance = self._entrances(
                channel.address, channel.connection.peer_principal, channel.is_encrypted
            )
        self._channels[channel] = None
        self._is_empty.clear()
        self._accepted_count += 1

    def schedule(self, channel: AnyChannel) -> None:
        if channel.is_scheduled:
            return
        channel.is_scheduled = True
        if not self._scheduled:
            assert self._loop is not None
            self._loop.call_soon(self._flush)
        self._scheduled.append(channel)

    def _serve(self, channel: AnyChannel, ticket: RequestTicket) -> None:
        self._request_count += 1
        try:
            entrance = channel.connection.entrance
            handle = self._service.handle if entrance is None else entrance.handle
            cancel = handle(ticket.request, ticket.answer, ticket.metadata_index)
            if cancel is not None:
                channel.connection.started(ticket, cancel)
            channel.connection.has_asked = entrance is None or entrance.is_open
        except Exception as error:
            self._broken(channel, f"the service failed at {type(ticket.request).__name__}", error)

    def _cut(self, channel: Channel) -> None:
        self._leaving.add(channel)
        channel.cut("cut to make room for other connections")

    def lost(self, channel: AnyChannel) -> None:
        del self._channels[channel]
        self._leaving.discard(channel)
        self._received_bytes += channel.received_bytes
        self._sent_bytes += channel.sent_bytes
        if not self._channels:
            self._is_empty.set()

    def _flush(self) -> None:
        scheduled, self._scheduled = self._scheduled, []
        for channel in scheduled:
            self._contained(channel, channel.flush)

    def _contained(self, channel: AnyChannel, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._broken(channel, "a client's connection failed", error)

    def _broken(self, channel: AnyChannel, message: str, error: Exception) -> None:
        """A fault ends the connection that met it, and no other."""
        assert self._loop is not None
        self._loop.call_exception_handler({"message": message, "exception": error, "part": "connection"})
        channel.cut(message)

    def _on_timer(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(self._tick_ms / 1000, self._on_timer)
        self.tick()
