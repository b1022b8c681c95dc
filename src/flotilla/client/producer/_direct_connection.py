"""Connections for whoever asks one thing and waits for it: the caller's own thread writes and reads.

Nothing is gathered on the way and no other thread is woken, which is a sixth of the time of a record that travels
alone. A connection is opened for a broker that was wanted often enough, serves one caller at a time, and is given up
at the first trouble. Whoever uses one has another way, too, and goes that when there is none to be had.
"""

import socket
import threading
import time
from typing import Final

from flotilla.client._core.connection import ClientConnection
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.limits import IDLE_MS_MAX, KIB
from flotilla.types.operations import Reply, Request

#: A broker is worth a connection when it was wanted so often in vain, since the last one was given up if there was one.
WORTH_WANTS: Final = 8
#: A broker that takes longer is asked the other way, which also finds out whether somebody else leads by now.
_PATIENCE_S: Final = 0.25
#: Well before the broker does.
_IDLE_S_MAX: Final = IDLE_MS_MAX / 2_000
_RECEIVE_BYTES: Final = 64 * KIB


class DirectConnection:
    def __init__(self, address: Address, name: str) -> None:
        """Is open when it has been made. Raises OSError, and FlotillaError when the broker does not want it."""
        self.address = address
        self._connection: ClientConnection[DirectConnection] = ClientConnection()
        self._used_s = time.monotonic()
        self._socket = socket.create_connection((address.host, address.port), timeout=_PATIENCE_S)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(b"".join(self._connection.greet(name)))
            while not self._connection.is_open:
                self._receive()
        except BaseException:
            self.close()
            raise

    @property
    def is_stale(self) -> bool:
        """Not used for so long that the broker may end it."""
        return time.monotonic() - self._used_s > _IDLE_S_MAX

    def ask(self, request: Request) -> Reply | FlotillaError:
        """The broker's answer. Raises OSError or FlotillaError when there is none: then it may have been carried out,
        and the connection is good for nothing."""
        _, frame = self._connection.send(request, self)
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


class DirectConnections:
    """Those of one client. Any thread may take one, and has it to itself until it brings it back or gives it up."""

    def __init__(self, name: str) -> None:
        """`name` tells people at the broker who is connected."""
        self._name = name
        self._lock = threading.Lock()
        self._idle: dict[Address, DirectConnection] = {}
        #: How often a broker was wanted while none was here. Beyond what makes it worth one: somebody has it.
        self._wants: dict[Address, int] = {}
        self._is_closed = False

    def take(self, address: Address) -> DirectConnection | None:
        """None: it is somebody else's now, or cannot be made, or is not worth it yet."""
        with self._lock:
            connection = self._idle.pop(address, None)
            if connection is None:
                wants = self._wants[address] = self._wants.get(address, 0) + 1
                if wants != WORTH_WANTS or self._is_closed:
                    return None
        if connection is None:
            try:
                return DirectConnection(address, self._name)
            except (OSError, FlotillaError):
                self._forget(address)
                return None
        if connection.is_stale:
            self.give_up(connection)
            return None
        return connection

    def bring_back(self, connection: DirectConnection) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle[connection.address] = connection
                return
        connection.close()

    def give_up(self, connection: DirectConnection) -> None:
        connection.close()
        self._forget(connection.address)

    def close(self) -> None:
        """Those that are taken are closed when they are brought back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = list(self._idle.values()), {}
        for connection in idle:
            connection.close()

    def _forget(self, address: Address) -> None:
        with self._lock:
            self._wants.pop(address, None)
