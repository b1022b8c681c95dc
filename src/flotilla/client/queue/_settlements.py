"""Settlements of one consumer: batched into few requests, and retried until they are done or refused.

Settlements of one loop iteration leave in one request per partition and outcome, as runs of offsets. A few requests per
partition may be in flight; settlements that come meanwhile share the next one, and those of one lease are joined: many
handlers that settle one message each cost hardly more than one that settles many.

An unawaited settlement lingers to share a request: every request makes a majority of disks write, so a single
acknowledgement would cost the cluster as much as the message itself. Meanwhile its lease is not renewed: it lingers for
a small part of the lease at the most.

Settling is idempotent, so an attempt without an answer is repeated, at another leader if there is one, until the time
limit. A leader refuses the repetition of an attempt that it carried out, and says which messages are settled for good:
an acknowledgement of those is done, whoever did it. The others came to another consumer in between.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.session import Session
from flotilla.client.queue._leases import Lease, merged
from flotilla.client.queue.outcome import ACKED, Outcome
from flotilla.types.errors import FlotillaError, LeaseExpiredError
from flotilla.types.limits import KIB
from flotilla.types.operations.queue import RELEASE, LeaseRange, MessageResult, Settle, Settled

#: Requests in flight to one partition.
IN_FLIGHT_MAX = 2
#: How long an unawaited settlement lingers, and the count of unanswered messages from which on none does. Measured:
#: with 5 ms instead, messages at a thousand a second take a third longer to their handlers on a busy machine, because
#: the leader is busy with acks.
LINGER_MS = 20
LINGER_COUNT_MAX = 256
#: Settlements share a request unless one has waited for this part of its time limit longer than the other.
_LIMIT_SHARE = 4
#: The part of a lease that a settlement lingers for at the most.
_LEASE_SHARE = 10
#: Runs in one request, up to one lease more: far below the bound on envelopes.
RUNS_MAX = 4096
#: Results of one lease in one request, and of all of them up to one lease more: together far below the same bound.
RESULTS_BYTES_MAX = 64 * KIB
RESULTS_MAX = 256

#: A topic's id and a partition: leases of a deleted topic are not mixed with those of the next one of its name.
_Place: TypeAlias = tuple[int, int]


class Settler(Protocol):
    """The caller that settles messages."""

    @property
    def is_awaited(self) -> bool:
        """False: the settlement may linger."""

    def ended(self, lease: Lease, mask: int, expired: int, error: FlotillaError | None) -> None:
        """Called once per request: the settled messages of a lease, those that were refused, and a missing answer."""


class _PendingOutcome:
    """Messages of one lease with one outcome."""

    __slots__ = ("due_ms", "lease", "mask", "results", "results_bytes", "waiting")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.mask = 0
        #: When its callers stop waiting; set by the first `flush` after it came, and by then it may not leave yet.
        self.due_ms = 0
        #: The bits that each caller has settled.
        self.waiting: dict[Settler, int] = {}
        self.results: list[MessageResult] = []
        self.results_bytes = 0

    def has_room(self, size_bytes: int) -> bool:
        return self.results_bytes + size_bytes <= RESULTS_BYTES_MAX and len(self.results) < RESULTS_MAX

    def add_results(self, mask: int, payload: bytes, *, is_kept: bool) -> None:
        for offset in self.lease.offsets(mask):
            self.results.append(MessageResult(offset, payload, is_kept))
            self.results_bytes += len(payload)


class Settlements:
    def __init__(
        self,
        session: Session,
        topic: str,
        group: str,
        timeout_ms: int,
        *,
        linger_ms: int,
        answered: Callable[[int], None],
        lingered: Callable[[], None],
    ) -> None:
        """`answered` is called with the partition of each answer or error, `lingered` when it is time to `flush`."""
        self._session = session
        self._topic = topic
        self._group = group
        self._timeout_ms = timeout_ms
        self._answered = answered
        #: A lease whose results fill a request stands under itself.
        self._waiting: dict[_Place, dict[Outcome, dict[Lease | _PendingOutcome, _PendingOutcome]]] = {}
        #: Those that came since the last `flush`.
        self._fresh: list[_PendingOutcome] = []
        self._in_flight: dict[_Place, int] = {}
        #: Until when the settlements of a partition linger; set by the first `flush` after they came.
        self._leave_ms: dict[_Place, int] = {}
        self._linger_ms_max = self._linger_ms = linger_ms
        self._lingered = lingered
        #: Timers that will call `lingered`.
        self._timer_count = 0
        #: Partitions to which nothing is sent now, and what is called when nothing is in flight there.
        self._held: dict[_Place, Callable[[], None]] = {}
        #: Messages whose settlement is pending or in flight.
        self.count = 0
        #: Messages that were settled otherwise than by a release.
        self.handled = 0

    def add(self, lease: Lease, mask: int, outcome: Outcome, settler: Settler) -> None:
        """Settles messages with the next `flush`, or after lingering."""
        assert mask
        count = mask.bit_count()
        self.count += count
        if outcome.kind != RELEASE:
            self.handled += count
        place = (lease.topic_id, lease.partition)
        by_outcome = self._waiting.setdefault(place, {})
        result = outcome.result
        # Acks share requests, whatever their results.
        settled = by_outcome.setdefault(outcome if result is None else ACKED, {})
        pending = settled.get(lease)
        if pending is not None and result is not None and not pending.has_room(len(result)):
            del settled[lease]
            settled[pending] = pending
            pending = None
        if pending is None:
            pending = settled[lease] = _PendingOutcome(lease)
            self._fresh.append(pending)
        pending.mask |= mask
        if result is not None:
            pending.add_results(mask, result, is_kept=outcome.is_result_kept)
        waiting = pending.waiting
        waiting[settler] = waiting.get(settler, 0) | mask
        if settler.is_awaited or self.count >= LINGER_COUNT_MAX:
            self._leave_ms[place] = 0

    def flush(self) -> None:
        """Sends settlements that have lingered long enough, as far as there is room."""
        now_ms = self._session.now_ms
        for pending in self._fresh:
            pending.due_ms = now_ms + self._timeout_ms
        self._fresh.clear()
        for place in list(self._waiting):
            if place not in self._leave_ms:
                self._leave_ms[place] = now_ms + self._linger_ms
                if self._linger_ms:
                    self._timer_count += 1
                    self._session.timers.at(now_ms + self._linger_ms, self._on_timer)
            if self._leave_ms[place] > now_ms or place in self._held:
                continue
            while place in self._waiting and self._in_flight.get(place, 0) < IN_FLIGHT_MAX:
                self._send(place)

    def limit_linger(self, visibility_ms: int) -> None:
        """Leases last this long."""
        self._linger_ms = min(self._linger_ms_max, visibility_ms // _LEASE_SHARE)

    @property
    def is_lingering(self) -> bool:
        """`lingered` will be called within a few milliseconds. Any thread may ask."""
        return self._timer_count > 0

    def _on_timer(self) -> None:
        self._timer_count -= 1
        self._lingered()

    def hurry(self) -> None:
        """Sends all settlements without lingering, as far as there is room; the rest follows as soon as there is."""
        self._leave_ms.update(dict.fromkeys(self._waiting, 0))
        self.flush()

    def hold(self, place: _Place, drained: Callable[[], None]) -> None:
        """Sends nothing to the partition until `go_on`; calls `drained` when nothing is in flight there."""
        self._held[place] = drained
        if place not in self._in_flight:
            drained()

    def go_on(self, place: _Place) -> None:
        if self._held.pop(place, None) is not None:
            self.flush()

    def waiting_runs(self, place: _Place) -> list[LeaseRange]:
        """Messages whose settlement is not in flight yet."""
        by_outcome = self._waiting.get(place, {})
        return [
            run
            for settled in by_outcome.values()
            for pending in settled.values()
            for run in pending.lease.runs(pending.mask)
        ]

    def _send(self, place: _Place) -> None:
        topic_id, partition = place
        by_outcome = self._waiting[place]
        outcome, settled = next(iter(by_outcome.items()))
        chosen: list[_PendingOutcome] = []
        runs: list[LeaseRange] = []
        results: list[MessageResult] = []
        results_bytes = 0
        while settled and len(runs) < RUNS_MAX and len(results) < RESULTS_MAX and results_bytes < RESULTS_BYTES_MAX:
            lease = next(iter(settled))
            if chosen and settled[lease].due_ms > chosen[0].due_ms + self._timeout_ms // _LIMIT_SHARE:
                break
            pending = settled.pop(lease)
            chosen.append(pending)
            runs += pending.lease.runs(pending.mask)
            results += pending.results
            results_bytes += pending.results_bytes
        if not settled:
            del by_outcome[outcome]
            if not by_outcome:
                del self._waiting[place]
                del self._leave_ms[place]
        ranges = merged(runs)
        request = Settle(
            self._topic,
            partition,
            self._group,
            outcome.kind,
            ranges,
            outcome.reason,
            outcome.delay_ms,
            topic_id=topic_id,
            results=results,
        )
        self._in_flight[place] = self._in_flight.get(place, 0) + 1
        call = ClientCall(request, chosen[0].due_ms, lambda result: self._returned(call, place, chosen, result))
        self._session.submit(call, self._session.now_ms)

    def _returned(self, call: ClientCall, place: _Place, settled: list[_PendingOutcome], result: CallResult) -> None:
        self._in_flight[place] -= 1
        if not self._in_flight[place]:
            del self._in_flight[place]
        self.count -= sum([pending.mask.bit_count() for pending in settled])
        error = result if isinstance(result, FlotillaError) else None
        refused: list[LeaseRange] = []
        if isinstance(result, Settled):
            request = call.request
            assert isinstance(request, Settle)
            refused = result.refused_again(request.kind) if call.is_unsure else result.expired
        for pending in settled:
            lease = pending.lease
            expired = _bits_of(lease, refused) & pending.mask if refused else 0
            lease.lost |= expired
            for settler, mask in pending.waiting.items():
                settler.ended(lease, mask, expired & mask, error)
        self._answered(place[1])
        if place in self._held and place not in self._in_flight:
            self._held[place]()
        self.flush()


def _bits_of(lease: Lease, expired: list[LeaseRange]) -> int:
    found = 0
    for run in expired:
        if run.lease_id == lease.lease_id:
            found |= lease.mask(run.first, run.end)
    return found


def lease_expired(lease: Lease, mask: int) -> LeaseExpiredError:
    """The error of settling messages whose lease is over."""
    runs = [str(run.first) if run.end == run.first + 1 else f"{run.first} to {run.end - 1}" for run in lease.runs(mask)]
    what = "offset" if mask.bit_count() == 1 else "offsets"
    return LeaseExpiredError(
        f"{what} {', '.join(runs)} of partition {lease.partition} of {lease.topic}: the lease is over; group "
        f"{lease.group} has delivered the message to another consumer, it was settled before, or the topic was deleted"
    )
