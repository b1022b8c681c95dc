"""The last hour of a node in steps of five seconds: what it has counted, and what its queues held.

Each series is a ring of fixed size, so memory does not depend on the load. Counters that the parts of a node keep
anyway are read once a step. Queue groups of the partitions that this node leads are measured a few at a time, between
two steps: with more of them than `GROUPS_PER_LOOK` covers, the sums lag behind by some steps and cost the same. Steps
end at multiples of their length by the cluster's clock, so that the series of several nodes can be added up.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from flotilla.broker.observability.request_metrics import MeteredService
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations.cluster import ENDPOINTS, HistoryRead, RateSeries
from flotilla.types.operations.queue import GroupDescription

STEP_MS: Final = 5_000
STEP_COUNT: Final = 720
#: A look is every half second: about 600 groups a step, and a millisecond or two each time.
GROUPS_PER_LOOK: Final = 64

#: What happened in a step.
COUNTED: Final = ("produced", "delivered", "redelivered", "acked", "dead", "errors", "received_bytes", "sent_bytes")
#: What there was at the end of a step.
HELD: Final = ("connections", "lag", "ready", "leased", "delayed")
#: An error of these is part of finding the leader.
_ROUTING_ERRORS: Final = ("NOT_LEADER",)


class QueueMeter(Protocol):
    """A partition with queue groups."""

    def queue_groups(self) -> list[str]: ...

    def count_queue(self, group: str) -> GroupDescription | None: ...


class _Group(NamedTuple):
    """What is remembered of a queue group in one partition."""

    acked: int
    dead: int
    lag: int
    ready: int
    leased: int
    delayed: int


class RateHistory:
    def __init__(
        self,
        node: NodeId,
        service: MeteredService,
        clients: Callable[[], Mapping[str, int]],
        hosts: Mapping[GroupId, QueueMeter],
        now_ms: Callable[[], int],
    ) -> None:
        """`clients` is as in NodeStatus; `hosts` are the partitions of this node."""
        self._node = node
        self._service = service
        self._clients = clients
        self._hosts = hosts
        self._now_ms = now_ms
        self._rings = {name: array("Q", bytes(8 * STEP_COUNT)) for name in (*COUNTED, *HELD)}
        #: The number of the step that is being counted, since 1970; 0: nothing was looked at yet.
        self._step = 0
        #: Steps that are complete, up to as many as the rings hold.
        self._filled = 0
        self._totals: dict[str, int] = {}
        self._groups: dict[tuple[GroupId, str], _Group] = {}
        #: The round of measurements that is under way, and what it has found so far.
        self._round: Iterator[tuple[GroupId, str]] | None = None
        self._measured: dict[tuple[GroupId, str], _Group] = {}
        self._settled = {"acked": 0, "dead": 0}

    def look(self) -> None:
        """Is called several times a step."""
        self._measure()
        step = self._now_ms() // STEP_MS
        if step <= self._step:
            return
        if not self._step:
            self._totals = self._read()
        else:
            self._end_step(min(step - self._step, STEP_COUNT))
        self._step = step

    def read(self) -> HistoryRead:
        first, count = self._step - self._filled, self._filled
        series = [
            RateSeries(name, [ring[(first + place) % STEP_COUNT] for place in range(count)])
            for name, ring in self._rings.items()
        ]
        return HistoryRead(self._node, STEP_MS, self._step * STEP_MS, series)

    def _end_step(self, step_count: int) -> None:
        totals = self._read()
        # A topic that was deleted takes its counts with it.
        grown = {name: max(total - self._totals.get(name, 0), 0) for name, total in totals.items()}
        held = {name: sum(getattr(group, name) for group in self._groups.values()) for name in HELD[1:]}
        clients = self._clients()
        held["connections"] = sum([clients[endpoint] for endpoint in ENDPOINTS])
        for skipped in range(step_count):
            # Nothing was looked at in the steps before the last: a paused process counts when it goes on.
            values = {**grown, **held} if skipped == step_count - 1 else held
            for name, ring in self._rings.items():
                ring[(self._step + skipped) % STEP_COUNT] = values.get(name, 0)
        self._totals = totals
        self._filled = min(self._filled + step_count, STEP_COUNT)

    def _read(self) -> dict[str, int]:
        service, clients = self._service, self._clients()
        errors = [
            count
            for operation in service.operations.values()
            for code, count in operation.errors.items()
            if code not in _ROUTING_ERRORS
        ]
        return {
            "produced": sum(service.produced.values()),
            "delivered": sum(service.delivered.values()),
            "redelivered": sum(service.redelivered.values()),
            "errors": sum(errors),
            "received_bytes": clients["received_bytes_total"],
            "sent_bytes": clients["sent_bytes_total"],
            **self._settled,
        }

    def _measure(self) -> None:
        if self._round is None:
            self._round = iter([(group, name) for group, host in self._hosts.items() for name in host.queue_groups()])
            self._measured = {}
        for _ in range(GROUPS_PER_LOOK):
            key = next(self._round, None)
            if key is None:
                self._groups, self._round = self._measured, None
                return
            host = self._hosts.get(key[0])
            found = None if host is None else host.count_queue(key[1])
            if found is not None:
                self._measured[key] = now = _Group(
                    found.acked_total, found.dead_total, found.lag, found.ready, found.leased, found.delayed
                )
                # Totals come with the leadership: only what is added while this node leads was counted here.
                before = self._groups.get(key, now)
                self._settled["acked"] += max(now.acked - before.acked, 0)
                self._settled["dead"] += max(now.dead - before.dead, 0)
