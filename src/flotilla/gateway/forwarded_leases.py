"""Leases that a gateway has passed on to its own clients, kept so that they outlive a connection or a leader.

A gateway renews nothing by itself: whoever holds a message says how long. But its clients do not see that a leader
has changed, or that a connection to one was lost. So the gateway presents what is lent and not settled to whoever
leads then, for as long as it would have lasted anyhow. Forgetting a loan costs a second delivery at the worst, so
there are bounds: on their number, and their own time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from flotilla.client.queue._leases import Lease, merged
from flotilla.types.address import Address
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import Delivery, Extend, LeaseRange

#: Messages that are remembered; the leases of others simply run out.
FORWARDED_MAX: Final = 200_000
#: How often those that have run out are looked for.
_SWEEP_MS: Final = 10_000
#: A run that names no lease means whatever is held there.
_ANY_LEASE: Final = 0

#: Topic, group and partition.
_Place: TypeAlias = tuple[str, str, int]


class ForwardedLease:
    """One delivery in the hands of a client of the gateway."""

    __slots__ = ("leader", "lease", "member", "until_ms")

    def __init__(self, lease: Lease, member: str, leader: Address | None, until_ms: int) -> None:
        self.lease = lease
        self.member = member
        #: Who gave it out.
        self.leader = leader
        self.until_ms = until_ms


class ForwardedLeases:
    def __init__(self) -> None:
        #: Every message that is lent, by its offset.
        self._by_place: dict[_Place, dict[Offset, ForwardedLease]] = {}
        self._count = 0
        self._sweep_ms = 0

    def __len__(self) -> int:
        return self._count

    def add(self, forwarded: ForwardedLease, now_ms: int) -> None:
        """Remembers a delivery, unless there is nothing to settle or too much is remembered."""
        if now_ms >= self._sweep_ms:
            self._sweep(now_ms)
        lease = forwarded.lease
        if lease.unsettled and self._count + lease.count <= FORWARDED_MAX:
            by_offset = self._by_place.setdefault((lease.topic, lease.group, lease.partition), {})
            before = len(by_offset)
            # One that ran out and was lent again is the new borrower's.
            by_offset.update(dict.fromkeys(range(lease.first, lease.first + lease.count), forwarded))
            self._count += len(by_offset) - before

    def settled(self, topic: str, group: str, partition: int, ranges: Iterable[LeaseRange]) -> None:
        """These are nobody's any more."""
        place = (topic, group, partition)
        by_offset = self._by_place.get(place)
        if by_offset is None:
            return
        for offset, forwarded in list(_found(by_offset, ranges)):
            forwarded.lease.unsettled &= ~forwarded.lease.bit(offset)
            del by_offset[offset]
            self._count -= 1
        if not by_offset:
            del self._by_place[place]

    def extended(self, request: Extend, until_ms: int) -> None:
        """These last longer, or less long, than they did. Of a whole delivery the longest counts."""
        by_offset = self._by_place.get((request.topic, request.group, request.partition))
        if by_offset is None:
            return
        masks: dict[ForwardedLease, int] = {}
        for offset, forwarded in _found(by_offset, request.held):
            masks[forwarded] = masks.get(forwarded, 0) | forwarded.lease.bit(offset)
        for forwarded, mask in masks.items():
            forwarded.member = request.member
            forwarded.until_ms = until_ms if mask == forwarded.lease.unsettled else max(forwarded.until_ms, until_ms)

    def of_leader(self, leader: Address) -> list[ForwardedLease]:
        """What a leader gave out."""
        return self._where(lambda place, forwarded: forwarded.leader in (leader, None))

    def of_partition(self, topic: str, partition: int) -> list[ForwardedLease]:
        return self._where(lambda place, forwarded: (place[0], place[2]) == (topic, partition))

    def _where(self, is_meant: Callable[[_Place, ForwardedLease], bool]) -> list[ForwardedLease]:
        forwarded_leases = {
            forwarded: is_meant(place, forwarded)
            for place, by_offset in self._by_place.items()
            for forwarded in by_offset.values()
        }
        return [forwarded for forwarded, is_one in forwarded_leases.items() if is_one]

    @staticmethod
    def presentations(forwarded_leases: Iterable[ForwardedLease], now_ms: int) -> list[Extend]:
        """What has to be said so that these are held on, wherever they are led by now."""
        runs: dict[tuple[str, str, int, str, int], list[LeaseRange]] = {}
        for forwarded in forwarded_leases:
            lease = forwarded.lease
            if forwarded.until_ms > now_ms:
                # ForwardedLeases that end together are presented together.
                place = (lease.topic, lease.group, lease.partition, forwarded.member, forwarded.until_ms)
                runs.setdefault(place, []).extend(lease.runs(lease.unsettled))
        return [
            Extend(topic, partition, group, member, merged(ranges), until_ms - now_ms)
            for (topic, group, partition, member, until_ms), ranges in runs.items()
        ]

    def _sweep(self, now_ms: int) -> None:
        self._sweep_ms = now_ms + _SWEEP_MS
        for place, by_offset in list(self._by_place.items()):
            left = {offset: forwarded for offset, forwarded in by_offset.items() if forwarded.until_ms > now_ms}
            self._count -= len(by_offset) - len(left)
            if left:
                self._by_place[place] = left
            else:
                del self._by_place[place]


def _found(
    by_offset: dict[Offset, ForwardedLease], ranges: Iterable[LeaseRange]
) -> Iterator[tuple[Offset, ForwardedLease]]:
    """Those of the messages that are lent under the lease that is named."""
    for run in ranges:
        # A run may claim to be of any length; nobody has more than is lent.
        is_long = run.end - run.first > len(by_offset)
        offsets = (
            [offset for offset in by_offset if run.first <= offset < run.end] if is_long else range(run.first, run.end)
        )
        for offset in offsets:
            forwarded = by_offset.get(offset)
            if forwarded is not None and run.lease_id in (_ANY_LEASE, forwarded.lease.lease_id):
                yield offset, forwarded


def forward(
    topic: str, group: str, member: str, delivery: Delivery, *, leader: Address | None, until_ms: int
) -> ForwardedLease:
    """A delivery on its way to a client of the gateway."""
    return ForwardedLease(Lease(topic, group, delivery), member, leader, until_ms)
