"""Leases that a gateway has forwarded to its callers, kept so that they survive a lost connection or a new leader.

A gateway renews nothing by itself: its callers extend their leases. But they do not see that a leader has changed, or
that a connection was lost. So the gateway presents the unsettled leases to the new leader, for the time that they have
left. Forgetting one costs a second delivery at worst, so their count and their time are bounded.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from flotilla.client.queue._leases import Lease, merged
from flotilla.types.address import Address
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import Delivery, Extend, LeaseRange, Settle

#: Messages that are kept; beyond that, a lease is not presented to a new leader.
FORWARDED_MAX: Final = 200_000
#: How often expired leases are removed.
_SWEEP_MS: Final = 10_000
#: A range without a lease id matches any lease.
_ANY_LEASE: Final = 0

#: Topic, group, partition, and the topic's id.
_Place: TypeAlias = tuple[str, str, int, int]


class ForwardedLease:
    """The lease of one delivery to a caller of the gateway."""

    __slots__ = ("leader", "lease", "member", "until_ms")

    def __init__(self, lease: Lease, member: str, leader: Address | None, until_ms: int) -> None:
        self.lease = lease
        self.member = member
        #: The leader that delivered it; None: unknown.
        self.leader = leader
        self.until_ms = until_ms


class ForwardedLeases:
    def __init__(self) -> None:
        #: The lease of every forwarded message, by offset.
        self._by_place: dict[_Place, dict[Offset, ForwardedLease]] = {}
        self._count = 0
        self._sweep_ms = 0

    def __len__(self) -> int:
        return self._count

    def add(self, forwarded: ForwardedLease, now_ms: int) -> None:
        """Keeps a lease, unless it has nothing to settle or the limit is reached."""
        if now_ms >= self._sweep_ms:
            self._sweep(now_ms)
        lease = forwarded.lease
        if lease.unsettled and self._count + lease.count <= FORWARDED_MAX:
            by_offset = self._by_place.setdefault((lease.topic, lease.group, lease.partition, lease.topic_id), {})
            before = len(by_offset)
            # A message that expired and was delivered again belongs to the new lease.
            by_offset.update(dict.fromkeys(range(lease.first, lease.first + lease.count), forwarded))
            self._count += len(by_offset) - before

    def settled(self, request: Settle | Extend, ranges: Iterable[LeaseRange]) -> None:
        """Removes messages that a request has settled, or has shown to be lost."""
        place = _place_of(request)
        by_offset = self._by_place.get(place)
        if by_offset is None:
            return
        for offset, forwarded in list(_found(by_offset, ranges)):
            forwarded.lease.unsettled &= ~forwarded.lease.bit(offset)
            del by_offset[offset]
            self._count -= 1
        if not by_offset:
            del self._by_place[place]

    def left(self, topic: str, group: str, member: str) -> None:
        """Removes all messages of a member."""
        for place in [place for place in self._by_place if place[:2] == (topic, group)]:
            by_offset = self._by_place[place]
            for offset in [offset for offset, forwarded in by_offset.items() if forwarded.member == member]:
                by_offset[offset].lease.unsettled &= ~by_offset[offset].lease.bit(offset)
                del by_offset[offset]
                self._count -= 1
            if not by_offset:
                del self._by_place[place]

    def extended(self, request: Extend, until_ms: int) -> None:
        """Notes a new expiry. When only a part of a delivery is extended, the later expiry counts for all of it."""
        by_offset = self._by_place.get(_place_of(request))
        if by_offset is None:
            return
        masks: dict[ForwardedLease, int] = {}
        for offset, forwarded in _found(by_offset, request.leases):
            masks[forwarded] = masks.get(forwarded, 0) | forwarded.lease.bit(offset)
        for forwarded, mask in masks.items():
            forwarded.member = request.member
            forwarded.until_ms = until_ms if mask == forwarded.lease.unsettled else max(forwarded.until_ms, until_ms)

    def of_leader(self, leader: Address) -> list[ForwardedLease]:
        """The leases of a leader, or of an unknown one."""
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
        """The requests that present these leases to the present leaders."""
        runs: dict[tuple[str, str, int, int, str, int], list[LeaseRange]] = {}
        for forwarded in forwarded_leases:
            lease = forwarded.lease
            if forwarded.until_ms > now_ms:
                # Leases that expire together are presented together.
                place = (lease.topic, lease.group, lease.partition, lease.topic_id)
                runs.setdefault((*place, forwarded.member, forwarded.until_ms), []).extend(lease.runs(lease.unsettled))
        return [
            Extend(topic, partition, group, member, merged(ranges), until_ms - now_ms, topic_id)
            for (topic, group, partition, topic_id, member, until_ms), ranges in runs.items()
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


def _place_of(request: Settle | Extend) -> _Place:
    return (request.topic, request.group, request.partition, request.topic_id)


def _found(
    by_offset: dict[Offset, ForwardedLease], ranges: Iterable[LeaseRange]
) -> Iterator[tuple[Offset, ForwardedLease]]:
    """The messages of the given ranges that are forwarded under the lease id of their range."""
    for run in ranges:
        # A caller may send a range of any length; it is cut to what is forwarded.
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
    """The lease of a delivery that goes to a caller."""
    return ForwardedLease(Lease(topic, group, delivery), member, leader, until_ms)
