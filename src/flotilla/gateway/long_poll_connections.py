"""Connections of a gateway for long polls: many callers share few connections.

A broker bounds the requests in flight on a connection, and a long poll counts until it is answered. So long polls do
not share connections with other requests, and when one set of connections is full, another one is opened. Each set is a
network of its own, with its own view of the cluster.
"""

from collections.abc import Callable

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import CallResult
from flotilla.machine import steady_ms
from flotilla.types.address import Address
from flotilla.types.errors import OverloadedError
from flotilla.types.operations import GetMetadata, Metadata

#: In one network: well below the bound of a broker, so that a withdrawal is never held up.
LONG_POLLS_MAX = 128
#: Bounds the long polls of all networks together.
CONNECTIONS_MAX = 64
#: A request that names a topic refreshes its metadata when they are older.
FRESH_MS = 5_000
_REFRESH_TIMEOUT_MS = 10_000


class LongPollConnection:
    """A network, and the age of its metadata."""

    __slots__ = ("_asked_ms", "long_polls", "network")

    def __init__(self, network: Network) -> None:
        self.network = network
        self.long_polls = 0
        #: When the metadata of each topic were last requested.
        self._asked_ms: dict[str, int] = {}

    def refresh(self, topic: str, changed: Callable[[], None] | None = None) -> None:
        """Refreshes the metadata of a topic in the background, if they are old."""
        if topic not in self.network.session.routes.topics:
            # The caller looks it up itself; nothing is kept of a topic that may not exist.
            self._asked_ms.pop(topic, None)
            return
        time_ms = steady_ms()
        if time_ms - self._asked_ms.setdefault(topic, time_ms) < FRESH_MS:
            return
        self._asked_ms[topic] = time_ms

        def refreshed(result: CallResult) -> None:
            if not isinstance(result, Metadata):
                return
            self.network.session.routes.update(result, [topic])
            if changed is not None:
                changed()

        self.network.submit(GetMetadata([topic]), _REFRESH_TIMEOUT_MS, refreshed)


class LongPollConnections:
    """As many networks as the long polls need."""

    def __init__(self, open_network: Callable[[], Network], lost: Callable[[Address], None]) -> None:
        """`lost` gets the address of each connection that ends; it must not call the session."""
        self._open_network = open_network
        self._lost = lost
        self._connections: list[LongPollConnection] = []

    def enter(self) -> LongPollConnection:
        """A network with room for a long poll, which counts until `leave`. Raises OverloadedError."""
        for connection in self._connections:
            if connection.long_polls < LONG_POLLS_MAX:
                connection.long_polls += 1
                return connection
        if len(self._connections) >= CONNECTIONS_MAX:
            raise OverloadedError(f"too many long polls: the limit is {CONNECTIONS_MAX * LONG_POLLS_MAX}")
        connection = self.open()
        connection.long_polls = 1
        self._connections.append(connection)
        return connection

    def leave(self, connection: LongPollConnection) -> None:
        connection.long_polls -= 1
        assert connection.long_polls >= 0

    def open(self) -> LongPollConnection:
        """A network that is not for long polls."""
        network = self._open_network()
        network.session.watchers.append(self._lost)
        return LongPollConnection(network)

    def all(self, main: LongPollConnection | None) -> list[LongPollConnection]:
        """All networks, with the one that is not for long polls."""
        return self._connections if main is None else [main, *self._connections]

    async def close(self) -> None:
        for connection in self._connections:
            await connection.network.close()
