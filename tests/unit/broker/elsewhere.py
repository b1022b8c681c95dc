"""A broker of a fleet as a client of its own cluster."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from flotilla.types.errors import FlotillaError, NotLeaderError
from flotilla.types.operations import Reply, Request

if TYPE_CHECKING:
    from tests.unit.broker.fleet import Node

#: How long a request is tried.
ELSEWHERE_MS = 5_000


class Elsewhere:
    """Implements broker.ports.Elsewhere over the brokers of the fleet, as a client would: try one after the other."""

    def __init__(self, box: "Node") -> None:
        self._box = box

    def ask(self, request: Request, done: Callable[[Reply | FlotillaError], None]) -> None:
        self._box.fleet.asked.append(request)
        self._try(request, done, self._box.now_ms() + ELSEWHERE_MS)

    def _try(self, request: Request, done: Callable[[Reply | FlotillaError], None], deadline_ms: int) -> None:
        fleet = self._box.fleet
        left = [box for box in fleet.nodes.values() if box is self._box or fleet.is_linked(self._box.node, box.node)]

        def answered(result: Reply | FlotillaError) -> None:
            if isinstance(result, NotLeaderError) and left:
                left.pop().broker.handle(request, answered)
            elif isinstance(result, FlotillaError) and result.retryable and self._box.now_ms() < deadline_ms:
                self._box.later(100, lambda: self._try(request, done, deadline_ms))
            else:
                done(result)

        left.pop().broker.handle(request, answered)
