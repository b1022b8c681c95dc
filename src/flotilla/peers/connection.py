"""One TCP connection between two nodes: frames in, frames out, and whether the other side is alive.

Both sides of a link use it. It knows lengths, not contents: each whole frame goes to its owner,
except the empty one, which only says "I am here". Liveness is counted in checks of a timer, not
in clock time: after a pause of this very process one check finds old silence, not four, so a node
that slept does not cut links that are well.

The end comes exactly once, through `connection_lost`; after `cut` nothing is delivered any more.
"""

import asyncio
import socket
from typing import Protocol, cast

from flotilla.codec.frames import LENGTH_BYTES, Buffer, FrameReader
from flotilla.peers.handshake import HANDSHAKE_BYTES_MAX
from flotilla.types.address import Address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KIB, MIB, PEER_FRAME_BYTES_MAX

#: An empty frame: nothing but a sign of life.
PING = bytes(LENGTH_BYTES)
#: One read receives at most this much of small frames.
SCRATCH_BYTES = 128 * KIB
#: Every connection is looked at this often; if it was not written to since, it gets a ping.
CHECK_INTERVAL_MS = 300
#: So many checks in a row without a byte from the other side, or without room for a byte to it, and it is
#: taken for dead: 0.9 to 1.2 s, about the shortest election timeout.
SILENT_CHECKS_MAX = 4

#: The transport asks for a pause above the first and for more below the second.
WRITE_BUFFER_HIGH_BYTES = 4 * MIB
WRITE_BUFFER_LOW_BYTES = 1 * MIB


class PeerConnectionOwner(Protocol):
    """Who is told what happens on a connection. Called on the loop, never re-entered from `write`."""

    def connection_made(self, connection: "PeerConnection") -> None: ...

    def frame_received(self, connection: "PeerConnection", frame: Buffer) -> None: ...

    def connection_writable(self, connection: "PeerConnection") -> None: ...

    def connection_lost(self, connection: "PeerConnection") -> None: ...


class PeerConnection(asyncio.BufferedProtocol):
    def __init__(self, owner: PeerConnectionOwner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        # Before the handshake nobody may send more than a handshake.
        self._frames = FrameReader(HANDSHAKE_BYTES_MAX, bytes)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        #: The loop receives into the memory of a large frame, not into the scratch.
        self._is_direct = False
        #: The handshake is done: messages may flow.
        self.is_open = False
        #: Cut or lost. Nothing is delivered from here on.
        self.is_closed = False
        #: Why it ended, for people; empty: the other side closed it.
        self.reason = ""
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
        """Where the other side is, for people; empty when it is gone."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(Address(*name[:2])) if name else ""

    def write(self, buffers: list[Buffer]) -> None:
        """Hands whole frames to the socket. The buffers must not change afterwards."""
        if self.is_closed or self._transport is None:
            return
        self._spoke = True
        try:
            self._transport.writelines(buffers)
        except RuntimeError as error:
            # uvloop may close a transport without reporting it. That must end this connection and nothing else.
            self.cut(str(error))

    def finish(self, reason: str) -> None:
        """Closes after what was written has left."""
        if not self.is_closed:
            self.is_closed = True
            self.reason = reason
            if self._transport is not None:
                self._transport.close()

    def cut(self, reason: str) -> None:
        """Ends at once; what is still buffered is lost."""
        if not self.is_closed:
            self.is_closed = True
            self.reason = reason
        if self._transport is not None:
            self._transport.abort()

    def check(self) -> None:
        """One liveness check: speaks if nothing was said since the last one, cuts a dead connection."""
        if self.is_closed or self._transport is None:
            return
        # A stranger gets the same time for his handshake however slowly he spells it.
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

    # What the event loop calls.

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
        if error is not None and not self.reason:
            self.reason = str(error)
        self._transport = None
        self._owner.connection_lost(self)
