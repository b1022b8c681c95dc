"""A connection that may or may not speak TLS, by its first byte: for clusters that switch TLS on while they run.

A TLS client begins with a handshake record (0x16). No other protocol of a node begins with that: frames of clients and
nodes begin with a length below it, and HTTP with a letter.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

HANDSHAKE: Final = 0x16


class Waiting(Protocol):
    """The acceptor: it bounds the time and the number of connections that have not begun."""

    def shaking(self, connection: Any) -> None: ...

    def opened(self, connection: Any) -> None: ...

    def failed(self, connection: Any, error: Exception) -> None: ...


class PlainOrTls(asyncio.Protocol):
    def __init__(
        self,
        owner: Waiting,
        encrypted: Callable[[], asyncio.BufferedProtocol],
        plain: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._owner = owner
        self._encrypted = encrypted
        self._plain = plain
        self._transport: asyncio.Transport | None = None
        self._is_waiting = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports behave like asyncio's but do not derive from them.
        self._transport = cast(asyncio.Transport, transport)
        self._owner.shaking(self)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or not self._is_waiting:
            return
        self._is_waiting = False
        self._owner.opened(self)
        protocol = self._encrypted() if data[0] == HANDSHAKE else self._plain()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if isinstance(protocol, asyncio.BufferedProtocol):
            _fill(protocol, transport, memoryview(data))
        else:
            cast(asyncio.Protocol, protocol).data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._give_up(error or ConnectionResetError("the other side said nothing"))

    def _give_up(self, error: Exception) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._owner.failed(self, error)

    # Called by the owner.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def abort(self) -> None:
        self._give_up(ConnectionAbortedError("the connection was given up"))
        if self._transport is not None:
            self._transport.abort()


def _fill(protocol: asyncio.BufferedProtocol, transport: asyncio.Transport, data: memoryview) -> None:
    while data and not transport.is_closing():
        room = memoryview(protocol.get_buffer(len(data))).cast("B")
        count = min(len(room), len(data))
        room[:count] = data[:count]
        protocol.buffer_updated(count)
        data = data[count:]
