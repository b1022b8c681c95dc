"""Blocking connections for a caller that makes one request and waits: the caller's own thread writes and reads.

Nothing is batched and no other thread is woken, which saves a sixth of the time of a single record. A connection is
opened for a broker that was wanted often enough, serves one caller at a time, and is discarded at the first failure.
A caller that gets no connection uses the client's loop instead.
"""

import socket
import threading
import time
from typing import Final
from weakref import WeakValueDictionary

from flotilla.client._core.connection import ClientConnection
from flotilla.client.credentials import CredentialsProvider
from flotilla.security.blocking_tls import BlockingTls
from flotilla.security.contexts import FreshContext
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import Index
from flotilla.types.limits import IDLE_MS_MAX, KIB
from flotilla.types.operations import Reply, Request

#: Requests without a connection, since the last one was discarded, after which a broker is worth one.
WORTH_WANTS: Final = 8
#: A broker that takes longer is asked through the loop, which also finds out whether another broker leads by now.
_TIMEOUT_S: Final = 0.25
#: Well before the broker closes an idle connection.
_IDLE_S_MAX: Final = IDLE_MS_MAX / 2_000
_RECEIVE_BYTES: Final = 64 * KIB


class DirectConnection:
    def __init__(
        self,
        address: Address,
        name: str,
        tls: FreshContext | None = None,
        credentials: CredentialsProvider | None = None,
    ) -> None:
        """Connects, greets and logs in. Raises OSError, and FlotillaError when the broker refuses."""
        self.address = address
        self._connection: ClientConnection[DirectConnection] = ClientConnection(credentials)
        self._used_s = time.monotonic()
        below = socket.create_connection((address.host, address.port), timeout=_TIMEOUT_S)
        self._socket: socket.socket | BlockingTls = below
        try:
            below.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = BlockingTls(below, tls.get(), address.host)
            self._socket.sendall(b"".join(self._connection.greet(name)))
            while not self._connection.is_open:
                self._receive()
                if steps := self._connection.take_log_in():
                    self._socket.sendall(b"".join(steps))
        except BaseException:
            self.close()
            raise

    @property
    def is_stale(self) -> bool:
        """Idle for so long that the broker may close it."""
        return time.monotonic() - self._used_s > _IDLE_S_MAX

    def ask(self, request: Request, metadata_index: Index) -> Reply | FlotillaError:
        """The broker's answer, from metadata that are at least as new as the index.

        Raises OSError or FlotillaError when there is none. Then the request may have been carried out, and the
        connection must be discarded.
        """
        _, frame = self._connection.send(request, self, metadata_index)
        self._socket.sendall(b"".join(frame))
        while not (answered := self._receive()):
            pass
        self._used_s = time.monotonic()
        return answered[0][1]

    def _receive(self) -> list[tuple["DirectConnection", Reply | FlotillaError]]:
        data = self._socket.recv(_RECEIVE_BYTES)
        if not data:
            raise UnavailableError(f"the broker at {self.address} ended the connection")
        return self._connection.receive(data)

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        # Its caller was interrupted before it could put it back or discard it.
        opened: socket.socket | BlockingTls | None = getattr(self, "_socket", None)
        if opened is not None:
            opened.close()


class DirectConnections:
    """The direct connections of one client. A thread that takes one owns it until it puts it back or discards it."""

    def __init__(
        self, name: str, tls: FreshContext | None = None, credentials: CredentialsProvider | None = None
    ) -> None:
        """`name` is shown to operators of the broker. With `tls` connections are encrypted."""
        self._name = name
        self._tls = tls
        self._credentials = credentials
        self._lock = threading.Lock()
        self._idle: dict[Address, DirectConnection] = {}
        #: Requests for a broker while no connection was idle.
        self._wants: dict[Address, int] = {}
        #: Every connection that was made last and is still held by some thread. One that was interrupted holds nothing.
        self._made: WeakValueDictionary[Address, DirectConnection] = WeakValueDictionary()
        self._is_closed = False

    def take(self, address: Address) -> DirectConnection | None:
        """None: another thread has it, or it cannot be made, or is not worth it yet."""
        with self._lock:
            connection = self._idle.pop(address, None)
            if connection is None:
                wants = self._wants[address] = self._wants.get(address, 0) + 1
                if wants < WORTH_WANTS or self._is_closed or self._made.get(address) is not None:
                    return None
        if connection is None:
            try:
                made = DirectConnection(address, self._name, self._tls, self._credentials)
                self._made[address] = made
                return made
            except (OSError, FlotillaError):
                self._forget(address)
                return None
        if connection.is_stale:
            self.discard(connection)
            return None
        return connection

    def put_back(self, connection: DirectConnection) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle[connection.address] = connection
                return
        connection.close()

    def discard(self, connection: DirectConnection) -> None:
        connection.close()
        with self._lock:
            if self._idle.get(connection.address) is connection:
                del self._idle[connection.address]
            if self._made.get(connection.address) is connection:
                del self._made[connection.address]
        self._forget(connection.address)

    def close(self) -> None:
        """Closes idle connections; one that is in use is closed when it is put back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = list(self._idle.values()), {}
        for connection in idle:
            connection.close()

    def _forget(self, address: Address) -> None:
        with self._lock:
            self._wants.pop(address, None)
