"""The leases of one queue consumer, and when each must be renewed.

    Lease    one delivery: consecutive offsets under one lease id, with a bit for each unsettled message
    Leases   all leases of a consumer, by partition

A message is *unsettled* until it is settled here, *failed* when that had no answer or was turned away, and *lost* when
the leader has refused it. Only unsettled messages are renewed, and presented to a new leader. A failed one may be
settled again, but its handler is done with it: its lease ends by itself, so that the message comes again. So does the
lease of a message whose object the application has dropped. Nothing here sends anything or reads a clock.
"""

from collections.abc import Callable, Iterable, Iterator

from flotilla.types.ids import Offset
from flotilla.types.operations.queue import Delivery, LeaseRange


class Lease:
    __slots__ = (
        "attempt",
        "count",
        "deliver_at_ms",
        "dropped",
        "extended",
        "failed",
        "first",
        "group",
        "lease_id",
        "lost",
        "partition",
        "priority",
        "renew_ms",
        "renewed_until_ms",
        "taken_over",
        "topic",
        "topic_id",
        "unsettled",
    )

    def __init__(self, topic: str, group: str, delivery: Delivery) -> None:
        self.topic = topic
        self.topic_id = delivery.topic_id
        self.group = group
        self.partition = delivery.partition
        self.lease_id = delivery.lease_id
        self.first = delivery.first
        self.count = delivery.count
        self.attempt = delivery.attempt
        self.priority = 0
        self.deliver_at_ms = 0
        #: One bit per message, the first one lowest. A delivery without a lease id is settled already.
        self.unsettled = (1 << delivery.count) - 1 if delivery.lease_id else 0
        #: Settling them failed: held no longer, and may be settled again. Disjoint from `unsettled` and `lost`.
        self.failed = 0
        self.lost = 0
        #: When the lease is renewed next, and when it is not renewed any more.
        self.renew_ms = 0
        self.renewed_until_ms = 0
        #: Messages that the application extended: until when a renewal would shorten that.
        self.extended: dict[Offset, int] = {}
        #: Called, in any thread, with the lease and an unsettled offset whose message object is gone.
        self.dropped: Callable[[tuple[Lease, Offset]], None] = renewed_anyway
        #: Called when a transaction takes over messages: the consumer holds them no longer.
        self.taken_over: Callable[[Lease, int], None] = _no_consumer

    @property
    def full(self) -> int:
        return (1 << self.count) - 1

    def bit(self, offset: Offset) -> int:
        assert self.first <= offset < self.first + self.count
        return 1 << (offset - self.first)

    def mask(self, first: Offset, end: Offset) -> int:
        """The bits of the offsets of a run that are in this lease."""
        low = max(first, self.first)
        high = min(end, self.first + self.count)
        return ((1 << (high - low)) - 1) << (low - self.first) if low < high else 0

    def runs(self, mask: int) -> Iterator[LeaseRange]:
        """The runs of offsets whose bits are set, in order."""
        position = self.first
        while mask:
            gap = (mask & -mask).bit_length() - 1
            mask >>= gap
            position += gap
            length = (mask + 1 & -(mask + 1)).bit_length() - 1
            mask >>= length
            yield LeaseRange(self.lease_id, position, position + length)
            position += length

    def offsets(self, mask: int) -> list[Offset]:
        return [offset for run in self.runs(mask) for offset in range(run.first, run.end)]

    def renewable(self, now_ms: int) -> int:
        """The unsettled bits without those that the application extended beyond now."""
        if not self.extended:
            return self.unsettled
        self.extended = {offset: until_ms for offset, until_ms in self.extended.items() if until_ms > now_ms}
        mask = self.unsettled
        for offset in self.extended:
            mask &= ~self.bit(offset)
        return mask


class Leases:
    def __init__(self) -> None:
        #: Leases with an unsettled message, in the order of arrival.
        self._by_partition: dict[int, dict[Lease, None]] = {}
        self.unsettled_count = 0
        #: A lower bound of the next renewal; None: there is no lease.
        self.next_ms: int | None = None

    def add(self, lease: Lease) -> None:
        assert lease.unsettled == lease.full
        self._by_partition.setdefault(lease.partition, {})[lease] = None
        self.unsettled_count += lease.count
        self.hasten(lease.renew_ms)

    def close(self, lease: Lease, mask: int) -> int:
        """Marks messages as settled; returns the bits of those that were unsettled or failed until now."""
        failed = lease.failed & mask
        lease.failed ^= failed
        closed = lease.unsettled & mask
        if closed:
            lease.unsettled ^= closed
            self.unsettled_count -= closed.bit_count()
            if not lease.unsettled:
                leases = self._by_partition[lease.partition]
                del leases[lease]
                if not leases:
                    del self._by_partition[lease.partition]
        return closed | failed

    def fail(self, lease: Lease, mask: int) -> None:
        """Settling messages failed: they may be settled again, and are held no longer."""
        lease.failed |= mask & ~lease.unsettled & ~lease.lost

    def hold(self, lease: Lease, mask: int) -> None:
        """Holds failed messages again, because the application has extended them."""
        held = lease.failed & mask
        if held:
            lease.failed &= ~held
            lease.unsettled |= held
            self.unsettled_count += held.bit_count()
            self._by_partition.setdefault(lease.partition, {})[lease] = None
            self.hasten(lease.renew_ms)

    def hasten(self, when_ms: int) -> None:
        """Notes that a lease must be renewed at this time."""
        if self.next_ms is None or when_ms < self.next_ms:
            self.next_ms = when_ms

    def refuse(self, topic_id: int, partition: int, expired: Iterable[LeaseRange]) -> None:
        """Marks messages as lost that a leader has refused."""
        for run in expired:
            for lease in self.of(partition):
                if lease.lease_id == run.lease_id and lease.topic_id == topic_id:
                    lost = self.close(lease, lease.mask(run.first, run.end))
                    lease.lost |= lost

    @property
    def partitions(self) -> list[int]:
        return list(self._by_partition)

    def of(self, partition: int) -> list[Lease]:
        return list(self._by_partition.get(partition, ()))

    def __iter__(self) -> Iterator[Lease]:
        return iter([lease for leases in self._by_partition.values() for lease in leases])

    def find_next(self) -> int | None:
        """The exact time of the next renewal."""
        self.next_ms = min([lease.renew_ms for lease in self], default=None)
        return self.next_ms


def renewed_anyway(dropped: tuple[Lease, Offset]) -> None:
    """For the `dropped` of a lease that stays without its messages, or that no consumer holds."""


def _no_consumer(lease: Lease, mask: int) -> None:
    """No consumer holds the lease."""


def merged(runs: Iterable[LeaseRange]) -> list[LeaseRange]:
    """The same offsets in as few runs as possible: neighbours under one lease id are joined."""
    found: list[LeaseRange] = []
    for run in sorted(runs):
        if found and found[-1].lease_id == run.lease_id and found[-1].end >= run.first:
            found[-1] = found[-1]._replace(end=max(found[-1].end, run.end))
        else:
            found.append(run)
    return found
