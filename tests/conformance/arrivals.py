"""Requests as they reach the service of a broker, by whichever endpoint they came in.

A step that is started and not waited for must be at the broker before the next one begins, or another one may overtake
it: how long that takes is unknown, so the arrival itself is observed.
"""

import asyncio

from flotilla.broker.broker import Broker
from flotilla.broker.ports import Cancel, Done
from flotilla.types.operations import Request


class Arrivals:
    def __init__(self) -> None:
        self._awaited: dict[type[Request], list[asyncio.Future[None]]] = {}

    def watch(self, service: Broker) -> None:
        handle = service.handle

        def watched(request: Request, done: Done, metadata_index: int = 0) -> Cancel | None:
            cancel = handle(request, done, metadata_index)
            for arrived in self._awaited.pop(type(request), ()):
                arrived.set_result(None)
            return cancel

        service.handle = watched  # type: ignore[method-assign]

    def next_of(self, kind: type[Request]) -> "asyncio.Future[None]":
        """Is done when the service has begun with the next request of this kind."""
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(kind, []).append(arrived)
        return arrived
