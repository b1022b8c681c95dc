"""Connections of a gateway for whatever waits: long polls of many clients that share few connections.

A broker lets a connection have so many requests under way, and one that waits takes a place until it is answered. So
what waits does not share connections with what must not wait, and when one set of connections is taken, another one
is opened. Each set is a network of its own and learns by itself who leads what.
"""

from collections.abc import Callable

from flotilla.client._core.asyncio_network import Network, now_ms
from flotilla.client._core.calls import CallResult
from flotilla.types.address import Address
from flotilla.types.errors import OverloadedError
from flotilla.types.operations import GetMetadata, Metadata

#: Who may wait in one network: well below what a broker allows, so that a word to withdraw is never held up.
LONG_POLLS_MAX = 128
#: And in all of them together.
CONNECTIONS_MAX = 64
#: What is known of a topic is looked at again after so long, when somebody asks about it.
FRESH_MS = 5_000
_REFRESH_TIMEOUT_MS = 10_000


class LongPollConnection:
    """A network, and how fresh it is."""

    __slots__ = ("_asked_ms", "long_polls", "network")

    def __init__(self, network: Network) -> None:
        self.network = network
        self.long_polls = 0
        #: When each topic was last asked about.
        self._asked_ms: dict[str, int] = {}

    def refresh(self, topic: str, changed: Callable[[], None] | None = None) -> None:
        """Asks in the background what a topic looks like, if that is not fresh. Nobody waits for it."""
        if topic not in self.network.session.routes.topics:
            # Whoever asks finds out by itself; nothing is remembered of what may not exist.
            self._asked_ms.pop(topic, None)
            return
        time_ms = now_ms()
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
    """As many networks as the waiting need."""

    def __init__(self, open_network: Callable[[], Network], lost: Callable[[Address], None]) -> None:
        """`lost` is told of each connection that has ended; it must not call back."""
        self._open_network = open_network
        self._lost = lost
        self._connections: list[LongPollConnection] = []

    def enter(self) -> LongPollConnection:
        """A trunk with a place in it, taken until `leave`. Raises OverloadedError."""
        for connection in self._connections:
            if connection.long_polls < LONG_POLLS_MAX:
                connection.long_polls += 1
                return connection
        if len(self._connections) >= CONNECTIONS_MAX:
            raise OverloadedError(f"{CONNECTIONS_MAX * LONG_POLLS_MAX} requests wait here already")
        connection = self.open()
        connection.long_polls = 1
        self._connections.append(connection)
        return connection

    def leave(self, connection: LongPollConnection) -> None:
        connection.long_polls -= 1
        assert connection.long_polls >= 0

    def open(self) -> LongPollConnection:
        """One that is not for waiting."""
        network = self._open_network()
        network.session.watchers.append(self._lost)
        return LongPollConnection(network)

    def all(self, main: LongPollConnection | None) -> list[LongPollConnection]:
        """Every one of them, with the one that is not for waiting."""
        return self._connections if main is None else [main, *self._connections]

    async def close(self) -> None:
        for connection in self._connections:
            await connection.network.close()
