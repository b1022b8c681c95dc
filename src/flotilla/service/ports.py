"""What a front end needs of the service: one door for all operations."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId
from flotilla.types.operations import Reply, Request

#: Called exactly once for each request, at once or later, always on the loop.
Done: TypeAlias = Callable[[Reply | FlotillaError], None]
#: Gives up a request that is still waiting, such as a long poll whose client is gone. Harmless afterwards.
Cancel: TypeAlias = Callable[[], None]


class Service(Protocol):
    @property
    def node(self) -> NodeId: ...

    @property
    def cluster_id(self) -> str:
        """Empty while the node waits to become part of a cluster."""

    def handle(self, request: Request, done: Done) -> Cancel | None:
        """Starts an operation. Never raises for what a client sent. None: it was answered or cannot be given up."""
