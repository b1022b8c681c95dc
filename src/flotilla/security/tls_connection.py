"""TLS on one connection: a protocol to the transport below, and a transport to the protocol above.

The event loops have TLS of their own, but hide what it buffers: bytes that a client does not read would count against
no bound. Here everything that is written is encrypted at once and handed to the transport below, so that its marks,
its sizes and its pauses are those that the protocol above gets. What is received waits encrypted while the protocol
above does not want to read: at most one read.

    shaking   the handshake; the protocol above does not exist yet
    open      bytes go both ways
    ended     this side has said that it sends no more; what comes is dropped
    closed    nothing comes or goes

A handshake that fails is reported to its owner, and everything later to the protocol above.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, cast

from flotilla.security.contexts import TlsError, explain

#: What the largest record of TLS holds. Memory that the library takes for more it never returns.
RECORD_BYTES: Final = 16 * 1024
#: One read of the transport below.
SCRATCH_BYTES: Final = 64 * 1024

SHAKING: Final = "shaking"
OPEN: Final = "open"
ENDED: Final = "ended"
CLOSED: Final = "closed"


class TlsOwner(Protocol):
    """Whoever accepted or dialled the connection. Each connection is reported once by the last two."""

    def shaking(self, connection: "TlsConnection") -> None: ...

    def judge(self, names: ssl.SSLObject) -> str:
        """Why the certificate of the other side will not do, although it is valid; empty: it will."""

    def opened(self, connection: "TlsConnection") -> None: ...

    def failed(self, connection: "TlsConnection", error: Exception) -> None: ...


class TlsConnection(asyncio.BufferedProtocol):
    def __init__(
        self,
        owner: TlsOwner,
        above: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        scratch: memoryview,
        *,
        host: str | None = None,
    ) -> None:
        """`above` makes the protocol when the handshake is done. `host` is dialled; None: this side accepts."""
        self._owner = owner
        self._make_above = above
        self._scratch = scratch
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=host is None, server_hostname=host)
        self._state = SHAKING
        self._below: asyncio.Transport | None = None
        self._above: Any = None
        self._is_buffered = False
        self._is_reading = True
        self._is_delivering = False
        #: What broke the connection, although the transport below was well.
        self._error: Exception | None = None

    # Called by the transport below.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports behave like asyncio's but do not derive from them.
        self._below = cast(asyncio.Transport, transport)
        if self._state == CLOSED:
            self._below.abort()
            return
        self._owner.shaking(self)
        if self._state == SHAKING:
            self._shake()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self._state in (ENDED, CLOSED):
            return
        self._incoming.write(self._scratch[:nbytes])
        if self._state == SHAKING:
            self._shake()
        else:
            self._deliver()

    def eof_received(self) -> bool:
        if self._state == SHAKING:
            self._fail(ConnectionResetError("the other side ended the handshake"))
            return False
        self._incoming.write_eof()
        return self._state in (OPEN, ENDED) and bool(self._above.eof_received())

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if self._state == SHAKING:
            self._fail(error or ConnectionResetError("the other side ended the handshake"))
        self._state = CLOSED
        above, self._above = self._above, None
        if above is not None:
            above.connection_lost(error or self._error)
        self._below = None

    # The handshake.

    def _shake(self) -> None:
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (OSError, ValueError) as error:
            # SSLError is an OSError; ValueError: a certificate with a name that no string can be.
            self._fail(error)
            return
        refusal = self._owner.judge(self._ssl)
        if refusal:
            self._fail(ConnectionRefusedError(refusal))
            return
        self._flush()
        self._state = OPEN
        self._above = self._make_above()
        self._is_buffered = isinstance(self._above, asyncio.BufferedProtocol)
        self._owner.opened(self)
        self._above.connection_made(self)
        self._deliver()

    def _fail(self, error: Exception) -> None:
        """Ends the handshake; the other side is told why as far as TLS has a word for it."""
        self._flush()
        self._state = CLOSED
        if self._below is not None:
            self._below.close()
        self._owner.failed(self, error)

    def _flush(self) -> None:
        if self._outgoing.pending and self._below is not None and not self._below.is_closing():
            try:
                self._below.write(self._outgoing.read())
            except RuntimeError:
                # uvloop may close a transport without reporting it. Nothing that TLS itself says matters then.
                self._below.abort()

    # Reading.

    def _deliver(self) -> None:
        """Decrypts what has come, as long as the protocol above wants it."""
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._is_reading and self._state == OPEN and self._deliver_some():
                pass
        finally:
            self._is_delivering = False
        if self._outgoing.pending:
            # New keys were asked for.
            self._flush()

    def _deliver_some(self) -> bool:
        """False: there is nothing more to decrypt now."""
        try:
            if self._is_buffered:
                return self._fill(self._above.get_buffer(-1))
            data = self._ssl.read(SCRATCH_BYTES)
            if data:
                self._above.data_received(data)
                return True
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            self._break(error)
            return False
        self._end_of_input()
        return False

    def _fill(self, buffer: memoryview) -> bool:
        size = filled = 0
        room = len(buffer)
        try:
            # Into a buffer the library reads a number of bytes, whatever its stub says.
            while filled < room and (size := cast(int, self._ssl.read(room - filled, buffer[filled:]))):
                filled += size
        except ssl.SSLWantReadError:
            size = 1
        except ssl.SSLZeroReturnError:
            size = 0
        except ssl.SSLError as error:
            self._break(error)
            return False
        if filled:
            self._above.buffer_updated(filled)
        if not size and self._state == OPEN:
            self._end_of_input()
            return False
        return filled == room

    def _end_of_input(self) -> None:
        if not self._above.eof_received():
            self.close()

    def _break(self, error: Exception) -> None:
        self._error = TlsError(explain(error))
        self._flush()
        self._state = CLOSED
        if self._below is not None:
            self._below.close()

    # Called by the protocol above: a transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._ssl
        return default if self._below is None else self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._state == CLOSED or self._below is None or self._below.is_closing()

    def is_reading(self) -> bool:
        return self._is_reading and not self.is_closing()

    def pause_reading(self) -> None:
        self._is_reading = False
        if self._below is not None and not self._below.is_closing():
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._is_reading or self._below is None or self._below.is_closing():
            return
        self._is_reading = True
        self._below.resume_reading()
        # The protocol above may be in the middle of something.
        asyncio.get_running_loop().call_soon(self._deliver)

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, buffers: Iterable[Any]) -> None:
        if self._state != OPEN or self._below is None or self._below.is_closing():
            return
        data = memoryview(b"".join(buffers))
        if len(data) <= RECORD_BYTES:
            if data:
                self._ssl.write(data)
                self._below.write(self._outgoing.read())
            return
        records = []
        for at in range(0, len(data), RECORD_BYTES):
            self._ssl.write(data[at : at + RECORD_BYTES])
            records.append(self._outgoing.read())
        self._below.writelines(records)

    def get_write_buffer_size(self) -> int:
        return 0 if self._below is None else self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._below is not None:
            self._below.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._state == OPEN:
            self._say_goodbye()
            self._state = ENDED
            if self._below is not None and not self._below.is_closing():
                self._below.write_eof()

    def close(self) -> None:
        """Closes after the written bytes have left."""
        if self._state == OPEN:
            self._say_goodbye()
        self._state = CLOSED
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        """Ends at once; buffered bytes are lost."""
        is_shaking = self._state == SHAKING
        self._state = CLOSED
        if self._below is not None:
            self._below.abort()
        if is_shaking:
            self._owner.failed(self, ConnectionAbortedError("the handshake was given up"))

    def _say_goodbye(self) -> None:
        """So that the other side can tell the end from a cut."""
        try:
            self._ssl.unwrap()
        except ssl.SSLError:
            # The other side has not said it yet, and need not.
            pass
        self._flush()
