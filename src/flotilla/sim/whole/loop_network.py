"""The sockets of a simulated event loop: dialling, listening, and transports as asyncio has them."""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from typing import Any

from flotilla.sim.whole.loop import ProcessLoop
from flotilla.sim.whole.process import Process
from flotilla.sim.whole.sockets import Internet, ListeningSocket, SimSocket

#: One read takes at most this much, as in asyncio.
_READ_BYTES = 256 * 1024
_HIGH_BYTES = 64 * 1024
#: Until a name is found.
_RESOLVE_US = 100
#: A server that cannot accept a connection tries again after this long, as in asyncio.
_ACCEPT_AGAIN_S = 1


class NetworkedLoop(ProcessLoop):
    def __init__(self, process: Process, internet: Internet) -> None:
        super().__init__(process)
        self._internet = internet

    def listen(self, address: tuple[object, ...]) -> ListeningSocket:
        """Raises OSError."""
        return self._internet.listen(self.process, address)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        await asyncio.sleep(_RESOLVE_US / 1_000_000)
        address = self.process.host.address if not host or host in ("0.0.0.0", "::", "127.0.0.1") else host
        found = self._internet.resolve(address)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port))]

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        address = (await self.getaddrinfo(host, port))[0][4][0]
        process = self.process
        if len(process.sockets) >= process.descriptors_max:
            raise OSError(errno.EMFILE, "Too many open files")
        answered: asyncio.Future[SimSocket] = self.create_future()

        def done(result: SimSocket | OSError) -> None:
            self.call_soon(_answer, answered, result)

        dialling = self._internet.dial(process, address, port, done)
        try:
            connected = await answered
        except BaseException:
            dialling.reset()
            raise
        return await self._open(connected, protocol_factory)

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], sock: SimSocket, **_: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self._open(sock, protocol_factory)

    async def _open(
        self, connected: SimSocket, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        protocol = protocol_factory()
        transport = SimTransport(self, connected, protocol)
        made: asyncio.Future[None] = self.create_future()
        self.call_soon(transport.begin, made)
        try:
            await made
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: Any
    ) -> "SimServer":
        address = (await self.getaddrinfo(host, port))[0][4]
        return SimServer(self, protocol_factory, self.listen(address))

    def add_reader(  # type: ignore[override]
        self, listening: ListeningSocket, callback: Callable[..., object], *args: Any
    ) -> None:
        is_scheduled = False

        def ready() -> None:
            nonlocal is_scheduled
            if not is_scheduled:
                is_scheduled = True
                self.call_soon(read)

        def read() -> None:
            nonlocal is_scheduled
            is_scheduled = False
            if listening.on_ready is ready:
                callback(*args)
                if listening.queue and listening.on_ready is ready:
                    ready()

        listening.on_ready = ready
        if listening.queue:
            ready()

    def remove_reader(self, listening: ListeningSocket) -> bool:  # type: ignore[override]
        was_set = listening.on_ready is not None
        listening.on_ready = None
        return was_set


def _answer(answered: "asyncio.Future[SimSocket]", result: SimSocket | OSError) -> None:
    if answered.done():
        if isinstance(result, SimSocket):
            result.reset()
    elif isinstance(result, OSError):
        answered.set_exception(result)
    else:
        answered.set_result(result)


class SimServer:
    """What the product uses of asyncio.Server."""

    def __init__(
        self, loop: NetworkedLoop, factory: Callable[[], asyncio.BaseProtocol], listening: ListeningSocket
    ) -> None:
        self.sockets = [listening]
        self._loop = loop
        self._factory = factory
        loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: ListeningSocket) -> None:
        while listening.queue:
            try:
                accepted, _ = listening.accept()
            except OSError:
                self._loop.remove_reader(listening)
                self._loop.call_later(_ACCEPT_AGAIN_S, self._accept_again, listening)
                return
            transport = SimTransport(self._loop, accepted, self._factory())
            self._loop.call_soon(transport.begin, None)

    def _accept_again(self, listening: ListeningSocket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        for listening in self.sockets:
            listening.close()
        self.sockets = []

    async def wait_closed(self) -> None:
        """Connections go on, as in asyncio."""


class SimTransport(asyncio.Transport):
    def __init__(self, loop: NetworkedLoop, connected: SimSocket, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": connected.remote, "sockname": connected.local})
        self._loop = loop
        self._socket = connected
        self._protocol: Any = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._is_closing = False
        self._is_lost = False
        self._is_reading = True
        self._is_read_scheduled = False
        self._is_writing_paused = False
        self._high = _HIGH_BYTES
        self._low = _HIGH_BYTES // 4
        self._is_ended = False

    def begin(self, made: "asyncio.Future[None] | None") -> None:
        self._protocol.connection_made(self)
        if made is not None and not made.done():
            made.set_result(None)
        if self._is_closing:
            return
        self._socket.on_readable = self._readable
        self._socket.on_sent = self._sent
        if self._socket.inbox or self._socket.is_ended or not self._socket.is_open:
            self._readable()

    # Reading.

    def _readable(self) -> None:
        if not self._is_read_scheduled and (self._is_reading or not self._socket.is_open):
            self._is_read_scheduled = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_read_scheduled = False
        connected = self._socket
        if self._is_closing:
            if connected.error is not None:
                self._lose(connected.error)
            return
        if connected.error is not None:
            self._lose(connected.error)
            return
        if not self._is_reading:
            return
        if connected.inbox:
            self._receive(connected)
        elif connected.is_ended and not self._is_ended:
            self._is_ended = True
            if not self._protocol.eof_received():
                self.close()
            return
        if self.is_reading() and (connected.inbox or connected.is_ended):
            self._readable()

    def _receive(self, connected: SimSocket) -> None:
        if self._is_buffered:
            buffer = self._protocol.get_buffer(-1)
            at = 0
            for piece in connected.take(len(buffer)):
                buffer[at : at + len(piece)] = piece
                at += len(piece)
            self._protocol.buffer_updated(at)
        else:
            self._protocol.data_received(b"".join(connected.take(_READ_BYTES)))

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._readable()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    # Writing.

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self._is_closing or self._is_lost:
            return
        # One piece, as in asyncio, and copied: a caller may use its memory again, and the bytes leave later.
        self._socket.push(b"".join(list_of_data))
        if self._socket.unsent_bytes > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def _sent(self) -> None:
        """Bytes have left; on no process's turn."""
        if self._is_writing_paused and self._socket.unsent_bytes <= self._low:
            self._loop.call_soon(self._resume_writing)
        elif self._is_closing and not self._socket.unsent_bytes:
            self._loop.call_soon(self._close_empty)

    def _resume_writing(self) -> None:
        if self._is_writing_paused and not self._is_lost:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        if self._is_closing and not self._socket.unsent_bytes:
            self._close_empty()

    def get_write_buffer_size(self) -> int:
        return self._socket.unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (self._low, self._high)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._socket.finish()

    # The end.

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """After what was written has left."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._socket.unsent_bytes:
            self._loop.call_soon(self._close_empty)

    def _close_empty(self) -> None:
        if not self._is_lost:
            self._socket.close()
            self._lose(None)

    def abort(self) -> None:
        if self._is_lost:
            return
        self._is_closing = True
        self._socket.reset()
        self._loop.call_soon(self._lose, None)

    def _lose(self, error: OSError | None) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._socket.on_readable = self._socket.on_sent = None
            self._protocol.connection_lost(error)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol
