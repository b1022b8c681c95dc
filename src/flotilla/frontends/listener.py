"""Accepts the connections of clients, as many as the descriptors of the process allow.

Beyond that a connection that may be cut makes room for the next one (`room_making`), of the same endpoint if there is
one; where none may be cut, the next one is refused.

An event loop's own server accepts whatever comes, until the process runs out of descriptors: then every file and link
suffers. Here a connection beyond the bounds gets a sentence in its protocol's terms and is closed in the same step, so
refusing costs one descriptor however many clients come. A few connections are accepted in one iteration of the loop,
and the system's queue holds the others.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from flotilla.machine import here
from flotilla.security.tls_endpoints import TlsAcceptor

#: Connections accepted or refused in one iteration of the loop, for each address.
ACCEPT_COUNT_MAX: Final = 32
#: And at most this part of the bound. For two iterations an accepted connection counts and cannot be cut: in that time
#: two endpoints with two addresses each fill half of the bound.
_ACCEPT_PART: Final = 16
#: Without descriptors, accepting pauses for this long.
_PAUSE_MS: Final = 100
#: Bytes of a refused client that are read and dropped: closing with bytes unread would make the system drop the answer.
_DROPPED_BYTES: Final = 64 * 1024
_SHORT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ConnectionBudget:
    """The connections that all endpoints of a process may have together."""

    def __init__(self, connections_max: int) -> None:
        self.connections_max = connections_max
        self._counts: list[Callable[[], int]] = []
        self._makes_room: list[Callable[[], bool]] = []

    def add(self, count: Callable[[], int], make_room: Callable[[], bool] = bool) -> None:
        """`count` returns the connections of one endpoint; `make_room` cuts one that may be cut, if there is one."""
        self._counts.append(count)
        self._makes_room.append(make_room)

    def make_room(self) -> bool:
        """Cuts a connection of any endpoint. False: none may be cut."""
        return any(make_room() for make_room in self._makes_room)

    @property
    def is_full(self) -> bool:
        return sum(count() for count in self._counts) >= self.connections_max

    @property
    def reason(self) -> str:
        """Why a further connection is refused; empty: it is not."""
        return f"too many connections: this process has descriptors for {self.connections_max}" if self.is_full else ""


def too_many(connections_max: int) -> str:
    return f"too many connections: the limit is {connections_max}"


class Listener:
    def __init__(
        self,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        count: Callable[[], int],
        connections_max: int,
        budget: ConnectionBudget | None,
        refusal: Callable[[str], bytes],
        tls: TlsAcceptor | None = None,
        spare_max: int = 0,
        spare_count: Callable[[], int] = int,
        spare: Callable[[str], asyncio.BaseProtocol] | None = None,
        make_room: Callable[[], bool] = bool,
    ) -> None:
        """`count` returns the open connections; `refusal` makes the answer to a client that is refused.

        `make_room` cuts a connection that `count` does not count any more. False: none may be cut.

        Beyond the bounds, those of the process as well, `spare_max` further connections are accepted. `spare` makes
        their protocols, of the reason why there is no room. `spare_count` returns how many of them are open; `count`
        leaves them out.

        With `tls` connections are encrypted. Handshakes count as connections, and a client that is refused gets no
        answer: it would have to be encrypted, too.
        """
        self.refused_count = 0
        self._protocol = protocol
        self._count = count
        self._connections_max = connections_max
        self._budget = budget
        bound = connections_max if budget is None else min(connections_max, budget.connections_max)
        self._accept_count_max = max(1, min(ACCEPT_COUNT_MAX, bound // _ACCEPT_PART))
        self._refusal = refusal
        self._tls = tls
        self._spare_max = spare_max
        self._spare_count = spare_count
        self._spare = spare
        self._make_own_room = make_room
        self._sockets: list[socket.socket] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        #: Accepted within the bounds and beyond them, and not counted by `count` and `spare_count` yet.
        self._beginning: set[socket.socket] = set()
        self._spare_beginning: set[socket.socket] = set()
        if budget is not None:
            budget.add(self._open_count, self._make_room)

    async def start(self, host: str, port: int) -> int:
        """Listens at all addresses of the host; returns the port, which the system chose if `port` is 0."""
        loop = self._loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                self._sockets.append(here().listen(family, address))
        except OSError:
            self.close()
            raise
        for each in self._sockets:
            loop.add_reader(each, self._accept_some, each)
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Stops listening; open connections go on."""
        if self._tls is not None:
            self._tls.close()
        for each in self._sockets:
            if self._loop is not None and each.fileno() >= 0:
                self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()

    @property
    def is_listening(self) -> bool:
        return bool(self._sockets)

    def _open_count(self) -> int:
        return self._count() + len(self._beginning) + self._handshake_count()

    def _handshake_count(self) -> int:
        return 0 if self._tls is None else self._tls.handshake_count

    def _accept_some(self, listening: socket.socket) -> None:
        for _ in range(self._accept_count_max):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                self._accept_failed(listening, error)
                return
            reason = self._full()
            if reason and not self._has_spare():
                self._refuse(connection, reason)
            else:
                self._begin(connection, reason)

    def _accept_failed(self, listening: socket.socket, error: OSError) -> None:
        """Pauses: the loop would call again at once, for ever."""
        assert self._loop is not None
        if error.errno not in _SHORT:
            self._loop.call_exception_handler({"message": "accepting a client failed", "exception": error})
        self._loop.remove_reader(listening)
        self._loop.call_later(_PAUSE_MS / 1000, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets and self._loop is not None:
            self._loop.add_reader(listening, self._accept_some, listening)

    def _make_room(self) -> bool:
        """Cuts a handshake or a connection of this endpoint. False: none may be cut."""
        return (self._tls is not None and self._tls.give_up()) or self._make_own_room()

    def _full(self) -> str:
        """Why there is no room; empty: there is."""
        if self._open_count() >= self._connections_max and not self._make_room():
            return too_many(self._connections_max)
        budget = self._budget
        if budget is None or not budget.is_full or self._make_room() or budget.make_room():
            return ""
        return budget.reason

    def _has_spare(self) -> bool:
        taken = self._spare_count() + len(self._spare_beginning) + self._handshake_count()
        return self._spare is not None and taken < self._spare_max

    def _refuse(self, connection: socket.socket, reason: str) -> None:
        self.refused_count += 1
        with connection:
            try:
                connection.setblocking(False)
                if self._tls is None:
                    connection.send(self._refusal(reason))
                connection.shutdown(socket.SHUT_WR)
                connection.recv(_DROPPED_BYTES)
            except OSError:
                # It is gone, or has sent nothing yet.
                pass

    def _begin(self, connection: socket.socket, reason: str) -> None:
        """`reason`: why it gets a spare place; empty: it does not."""
        assert self._loop is not None
        connection.setblocking(False)
        (self._spare_beginning if reason else self._beginning).add(connection)
        task = self._loop.create_task(self._connect(connection, reason))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: socket.socket, reason: str) -> None:
        assert self._loop is not None
        try:
            await self._loop.connect_accepted_socket(lambda: self._begun(connection, reason), connection)
        except OSError:
            self._counted(connection)
            connection.close()

    def _begun(self, connection: socket.socket, reason: str) -> asyncio.BaseProtocol:
        assert self._loop is not None
        # The loop calls `connection_made` directly after this, before it accepts another connection.
        self._loop.call_soon(self._counted, connection)
        protocol = partial(self._spare, reason) if reason and self._spare is not None else self._protocol
        return protocol() if self._tls is None else self._tls.accept(protocol)

    def _counted(self, connection: socket.socket) -> None:
        self._beginning.discard(connection)
        self._spare_beginning.discard(connection)
