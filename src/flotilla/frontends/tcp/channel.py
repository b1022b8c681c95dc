"""The socket's side of one client connection: moves bytes between a transport and a Connection.

Answers of one turn of the loop leave in one write. While the transport holds more than its high-water
mark, answers stay in the Connection, where they count as requests under way: so a client that does
not read is not read from, and what it can make us hold is bounded. A connection that ends with a
word of why sends it, closes its half, and reads and forgets for a moment: closing at once with
bytes unread would make the system drop the word.

All channels receive small frames into one buffer of the server. That is right because a loop reads and
reports in one go, as uvloop and the selector loops do.
"""

import asyncio
import socket
from typing import Protocol, cast

from flotilla.frontends.tcp.connection import CLOSING, OPEN, Connection, is_too_slow
from flotilla.types.limits import KIB, MIB

#: The transport asks for a pause above the first and for more below the second.
WRITE_BUFFER_HIGH_BYTES = 1 * MIB
WRITE_BUFFER_LOW_BYTES = 256 * KIB
#: How many ticks a client has to take note of the end.
LINGER_TICKS_MAX = 2


class ChannelOwner(Protocol):
    """The server, as its channels see it. Called on the loop."""

    @property
    def scratch(self) -> memoryview:
        """Where all channels receive."""

    def connection_for(self, channel: "Channel") -> Connection: ...

    def entered(self, channel: "Channel") -> None: ...

    def schedule(self, channel: "Channel") -> None:
        """Has `flush` called at the end of this turn of the loop, once."""

    def lost(self, channel: "Channel") -> None: ...


class Channel(asyncio.BufferedProtocol):
    def __init__(self, owner: ChannelOwner) -> None:
        self.connection = owner.connection_for(self)
        self._owner = owner
        self._scratch = owner.scratch
        self._transport: asyncio.Transport | None = None
        self.received_bytes = 0
        self.sent_bytes = 0
        #: `flush` has been scheduled.
        self.is_scheduled = False
        #: The last room was memory of a frame.
        self._is_direct = False
        self._is_reading = True
        #: The transport has asked for a pause.
        self._is_congested = False
        #: The end has been sent.
        self._is_ended = False
        #: Since one of them began: ticks, and what was still to be written then.
        self._waited_ticks = 0
        self._unwritten_bytes = 0

    # What the server calls.

    def flush(self) -> None:
        """Writes what has gathered, ends what is at its end, and goes on where bounds had stopped it."""
        self.is_scheduled = False
        transport = self._transport
        if transport is None or self._is_ended or transport.is_closing():
            return
        connection = self.connection
        # What was written in earlier turns: the loop has had its chance to send that.
        connection.set_unwritten(transport.get_write_buffer_size())
        if connection.output_bytes and not self._is_congested:
            self.sent_bytes += connection.output_bytes
            transport.writelines(connection.take_output())
        if connection.state != OPEN:
            self._end_if_due(transport)
        # Of whom is being read, everything that is whole has been handed out.
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
        """Ends at once; what is still to be written is lost."""
        self.connection.finish(reason)
        if self._transport is not None:
            self._transport.abort()

    def _watch(self, transport: asyncio.Transport) -> None:
        """From now on the client is expected to read."""
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
        """A client that has ended its half is gone: nobody would read the answers of what it left waiting."""
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
