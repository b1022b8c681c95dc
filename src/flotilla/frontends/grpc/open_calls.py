"""The clients that have calls in flight: of others the gRPC library does not say whether they are connected."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flotilla.frontends.connected_clients import GRPC, shown_name
from flotilla.frontends.grpc.authentication import address_of
from flotilla.frontends.grpc.errors import Context
from flotilla.gateway.guarded import CALLER
from flotilla.machine import steady_ms
from flotilla.types.operations.cluster import ConnectedClient


@dataclass(slots=True)
class _Peer:
    #: When the first of its calls began.
    since_ms: int
    name: str
    principal: str
    call_count: int = 0


class OpenCalls:
    def __init__(self) -> None:
        #: By what the library calls the other end of a connection.
        self._peers: dict[str, _Peer] = {}

    @contextmanager
    def calling(self, context: Context) -> Iterator[None]:
        """Around a call of which it is known who makes it."""
        name = context.peer()
        peer = self._peers.get(name)
        if peer is None:
            caller = CALLER.get()
            principal = "" if caller is None else str(caller.principal)
            peer = self._peers[name] = _Peer(steady_ms(), _agent(context), principal)
        peer.call_count += 1
        try:
            yield
        finally:
            peer.call_count -= 1
            if not peer.call_count:
                del self._peers[name]

    def clients(self) -> Iterator[ConnectedClient]:
        now_ms = steady_ms()
        for name, peer in self._peers.items():
            address = str(address_of(name) or name)
            yield ConnectedClient(GRPC, peer.name, address, peer.principal, now_ms - peer.since_ms, peer.call_count)


def _agent(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "user-agent":
            return shown_name(value if isinstance(value, str) else value.decode("latin-1"))
    return ""
