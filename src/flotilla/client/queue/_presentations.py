"""The presentation of one queue consumer's leases to new leaders.

Leases are in the memory of a leader, so a new leader knows none. It knows the members that can hold any, and delivers
no earlier message until each of them has presented its leases, or for a short grace period. So when a connection to a
leader is lost, or another leader answers in its place, all leases of its partitions are extended at the new leader,
which the session finds.

The last of these requests is a promise: the consumer holds no other lease of an earlier term, and takes none any more.

    term     learned from the new leader by the first request. From then on deliveries of earlier terms are dropped:
             they come from a leader that is deposed, and the new one delivers the messages.
    settled  what is being settled is still held, until its answer: so the promise waits for settlements in flight, and
             further ones wait for the promise. It includes them.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from flotilla.client._core.calls import CallResult
from flotilla.client._core.session import Session
from flotilla.client.queue._lease_renewal import LeaseRenewal
from flotilla.client.queue._leases import Leases, merged
from flotilla.client.queue._settlements import RUNS_MAX, Settlements
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import LeaseRange, Route, Settled
from flotilla.types.operations.queue import LEASE_NUMBER_BITS, Delivery

#: Settlements wait for a promise no longer than this. Without it the new leader waits for its grace period.
_PROMISE_MS: Final = 1_000

#: A topic's id and a partition.
_Place: TypeAlias = tuple[int, int]


class _Presentation:
    """To the present leader of one partition."""

    __slots__ = ("calls", "has_failed", "is_again", "is_holding", "promised")

    def __init__(self) -> None:
        #: Requests in flight.
        self.calls = 0
        #: The term of the last promise; 0: there was none.
        self.promised = 0
        #: Leaders may have changed since it began.
        self.is_again = False
        #: New settlements wait for it.
        self.is_holding = False
        #: There will be no promise.
        self.has_failed = False


class Presentations:
    def __init__(
        self,
        session: Session,
        topic: str,
        *,
        leases: Leases,
        renewal: LeaseRenewal,
        settlements: Settlements,
        topic_id: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        """`topic_id`: of the topic that is polled, 0: not known. `changed` is called when leases may have been lost."""
        self._session = session
        self._topic = topic
        self._leases = leases
        self._renewal = renewal
        self._settlements = settlements
        self._topic_id = topic_id
        self._changed = changed
        #: The leader that answered last, by partition; None: it is not known.
        self._leaders: dict[int, Address | None] = {}
        #: Partitions whose leaders have leased messages to this consumer, or may have.
        self._polled: dict[int, None] = {}
        #: The highest term that was heard of: leases of earlier ones are taken no more.
        self._terms: dict[_Place, int] = {}
        self._open: dict[_Place, _Presentation] = {}

    # Leaders.

    def polled(self, partitions: list[int]) -> None:
        """A poll for these partitions is about to be sent."""
        for number in partitions:
            if number not in self._polled:
                self._polled[number] = None
                self._leaders.setdefault(number, self._session.routes.find(Route(self._topic, number)))

    def answered(self, number: int) -> None:
        """Notes which leader answered for this partition, and presents the leases to a new one."""
        leader = self._session.routes.find(Route(self._topic, number))
        if leader is None:
            return
        before = self._leaders.get(number)
        self._leaders[number] = leader
        if before is not None and before != leader:
            self.present(number)

    def link_lost(self, address: Address) -> None:
        """A connection has ended: presents the leases that its broker led."""
        for number in {**dict.fromkeys(self._leases.partitions), **self._polled}:
            if self._leaders.get(number) in (address, None):
                self.present(number)

    # Terms.

    def takes(self, delivery: Delivery) -> bool:
        """Whether a delivery is of a leader that is not known to be deposed."""
        if not delivery.lease_id:
            return True
        place = (delivery.topic_id, delivery.partition)
        term = delivery.lease_id >> LEASE_NUMBER_BITS
        if term < self._terms.get(place, 0):
            return False
        self._terms[place] = term
        return True

    # Presenting.

    def present(self, number: int) -> None:
        """Extends all leases of a partition at its present leader, and promises that there are no others."""
        topic_ids = dict.fromkeys([lease.topic_id for lease in self._leases.of(number)])
        topic_id = self._topic_id()
        if topic_id and number in self._polled:
            topic_ids[topic_id] = None
        for topic_id in topic_ids:
            place = (topic_id, number)
            if place in self._open:
                self._open[place].is_again = True
                continue
            self._open[place] = _Presentation()
            self._renewal.postpone(number)
            self._extend_all(place)

    def _extend_all(self, place: _Place) -> None:
        runs = self._held(place)
        pieces = [runs[start : start + RUNS_MAX] for start in range(0, len(runs), RUNS_MAX)] or [[]]
        self._open[place].calls = len(pieces)
        for piece in pieces:
            self._renewal.submit(*place, piece, partial(self._returned, place))

    def _held(self, place: _Place) -> list[LeaseRange]:
        topic_id, number = place
        runs = self._settlements.waiting_runs(place)
        for lease in self._leases.of(number):
            if lease.topic_id == topic_id:
                runs += lease.runs(lease.unsettled)
        return merged(runs)

    def _promise(self, place: _Place) -> None:
        """No settlement is in flight."""
        presentation = self._open.get(place)
        if presentation is None or presentation.calls:
            return
        presentation.calls = 1
        presentation.promised = self._terms[place]
        self._renewal.submit(*place, self._held(place), partial(self._returned, place), presentation.promised)

    def _returned(self, place: _Place, result: CallResult) -> None:
        topic_id, number = place
        presentation = self._open[place]
        presentation.calls -= 1
        if isinstance(result, FlotillaError):
            presentation.has_failed = True
            self._renewal.hasten(number)
        else:
            assert isinstance(result, Settled)
            self._leases.refuse(topic_id, number, result.expired)
            self._terms[place] = max(result.term, self._terms.get(place, 0))
        if not presentation.calls:
            self._go_on(place, presentation)
        self._changed()

    def _go_on(self, place: _Place, presentation: _Presentation) -> None:
        """All requests were answered."""
        if presentation.is_again:
            # Perhaps by a leader that is deposed by now.
            presentation.is_again = False
            self._extend_all(place)
            return
        term = self._terms.get(place, 0)
        if term in (0, presentation.promised) or presentation.has_failed or len(self._held(place)) > RUNS_MAX:
            self._end(place)
            return
        if not presentation.is_holding:
            presentation.is_holding = True
            until_ms = self._session.now_ms + _PROMISE_MS
            self._session.timers.at(until_ms, partial(self._give_up, place, presentation))
        self._settlements.hold(place, partial(self._promise, place))

    def _give_up(self, place: _Place, presentation: _Presentation) -> None:
        """There was no promise in time."""
        if self._open.get(place) is presentation:
            presentation.has_failed = True
            self._settlements.go_on(place)
            if not presentation.calls:
                self._end(place)

    def _end(self, place: _Place) -> None:
        del self._open[place]
        # The leader that answered has seen all leases.
        self._leaders.pop(place[1], None)
        self.answered(place[1])
        self._settlements.go_on(place)
