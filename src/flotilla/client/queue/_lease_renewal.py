"""Keeps the leases of one queue consumer alive: renews them, and presents them to whoever leads next.

Leases are memory of a leader, so a new leader knows of none. For a short grace it gives nothing out, and whoever
presents a lease in that time keeps it. So as soon as a connection to a leader is lost, or another one answers in
its place, everything held in its partitions is extended there; the session finds out where that is.
"""

from collections.abc import Callable, Iterable
from functools import partial

from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.session import Session
from flotilla.client.queue._leases import Lease, Leases
from flotilla.client.queue._settlements import RUNS_MAX
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Extend, LeaseRange, Route, Settled

#: When an attempt to extend has failed for good, and the lease may still be good.
_RETRY_MS = 500
#: What is due within this part of the visibility is renewed together.
_SLACK_PART = 8
_NEVER_MS = 2**63


class LeaseRenewal:
    def __init__(
        self,
        session: Session,
        topic: str,
        *,
        group: str,
        member: str,
        leases: Leases,
        visibility_ms: int,
        lease_ms_max: int,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when leases may have been lost."""
        self._session = session
        self._topic = topic
        self._group = group
        self._member = member
        self._leases = leases
        self._lease_ms_max = lease_ms_max
        self._changed = changed
        #: As the leaders say.
        self.visibility_ms = visibility_ms
        #: Who led when last heard of, by partition.
        self._leaders: dict[int, Address | None] = {}
        #: Partitions whose leases are being presented.
        self._presenting: dict[int, None] = {}

    def add(self, lease: Lease) -> None:
        """A delivery has arrived."""
        now_ms = self._session.now_ms
        lease.renew_ms = now_ms + self.visibility_ms // 2
        lease.renewed_until_ms = now_ms + self._lease_ms_max
        self._leases.add(lease)

    def due(self) -> list[Lease]:
        """Holdings that have to be renewed now; empty as long as none is overdue."""
        now_ms = self._session.now_ms
        leases = self._leases
        if leases.next_ms is None or leases.next_ms > now_ms:
            return []
        next_ms = leases.find_next()
        if next_ms is None or next_ms > now_ms:
            return []
        until_ms = now_ms + self.visibility_ms // _SLACK_PART
        return [lease for lease in leases if lease.renew_ms <= until_ms]

    def renew(self, leases: Iterable[Lease]) -> None:
        """Extends those of them that may still be extended."""
        now_ms = self._session.now_ms
        runs: dict[int, list[LeaseRange]] = {}
        for lease in leases:
            if now_ms >= lease.renewed_until_ms:
                # Held for as long as it may be: from now on the lease runs out by itself.
                lease.renew_ms = _NEVER_MS
                continue
            lease.renew_ms = now_ms + max(self.visibility_ms // 2, 1)
            if lease.unsettled:
                runs.setdefault(lease.partition, []).extend(lease.runs(lease.renewable(now_ms)))
        self._leases.find_next()
        for number, ranges in runs.items():
            self._extend(number, ranges)

    def answered(self, number: int) -> None:
        """A leader of this partition has spoken: whether it is another one than before."""
        leader = self._session.routes.find(Route(self._topic, number))
        if leader is None:
            return
        before = self._leaders.get(number)
        self._leaders[number] = leader
        if before is not None and before != leader:
            self.present(number)

    def link_lost(self, address: Address) -> None:
        """A connection has ended: perhaps a leader with it."""
        for number in self._leases.partitions:
            if self._leaders.get(number) in (address, None):
                self.present(number)

    def present(self, number: int) -> None:
        """Shows everything that is held in a partition to whoever leads it now."""
        ranges = [run for lease in self._leases.of(number) for run in lease.runs(lease.unsettled)]
        if not ranges or number in self._presenting:
            return
        self._presenting[number] = None
        now_ms = self._session.now_ms
        for lease in self._leases.of(number):
            if lease.renew_ms != _NEVER_MS:
                lease.renew_ms = now_ms + max(self.visibility_ms // 2, 1)
        self._extend(number, ranges)

    def extend(
        self,
        number: int,
        ranges: list[LeaseRange],
        visibility_ms: int,
        ended: Callable[[list[LeaseRange], FlotillaError | None], None],
    ) -> None:
        """Extends by hand; `ended` is told what was refused."""

        def returned(result: CallResult) -> None:
            if isinstance(result, FlotillaError):
                ended([], result)
                return
            assert isinstance(result, Settled)
            self._leases.refuse(number, result.expired)
            self.answered(number)
            ended(result.expired, None)

        self._submit(number, ranges, visibility_ms, returned)

    def _extend(self, number: int, ranges: list[LeaseRange]) -> None:
        for start in range(0, len(ranges), RUNS_MAX):
            self._submit(number, ranges[start : start + RUNS_MAX], self.visibility_ms, partial(self._returned, number))

    def _submit(
        self, number: int, ranges: list[LeaseRange], visibility_ms: int, done: Callable[[CallResult], None]
    ) -> None:
        request = Extend(self._topic, number, self._group, self._member, ranges, visibility_ms)
        now_ms = self._session.now_ms
        deadline_ms = now_ms + max(self.visibility_ms, _RETRY_MS)
        self._session.submit(ClientCall(request, deadline_ms, done), now_ms)

    def _returned(self, number: int, result: CallResult) -> None:
        if number in self._presenting:
            # Whoever answered has seen everything.
            del self._presenting[number]
            self._leaders.pop(number, None)
        if isinstance(result, FlotillaError):
            for lease in self._leases.of(number):
                lease.renew_ms = min(lease.renew_ms, self._session.now_ms + _RETRY_MS)
                self._leases.hasten(lease.renew_ms)
        else:
            assert isinstance(result, Settled)
            self._leases.refuse(number, result.expired)
            self.answered(number)
        self._changed()
