"""The link to a broker in the same process: requests and answers pass as values, without bytes and without a socket.

A node's gateway uses it for requests to its own node. Bounds, correlation ids and the handshake are those of any
connection; correlation id, value and metadata index take the place of a frame (`codec/client/handover`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flotilla.client._core.connection import HELLO_ID, ClientConnection, Token, hello
from flotilla.codec.client.handover import Answers, hand_over_request
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Index
from flotilla.types.operations import Reply, Request


class LocalTransport(Protocol):
    """The broker's side, in the place of a socket's transport."""

    def writelines(self, requests: Sequence[Any]) -> None:
        """Hands over requests, each with its correlation id."""

    def abort(self) -> None:
        """Ends the link. `lost` is called later, as it is for a socket."""


class LocalEndpoint(Protocol):
    def connect(self, received: Callable[[Answers], None], lost: Callable[[str], None]) -> LocalTransport:
        """Opens a link. `received` and `lost` are called from the event loop, never inside `writelines`."""


class LocalConnection(ClientConnection[Token]):
    """A ClientConnection whose frames are values."""

    __slots__ = ()

    def greet(self, name: str, is_gateway: bool = False) -> list[Any]:
        return [(HELLO_ID, hello(name, is_gateway), 0)]

    def _encode(self, correlation_id: int, request: Request, metadata_index: Index, bytes_max: int) -> list[Any]:
        return [(correlation_id, hand_over_request(request), metadata_index)]

    def receive(self, data: Answers) -> list[tuple[Token, Reply | FlotillaError]]:
        return self._answered(data)
