"""Request metrics: counts and times the requests that endpoints send to the broker.

It implements the same port as the broker behind it, so endpoints do not know it is there. It runs for every request: a
few dictionary look-ups and two readings of the clock, nothing per record.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from flotilla.broker.ports import Cancel, Done, Service
from flotilla.machine import here
from flotilla.runtime.observability.histogram import DurationHistogram
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Index, NodeId
from flotilla.types.operations import (
    OPERATIONS,
    Fetch,
    Fetched,
    Poll,
    Polled,
    Produce,
    Produced,
    Pushed,
    Reply,
    Request,
    Subscribe,
)

#: base_offset and count of a batch's header (codec/batch/header.py); reading all of it takes ten times as long.
_PLACE = Struct("<Q16xI")


class Operation:
    """The numbers of one operation."""

    __slots__ = ("durations", "errors", "name", "waits")

    def __init__(self, name: str) -> None:
        self.name = name
        self.durations = DurationHistogram()
        #: Of long polls: requests that waited because the client asked for it.
        self.waits = DurationHistogram()
        #: By the code of the error.
        self.errors: dict[str, int] = {}


class MeteredService:
    """Implements broker.ports.Service in front of another one."""

    def __init__(self, service: Service, produced: dict[str, int] | None = None) -> None:
        """`produced` is shared: records that become visible without a Produce are counted there by the partitions."""
        self._service = service
        self.operations = {kind: Operation(name) for name, kind in OPERATIONS.items()}
        #: Records by topic, since the process started.
        self.produced: dict[str, int] = {} if produced is None else produced
        self.delivered: dict[str, int] = {}
        #: Deliveries that were not the first attempt.
        self.redelivered: dict[str, int] = {}
        #: How replies with records are counted.
        self._elapsed_ns = here().elapsed_ns
        self._counts: dict[type[Any], Callable[[Any, Any], None]] = {
            Produced: self._count_produced,
            Fetched: self._count_delivered,
            Polled: self._count_leased,
            Pushed: self._count_leased,
        }

    @property
    def node(self) -> NodeId:
        return self._service.node

    @property
    def cluster_id(self) -> str:
        return self._service.cluster_id

    @property
    def metadata_index(self) -> Index:
        return self._service.metadata_index

    def now_ms(self) -> int:
        return self._service.now_ms()

    def lost(self, members: Sequence[str]) -> None:
        self._service.lost(members)

    def handle(self, request: Request, done: Done, metadata_index: Index = 0) -> Cancel | None:
        operation = self.operations[type(request)]
        is_waiting = False
        started_ns = self._elapsed_ns()

        def answered(result: Reply | FlotillaError) -> None:
            # A Pushed is one of many replies: the client did not wait for it.
            if type(result) is not Pushed:
                durations = operation.waits if is_waiting else operation.durations
                durations.record((self._elapsed_ns() - started_ns) // 1000)
            count = self._counts.get(type(result))
            if count is not None:
                count(request, result)
            elif isinstance(result, FlotillaError):
                operation.errors[result.code] = operation.errors.get(result.code, 0) + 1
            done(result)

        cancel = self._service.handle(request, answered, metadata_index)
        # `handle` returns a Cancel only for a request that waits.
        is_waiting = cancel is not None
        return cancel

    def _count_produced(self, request: Produce, reply: Produced) -> None:
        """A reply means that the batch was checked: its header can be read."""
        if not reply.duplicate and not reply.known:
            count = _PLACE.unpack_from(request.batch)[1]
            self.produced[request.topic] = self.produced.get(request.topic, 0) + count

    def _count_delivered(self, request: Fetch, reply: Fetched) -> None:
        """Offsets are dense, so the last batch shows how far the reply reaches."""
        if reply.batches:
            base_offset, count = _PLACE.unpack_from(reply.batches[-1])
            delivered = base_offset + count - request.offset
            self.delivered[request.topic] = self.delivered.get(request.topic, 0) + delivered

    def _count_leased(self, request: Poll | Subscribe, reply: Polled | Pushed) -> None:
        topic = request.topic
        for delivery in reply.deliveries:
            self.delivered[topic] = self.delivered.get(topic, 0) + delivery.count
            if delivery.attempt > 1:
                self.redelivered[topic] = self.redelivered.get(topic, 0) + delivery.count

    def forget_topics_except(self, known: set[str]) -> None:
        """Forgets topics that were deleted."""
        for counts in (self.produced, self.delivered, self.redelivered):
            for topic in [topic for topic in counts if topic not in known]:
                del counts[topic]
