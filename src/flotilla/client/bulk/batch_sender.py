"""Batches that are encoded already, on their way to their partitions: for bulk writers that have columns, not records.

Belongs to one thread. Batches of one partition go one after the other, so they keep their order whatever is repeated;
partitions go side by side. What waits is bounded by bytes: `send` blocks while there is too much of it. Every request
must be one that can be repeated: a stage, or a batch with a producer's number.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from flotilla.client._core.asyncio_network import now_ms
from flotilla.client._core.calls import CallResult
from flotilla.client.client import Client
from flotilla.types.errors import DeadlineError, FlotillaError
from flotilla.types.limits import MIB
from flotilla.types.operations import REPEATABLE, Produce, Route, Stage

#: What may wait and be under way. Enough for a batch to each of many partitions.
BUFFERED_BYTES_MAX: Final = 16 * MIB
#: Beyond the time limit of a call, which ends by itself.
_GRACE_MS: Final = 5_000


class BatchSender:
    def __init__(self, client: Client, *, timeout_ms: int) -> None:
        """`timeout_ms` is for each batch, from the moment it leaves."""
        self._thread, self._network = client._opened()
        self._timeout_ms = timeout_ms
        #: On the loop: what each partition has before it; the first one is under way.
        self._lanes: dict[Route, deque[Produce | Stage]] = {}
        #: Guards what follows.
        self._changed = threading.Condition()
        self._waiting_bytes = 0
        self._error: FlotillaError | None = None

    def send(self, request: Produce | Stage) -> None:
        """Returns when there is room for it. Raises the error of any batch before it."""
        size_bytes = len(request.batch)
        self._wait(lambda: not self._waiting_bytes or self._waiting_bytes + size_bytes <= BUFFERED_BYTES_MAX)
        with self._changed:
            self._waiting_bytes += size_bytes
        self._thread.post(self._enqueue, request)

    def finish(self) -> None:
        """Waits until the brokers have everything. Raises the first error that there was."""
        self._wait(lambda: not self._waiting_bytes)

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        with self._changed:
            seen_bytes = self._waiting_bytes
            give_up_ms = now_ms() + self._timeout_ms + _GRACE_MS
            while self._error is None and not is_enough():
                if not self._changed.wait(1.0) and now_ms() > give_up_ms and self._waiting_bytes == seen_bytes:
                    raise DeadlineError(f"no broker has answered within {self._timeout_ms} ms")
                if self._waiting_bytes != seen_bytes:
                    seen_bytes = self._waiting_bytes
                    give_up_ms = now_ms() + self._timeout_ms + _GRACE_MS
            if self._error is not None:
                raise self._error

    # On the loop.

    def _enqueue(self, request: Produce | Stage) -> None:
        route = Route(request.topic, request.partition)
        lane = self._lanes.setdefault(route, deque())
        lane.append(request)
        if len(lane) == 1:
            self._submit(route, request)

    def _submit(self, route: Route, request: Produce | Stage) -> None:
        done = partial(self._answered, route)
        self._network.submit(request, self._timeout_ms, done, route=route, effect=REPEATABLE)

    def _answered(self, route: Route, result: CallResult) -> None:
        lane = self._lanes[route]
        done = lane.popleft()
        with self._changed:
            self._waiting_bytes -= len(done.batch)
            if isinstance(result, FlotillaError) and self._error is None:
                result.add_note(f"while writing to partition {route.partition} of topic {route.topic}")
                self._error = result
            is_over = self._error is not None
            self._changed.notify()
        if lane and not is_over:
            self._submit(route, lane[0])
