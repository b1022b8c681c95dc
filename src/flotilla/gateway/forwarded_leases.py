"""Leases that a gateway has passed on to its own clients, kept so that they outlive a connection or a leader.

A gateway renews nothing by itself: whoever holds a message says how long. But its clients do not see that a leader
has changed, or that a connection to one was lost. So the gateway presents what is lent and not settled to whoever
leads then, for as long as it would have lasted anyhow. Forgetting a loan costs a second delivery at the worst, so
there are bounds: on their number, and their own time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from flotilla.client.queue._leases import Holding, merged
from flotilla.types.address import Address
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import Delivery, Extend, LeaseRange

#: Messages that are remembered; the leases of others simply run out.
LOANS_MAX: Final = 200_000
#: How often those that have run out are looked for.
_SWEEP_MS: Final = 10_000
#: A run that names no lease means whatever is held there.
_ANY_LEASE: Final = 0

#: Topic, group and partition.
_Place: TypeAlias = tuple[str, str, int]


class ForwardedLease:
    """One delivery in the hands of a client of the gateway."""

    __slots__ = ("holding", "leader", "member", "until_ms")

    def __init__(self, holding: Holding, member: str, leader: Address | None, until_ms: int) -> None:
        self.holding = holding
        self.member = member
        #: Who gave it out.
        self.leader = leader
        self.until_ms = until_ms


class ForwardedLeases:
    def __init__(self) -> None:
        #: Every message that is lent, by its offset.
        self._lent: dict[_Place, dict[Offset, ForwardedLease]] = {}
        self._count = 0
        self._sweep_ms = 0

    def __len__(self) -> int:
        return self._count

    def add(self, loan: ForwardedLease, now_ms: int) -> None:
        """Remembers a delivery, unless there is nothing to settle or too much is remembered."""
        if now_ms >= self._sweep_ms:
            self._sweep(now_ms)
        holding = loan.holding
        if holding.open and self._count + holding.count <= LOANS_MAX:
            lent = self._lent.setdefault((holding.topic, holding.group, holding.partition), {})
            before = len(lent)
            # One that ran out and was lent again is the new borrower's.
            lent.update(dict.fromkeys(range(holding.first, holding.first + holding.count), loan))
            self._count += len(lent) - before

    def settled(self, topic: str, group: str, partition: int, held: Iterable[LeaseRange]) -> None:
        """These are nobody's any more."""
        place = (topic, group, partition)
        lent = self._lent.get(place)
        if lent is None:
            return
        for offset, loan in list(_found(lent, held)):
            loan.holding.open &= ~loan.holding.bit(offset)
            del lent[offset]
            self._count -= 1
        if not lent:
            del self._lent[place]

    def extended(self, request: Extend, until_ms: int) -> None:
        """These last longer, or less long, than they did. Of a whole delivery the longest counts."""
        lent = self._lent.get((request.topic, request.group, request.partition))
        if lent is None:
            return
        masks: dict[ForwardedLease, int] = {}
        for offset, loan in _found(lent, request.held):
            masks[loan] = masks.get(loan, 0) | loan.holding.bit(offset)
        for loan, mask in masks.items():
            loan.member = request.member
            loan.until_ms = until_ms if mask == loan.holding.open else max(loan.until_ms, until_ms)

    def of_leader(self, leader: Address) -> list[ForwardedLease]:
        """What a leader gave out."""
        return self._where(lambda place, loan: loan.leader in (leader, None))

    def of_partition(self, topic: str, partition: int) -> list[ForwardedLease]:
        return self._where(lambda place, loan: (place[0], place[2]) == (topic, partition))

    def _where(self, is_meant: Callable[[_Place, ForwardedLease], bool]) -> list[ForwardedLease]:
        loans = {loan: is_meant(place, loan) for place, lent in self._lent.items() for loan in lent.values()}
        return [loan for loan, is_one in loans.items() if is_one]

    @staticmethod
    def presentations(loans: Iterable[ForwardedLease], now_ms: int) -> list[Extend]:
        """What has to be said so that these are held on, wherever they are led by now."""
        runs: dict[tuple[str, str, int, str, int], list[LeaseRange]] = {}
        for loan in loans:
            holding = loan.holding
            if loan.until_ms > now_ms:
                # ForwardedLeases that end together are presented together.
                place = (holding.topic, holding.group, holding.partition, loan.member, loan.until_ms)
                runs.setdefault(place, []).extend(holding.runs(holding.open))
        return [
            Extend(topic, partition, group, member, merged(held), until_ms - now_ms)
            for (topic, group, partition, member, until_ms), held in runs.items()
        ]

    def _sweep(self, now_ms: int) -> None:
        self._sweep_ms = now_ms + _SWEEP_MS
        for place, lent in list(self._lent.items()):
            left = {offset: loan for offset, loan in lent.items() if loan.until_ms > now_ms}
            self._count -= len(lent) - len(left)
            if left:
                self._lent[place] = left
            else:
                del self._lent[place]


def _found(lent: dict[Offset, ForwardedLease], held: Iterable[LeaseRange]) -> Iterator[tuple[Offset, ForwardedLease]]:
    """Those of the messages that are lent under the lease that is named."""
    for run in held:
        # A run may claim to be of any length; nobody has more than is lent.
        is_long = run.end - run.first > len(lent)
        offsets = [offset for offset in lent if run.first <= offset < run.end] if is_long else range(run.first, run.end)
        for offset in offsets:
            loan = lent.get(offset)
            if loan is not None and run.lease_id in (_ANY_LEASE, loan.holding.lease_id):
                yield offset, loan


def lend(
    topic: str, group: str, member: str, delivery: Delivery, *, leader: Address | None, until_ms: int
) -> ForwardedLease:
    """A delivery on its way to a client of the gateway."""
    return ForwardedLease(Holding(topic, group, delivery), member, leader, until_ms)
