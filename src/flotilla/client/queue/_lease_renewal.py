"""The renewal of one queue consumer's leases, and all requests that extend them."""

from collections.abc import Callable, Iterable
from functools import partial

from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.session import Session
from flotilla.client.queue._leases import Lease, Leases
from flotilla.client.queue._settlements import RUNS_MAX
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Extend, LeaseRange, Settled

#: After an extension failed for good, while the lease may still be valid.
_RETRY_MS = 500
#: Leases that are due within this fraction of the visibility timeout are renewed together.
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
        answered: Callable[[int], None],
        changed: Callable[[], None],
    ) -> None:
        """`answered` gets the partition of each answer; `changed` is called when leases may have been lost."""
        self._session = session
        self._topic = topic
        self._group = group
        self._member = member
        self._leases = leases
        self._lease_ms_max = lease_ms_max
        self._answered = answered
        self._changed = changed
        #: The visibility timeout that the leaders reported last.
        self.visibility_ms = visibility_ms

    def add(self, lease: Lease) -> None:
        """Takes in the lease of a delivery."""
        now_ms = self._session.now_ms
        lease.renew_ms = now_ms + self.visibility_ms // 2
        lease.renewed_until_ms = now_ms + self._lease_ms_max
        self._leases.add(lease)

    def due(self) -> list[Lease]:
        """Leases to renew now; empty while none is overdue."""
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
        """Extends the given leases, except those that have reached their limit."""
        now_ms = self._session.now_ms
        runs: dict[tuple[int, int], list[LeaseRange]] = {}
        for lease in leases:
            if now_ms >= lease.renewed_until_ms:
                # The lease has reached `lease_ms_max`: it expires by itself.
                lease.renew_ms = _NEVER_MS
                continue
            lease.renew_ms = now_ms + max(self.visibility_ms // 2, 1)
            if lease.unsettled:
                place = (lease.topic_id, lease.partition)
                runs.setdefault(place, []).extend(lease.runs(lease.renewable(now_ms)))
        self._leases.find_next()
        for place, ranges in runs.items():
            self._extend(*place, ranges)

    def postpone(self, number: int) -> None:
        """All leases of the partition are being extended."""
        now_ms = self._session.now_ms
        for lease in self._leases.of(number):
            if lease.renew_ms != _NEVER_MS:
                lease.renew_ms = now_ms + max(self.visibility_ms // 2, 1)

    def hasten(self, number: int) -> None:
        """Extending leases of the partition failed: they are renewed soon."""
        for lease in self._leases.of(number):
            lease.renew_ms = min(lease.renew_ms, self._session.now_ms + _RETRY_MS)
            self._leases.hasten(lease.renew_ms)

    def extend(
        self,
        topic_id: int,
        number: int,
        ranges: list[LeaseRange],
        visibility_ms: int,
        ended: Callable[[list[LeaseRange], FlotillaError | None], None],
    ) -> None:
        """Extends for the application; `ended` gets the refused ranges."""

        def returned(result: CallResult) -> None:
            if isinstance(result, FlotillaError):
                ended([], result)
                return
            assert isinstance(result, Settled)
            self._leases.refuse(topic_id, number, result.expired)
            self._answered(number)
            ended(result.expired, None)

        self._submit(topic_id, number, ranges, visibility_ms, returned)

    def _extend(self, topic_id: int, number: int, ranges: list[LeaseRange]) -> None:
        done = partial(self._returned, topic_id, number)
        for start in range(0, len(ranges), RUNS_MAX):
            self._submit(topic_id, number, ranges[start : start + RUNS_MAX], self.visibility_ms, done)

    def submit(
        self,
        topic_id: int,
        number: int,
        ranges: list[LeaseRange],
        done: Callable[[CallResult], None],
        presented_term: int = 0,
    ) -> None:
        """Extends leases as renewals do."""
        self._submit(topic_id, number, ranges, self.visibility_ms, done, presented_term)

    def _submit(
        self,
        topic_id: int,
        number: int,
        ranges: list[LeaseRange],
        visibility_ms: int,
        done: Callable[[CallResult], None],
        presented_term: int = 0,
    ) -> None:
        request = Extend(
            self._topic, number, self._group, self._member, ranges, visibility_ms, topic_id, presented_term
        )
        now_ms = self._session.now_ms
        deadline_ms = now_ms + max(self.visibility_ms, _RETRY_MS)
        self._session.submit(ClientCall(request, deadline_ms, done), now_ms)

    def _returned(self, topic_id: int, number: int, result: CallResult) -> None:
        if isinstance(result, FlotillaError):
            self.hasten(number)
        else:
            assert isinstance(result, Settled)
            self._leases.refuse(topic_id, number, result.expired)
            self._answered(number)
        self._changed()
