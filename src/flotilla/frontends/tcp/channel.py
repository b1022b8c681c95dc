"""The socket's side of one client connection: moves bytes between a transport and a Connection.

The answers of one iteration of the loop leave in one write. While the transport buffers more than its high-water
mark, answers stay in the Connection, where their requests count as in flight: so reading stops for a client that does
not read, and the memory that it can occupy is bounded. A connection that ends with an error sends it, closes its half,
and reads and drops bytes for a moment: closing at once with bytes unread would make the system drop the error.

All channels receive small frames into one buffer of the server. That is safe because the loops (uvloop and asyncio's
selector loops) read and report in one step.
"""

import asyncio
import socket
from typing import Protocol, cast

from flotilla.frontends.tcp.connection import CLOSING, OPEN, Connection, is_too_slow
from flotilla.machine import steady_ms
from flotilla.types.access import Principal
from flotilla.types.address import Address
from flotilla.types.limits import KIB, MIB

#: Marks at which the transport pauses and resumes writing.
WRITE_BUFFER_HIGH_BYTES = 1 * MIB
WRITE_BUFFER_LOW_BYTES = 256 * KIB
#: Ticks after the end in which the client may close its side.
LINGER_TICKS_MAX = 2


class ChannelOwner(Protocol):
    """What a channel needs of the server. Called on the loop."""

    @property
    def scratch(self) -> memoryview:
        """The buffer into which all channels receive."""

    def connection_for(self, channel: "Channel") -> Connection: ...

    def principal_of(self, transport: asyncio.BaseTransport) -> Principal | None:
        """Whom the certificate of the client names; None: it showed none."""

    def entered(self, channel: "Channel") -> None: ...

    def schedule(self, channel: "Channel") -> None:
        """Schedules one call of `flush` at the end of this iteration of the loop."""

    def lost(self, channel: "Channel") -> None: ...


class Channel(asyncio.BufferedProtocol):
    def __init__(self, owner: ChannelOwner) -> None:
        self.connection = owner.connection_for(self)
        self._owner = owner
        self._scratch = owner.scratch
        self._transport: asyncio.Transport | None = None
        #: Of the client, once it is connected; None: not known.
        self.address: Address | None = None
        #: When it was connected.
        self.since_ms = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        #: `flush` has been scheduled.
        self.is_scheduled = False
        #: The last buffer was the memory of a frame.
        self._is_direct = False
        self._is_reading = True
        #: The transport has paused writing.
        self._is_congested = False
        #: The end has been sent.
        self._is_ended = False
        #: Since either of these two was set: ticks, and the bytes that the transport buffered then.
        self._waited_ticks = 0
        self._unwritten_bytes = 0

    # What the server calls.

    @property
    def is_encrypted(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("ssl_object") is not None

    def flush(self) -> None:
        """Writes the gathered answers, ends the connection if it is due, and reads on where bounds had stopped it."""
        self.is_scheduled = False
        transport = self._transport
        if transport is None or self._is_ended or transport.is_closing():
            return
        connection = self.connection
        # Bytes of earlier iterations: the loop has had the chance to send them.
        connection.set_unwritten(transport.get_write_buffer_size())
        if connection.output_bytes and not self._is_congested:
            self.sent_bytes += connection.output_bytes
            transport.writelines(connection.take_output())
        if connection.state != OPEN:
            self._end_if_due(transport)
        # While reading is on, every whole request has been served already.
        if not self._is_reading and connection.pump():
            self._set_reading(transport, on=True)

    def tick(self) -> None:
        """A second has passed."""
        transport = self._transport
        if transport is None:
            return
        unwritten = transport.get_write_buffer_size()
        self.connection.set_unwritten(unwritten)
        is_ending = self._is_ended or transport.is_closing()
        if not is_ending and not self._is_congested:
            self.connection.tick()
            return
        self._waited_ticks += 1
        if unwritten and is_too_slow(self._waited_ticks, self._unwritten_bytes - unwritten):
            self.cut("does not read its answers")
        elif is_ending and not unwritten and self._waited_ticks > LINGER_TICKS_MAX:
            transport.abort()

    def cut(self, reason: str) -> None:
        """Ends at once; unwritten answers are lost."""
        self.connection.finish(reason)
        if self._transport is not None:
            self._transport.abort()

    def _watch(self, transport: asyncio.Transport) -> None:
        """Starts to measure how fast the client reads."""
        self._waited_ticks = 0
        self._unwritten_bytes = transport.get_write_buffer_size()

    def _end_if_due(self, transport: asyncio.Transport) -> None:
        connection = self.connection
        if connection.is_drained:
            connection.finish("shutting down")
        if connection.state == CLOSING and not connection.output_bytes:
            self._is_ended = True
            self._watch(transport)
            transport.write_eof()

    def _set_reading(self, transport: asyncio.Transport, *, on: bool) -> None:
        if not transport.is_closing():
            self._is_reading = on
            if on:
                transport.resume_reading()
            else:
                transport.pause_reading()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports do not derive from asyncio's, though they behave like them.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES, low=WRITE_BUFFER_LOW_BYTES)
        endpoint = transport.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.peer_principal = self._owner.principal_of(transport)
        self.address = _address_of(transport.get_extra_info("peername"))
        self.since_ms = steady_ms()
        self._owner.entered(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self.connection.frames.room()
        self._is_direct = room is not None
        return self._scratch if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        if self._is_direct:
            is_wanted = self.connection.received(nbytes)
        else:
            is_wanted = self.connection.feed(self._scratch[:nbytes])
        if not is_wanted and self._transport is not None:
            self._set_reading(self._transport, on=False)

    def eof_received(self) -> bool:
        """A client that has closed its half is gone: it would not read the answers."""
        return False

    def pause_writing(self) -> None:
        self._is_congested = True
        if self._transport is not None:
            self._watch(self._transport)
            self.connection.set_unwritten(self._unwritten_bytes)

    def resume_writing(self) -> None:
        self._is_congested = False
        self._owner.schedule(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.connection.finish("" if error is None else str(error))
        self.connection.take_output()
        self.connection.set_unwritten(0)
        self._owner.lost(self)


def _address_of(peer: object) -> Address | None:
    """Of a socket's other end."""
    return Address(str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and len(peer) > 1 else None
