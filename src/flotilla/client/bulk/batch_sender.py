"""A sender of encoded batches, for bulk writers that have columns instead of records.

It belongs to one thread. Batches of one partition are sent one after the other, so retries keep their order; partitions
are written in parallel. Pending bytes are bounded: `send` blocks while there are too many. Every request must be
repeatable: a stage, or a batch with a producer's sequence number.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from flotilla.client._core.calls import CallResult
from flotilla.client.bulk.offsets import Partition
from flotilla.client.client import Client
from flotilla.machine import steady_ms
from flotilla.types.errors import DeadlineError, FlotillaError
from flotilla.types.limits import MIB
from flotilla.types.operations import Produce, Stage

#: Of pending batches and those in flight: enough for a batch to each of many partitions.
BUFFERED_BYTES_MAX: Final = 16 * MIB
#: Beyond the time limit of a call, which then ends by itself.
_GRACE_MS: Final = 5_000


class BatchSender:
    def __init__(self, client: Client, *, timeout_ms: int) -> None:
        """`timeout_ms` is for each batch, from the moment it is sent."""
        self._channel = client._channel()
        self._timeout_ms = timeout_ms
        #: Guards the fields below.
        self._changed = threading.Condition()
        #: The batches of each partition; the first one is in flight.
        self._lanes: dict[Partition, deque[Produce | Stage]] = {}
        self._waiting_bytes = 0
        self._error: FlotillaError | None = None

    def send(self, request: Produce | Stage) -> None:
        """Returns when there is room for the batch. Raises the error of an earlier one."""
        size_bytes = len(request.batch)
        self._wait(lambda: not self._waiting_bytes or self._waiting_bytes + size_bytes <= BUFFERED_BYTES_MAX)
        place = (request.topic, request.partition)
        with self._changed:
            self._waiting_bytes += size_bytes
            lane = self._lanes.setdefault(place, deque())
            lane.append(request)
            is_first = len(lane) == 1
        if is_first:
            self._submit(place, request)

    def finish(self) -> None:
        """Waits until every batch is answered. Raises the first error."""
        self._wait(lambda: not self._waiting_bytes)

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        with self._changed:
            seen_bytes = self._waiting_bytes
            give_up_ms = steady_ms() + self._timeout_ms + _GRACE_MS
            while self._error is None and not is_enough():
                if not self._changed.wait(1.0) and steady_ms() > give_up_ms and self._waiting_bytes == seen_bytes:
                    raise DeadlineError(f"no broker has answered within {self._timeout_ms} ms")
                if self._waiting_bytes != seen_bytes:
                    seen_bytes = self._waiting_bytes
                    give_up_ms = steady_ms() + self._timeout_ms + _GRACE_MS
            if self._error is not None:
                raise self._error

    def _submit(self, place: Partition, request: Produce | Stage) -> None:
        self._channel.submit(request, self._timeout_ms, partial(self._answered, place))

    def _answered(self, place: Partition, result: CallResult) -> None:
        """On the loop."""
        following = None
        with self._changed:
            lane = self._lanes[place]
            self._waiting_bytes -= len(lane.popleft().batch)
            if isinstance(result, FlotillaError) and self._error is None:
                result.add_note(f"while writing to partition {place[1]} of topic {place[0]}")
                self._error = result
            if lane and self._error is None:
                following = lane[0]
            self._changed.notify()
        if following is not None:
            self._submit(place, following)
