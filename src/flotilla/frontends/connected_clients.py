"""Who is connected to the endpoints of a node, for operators.

Each endpoint lists its own. gRPC's library tells nobody of its connections: there a client is known while it has a call
in flight. The node's own connections to itself are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

from flotilla.types.ids import NodeId
from flotilla.types.operations.cluster import CLIENTS_SHOWN_MAX, ENDPOINTS, ClientList, ConnectedClient, ListClients

TCP, HTTP, GRPC = ENDPOINTS
#: What a client calls itself is cut there.
_NAME_CHARS_SHOWN = 200


def shown_name(name: str) -> str:
    return name[:_NAME_CHARS_SHOWN]


class ConnectedClients:
    def __init__(self, node: NodeId, *endpoints: Callable[[], Iterable[ConnectedClient]]) -> None:
        self._node = node
        self._endpoints = endpoints

    def counts(self) -> dict[str, int]:
        """By endpoint."""
        found = Counter(client.endpoint for endpoint in self._endpoints for client in endpoint())
        return {endpoint: found[endpoint] for endpoint in ENDPOINTS}

    def read(self, request: ListClients) -> ClientList:
        """Those that have been connected longest, endpoint by endpoint."""
        found = list(chain.from_iterable(endpoint() for endpoint in self._endpoints))
        return ClientList(self._node, found[: min(request.limit, CLIENTS_SHOWN_MAX)], len(found))
