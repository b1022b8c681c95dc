"""One TCP connection between two nodes: frames in, frames out, and a check that the other side is alive.

Both sides of a link use it. It knows lengths, not contents: each whole frame goes to its owner,
except the empty one, which is a ping. Liveness is counted in checks of a timer, not in clock
time: after a pause of this process one check finds the silence, not four, so a node that was
paused does not cut healthy links. A peer that sends nothing, or takes nothing, for a few checks in a
row counts as dead (types/timing).

The end comes exactly once, through `connection_lost`; after `cut` no frame is delivered.
"""

import asyncio
import socket
from typing import Protocol, cast

from flotilla.codec.frames import LENGTH_BYTES, Buffer, FrameReader
from flotilla.peers.handshake import HANDSHAKE_BYTES_MAX
from flotilla.types.address import Address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KIB, MIB, PEER_FRAME_BYTES_MAX
from flotilla.types.timing import SILENT_CHECKS_MAX

#: An empty frame, as a sign of life.
PING = bytes(LENGTH_BYTES)
#: One read receives at most this much, unless it goes into the memory of a large frame.
SCRATCH_BYTES = 128 * KIB

#: The transport pauses writing above the first and resumes it below the second.
WRITE_BUFFER_HIGH_BYTES = 4 * MIB
WRITE_BUFFER_LOW_BYTES = 1 * MIB


class PeerConnectionOwner(Protocol):
    """The receiver of a connection's events. Called on the loop, never from within `write`."""

    def connection_made(self, connection: "PeerConnection") -> None: ...

    def frame_received(self, connection: "PeerConnection", frame: Buffer) -> None: ...

    def connection_writable(self, connection: "PeerConnection") -> None: ...

    def connection_lost(self, connection: "PeerConnection") -> None: ...


class PeerConnection(asyncio.BufferedProtocol):
    def __init__(self, owner: PeerConnectionOwner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        # Before the handshake no frame may be longer than one.
        self._frames = FrameReader(HANDSHAKE_BYTES_MAX, bytes)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        #: The loop receives into the memory of a large frame, not into the scratch.
        self._is_direct = False
        #: The handshake is done: messages may flow.
        self.is_open = False
        #: Cut or lost. Nothing is delivered from here on.
        self.is_closed = False
        #: Why it ended, as a text for operators; empty: the other side closed it.
        self.reason = ""
        #: What the transport said about it.
        self.error: Exception | None = None
        self.is_paused = False
        self.received_bytes = 0
        self._heard = False
        self._spoke = False
        self._silent_checks = 0
        self._stalled_checks = 0
        self._unwritten_bytes = 0

    def open(self) -> None:
        """The handshake is done."""
        assert not self.is_open
        self.is_open = True
        self._frames.frame_bytes_max = PEER_FRAME_BYTES_MAX

    @property
    def remote(self) -> str:
        """The address of the other side, as a text for operators; empty when it is gone."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(Address(*name[:2])) if name else ""

    @property
    def host(self) -> str:
        """The host of the other side; empty when it is gone."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    @property
    def is_encrypted(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("ssl_object") is not None

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    def write(self, buffers: list[Buffer]) -> None:
        """Writes whole frames to the socket. The buffers must not change afterwards."""
        if self.is_closed or self._transport is None:
            return
        self._spoke = True
        try:
            self._transport.writelines(buffers)
        except RuntimeError as error:
            # uvloop may close a transport without reporting it. That must end this connection and nothing else.
            self.cut(str(error))

    def finish(self, reason: str) -> None:
        """Closes after the written bytes have left."""
        if not self.is_closed:
            self.is_closed = True
            self.reason = reason
            if self._transport is not None:
                self._transport.close()

    def cut(self, reason: str) -> None:
        """Ends at once; buffered bytes are lost."""
        if not self.is_closed:
            self.is_closed = True
            self.reason = reason
        if self._transport is not None:
            self._transport.abort()

    def check(self) -> None:
        """One liveness check: sends a ping if nothing was written since the last one, cuts a dead connection."""
        if self.is_closed or self._transport is None:
            return
        # Before the handshake bytes do not reset the count: a slow sender gets no more time.
        self._silent_checks = 0 if self._heard and self.is_open else self._silent_checks + 1
        self._stalled_checks = self._stalled_checks + 1 if self._is_stalled(self._transport) else 0
        if self._silent_checks >= SILENT_CHECKS_MAX:
            self.cut("silent" if self.is_open else "no handshake")
        elif self._stalled_checks >= SILENT_CHECKS_MAX:
            self.cut("does not read")
        elif self.is_open and not self._spoke:
            self.write([PING])
        self._heard = False
        self._spoke = False

    def _is_stalled(self, transport: asyncio.Transport) -> bool:
        """Whether bytes wait for the socket and none has left since the last check."""
        before, self._unwritten_bytes = self._unwritten_bytes, transport.get_write_buffer_size()
        return self.is_paused and self._unwritten_bytes >= before > 0

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports do not derive from asyncio's, though they behave like them.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES, low=WRITE_BUFFER_LOW_BYTES)
        endpoint = transport.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.is_closed:
            transport.abort()
        else:
            self._owner.connection_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._frames.room()
        self._is_direct = room is not None
        return self._scratch if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = True
        self.received_bytes += nbytes
        if self.is_closed:
            return
        try:
            frames = self._frames.feed(nbytes if self._is_direct else self._scratch[:nbytes])
        except InvalidArgumentError as error:
            self.cut(str(error))
        else:
            self._deliver(frames)

    def _deliver(self, frames: list[Buffer]) -> None:
        for frame in frames:
            if self.is_closed:
                break
            if frame:
                self._owner.frame_received(self, frame)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        if not self.is_closed:
            self._owner.connection_writable(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self.error = error
        if error is not None and not self.reason:
            self.reason = str(error)
        self._transport = None
        self._owner.connection_lost(self)
