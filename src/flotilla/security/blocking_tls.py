"""TLS on a blocking socket, for a caller that writes a request and waits for its answer.

The library's own sockets make a system call for each record of 16 KiB, and wake the other side as often. Here the
records of a request are encrypted first and leave together.
"""

import socket
import ssl
from typing import Final

from flotilla.types.limits import KIB

#: Written, and read from the socket, at once. The library never returns memory that it once took for more.
CHUNK_BYTES: Final = 256 * KIB
_RECEIVE_BYTES: Final = 64 * KIB


class BlockingTls:
    """What DirectConnection uses of a socket. Times out as the socket below does."""

    def __init__(self, below: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Shakes hands. Raises OSError."""
        self._below = below
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._ssl.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
        self._flush()

    def sendall(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK_BYTES):
            self._ssl.write(memoryview(data)[at : at + CHUNK_BYTES])
            self._flush()

    def recv(self, size: int) -> bytes:
        """Empty: the other side has ended the connection."""
        if not self._incoming.pending and not self._ssl.pending():
            self._receive()
        while True:
            try:
                return self._ssl.read(size)
            except ssl.SSLWantReadError:
                # It may have asked for new keys.
                self._flush()
                self._receive()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def close(self) -> None:
        self._below.close()

    def _receive(self) -> None:
        data = self._below.recv(_RECEIVE_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.sendall(self._outgoing.read())
