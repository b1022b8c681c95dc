"""The leases of one group at one leader, for one term: members, messages and deadlines.

A lease is the result of one poll: an id, a member, and runs of offsets, each with its deadline. Its id holds the
leader's term, so that no two leaders use the same one, and a number that the term never uses again. Settled messages
leave the lease; a lease without runs is gone.

Invariants:
1. no offset is in two leases; callers of `give` and `adopt` have made sure that it is free;
2. each lease has an entry in the heap that is not later than the earliest of its deadlines;
3. a member's count is the number of offsets in its leases.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from flotilla.partition.commands.hand_over import HeldLease, HeldRun
from flotilla.partition.offset_runs import Run
from flotilla.types.filters import NO_FILTER, MessageFilter
from flotilla.types.ids import Offset, Term
from flotilla.types.operations.queue import LEASE_NUMBER_BITS

NUMBER_BITS: Final = LEASE_NUMBER_BITS
_NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
#: The low bits of a heap entry hold a lease id, the others its time.
_ID_BITS: Final = 64
_ID_MASK: Final = (1 << _ID_BITS) - 1

#: Stands for any lease of an earlier leader where a request names the member only. No leader uses number 0.
EARLIER_LEASE: Final = 1 << NUMBER_BITS

#: The origin of a lease id: this table, an earlier leader, or neither.
OWN: Final = 1
EARLIER: Final = 2
STALE: Final = 3

#: A member without leases is shown for this long after its last poll, and counts as live for this long.
MEMBER_IDLE_MS: Final = 600_000
MEMBER_LIVE_MS: Final = 30_000
_MEMBERS_KEPT: Final = 1_024
#: Entries of ended leases that the heap may hold beyond one for each lease.
_HEAP_SLACK: Final = 64

#: [first, end) until a deadline.
LeasedRun: TypeAlias = tuple[Offset, Offset, int]


class LeaseIds:
    """The lease ids of one leader, for all groups of its partition."""

    __slots__ = ("next_number", "term")

    def __init__(self, term: Term) -> None:
        assert 0 < term < 1 << (_ID_BITS - NUMBER_BITS)
        self.term = term
        self.next_number = 1

    @property
    def next_id(self) -> int:
        return self.term << NUMBER_BITS | self.next_number

    def new(self) -> int:
        number = self.next_number
        self.next_number = number + 1
        return self.term << NUMBER_BITS | number


class Lease:
    """The unsettled messages of one poll."""

    __slots__ = ("given_ms", "lease_id", "member", "runs", "wake_ms")

    def __init__(self, lease_id: int, member: str, given_ms: int) -> None:
        self.lease_id = lease_id
        self.member = member
        self.given_ms = given_ms
        #: In the order of offsets.
        self.runs: list[LeasedRun] = []
        #: The time of this lease's valid entry in the heap.
        self.wake_ms = 0

    def cut(self, first: Offset, end: Offset) -> list[LeasedRun]:
        """Takes out the parts of [first, end) that are here, and returns them."""
        runs = self.runs
        at = bisect_right(runs, (first, _ID_MASK, 0)) - 1
        if at < 0 or runs[at][1] <= first:
            at += 1
        elif runs[at][0] == first and runs[at][1] == end:
            # Messages that are delivered together are most often settled together.
            return [runs.pop(at)]
        stop = at
        taken: list[LeasedRun] = []
        kept: list[LeasedRun] = []
        while stop < len(runs) and runs[stop][0] < end:
            low, high, deadline_ms = runs[stop]
            if low < first:
                kept.append((low, first, deadline_ms))
            taken.append((max(low, first), min(high, end), deadline_ms))
            if high > end:
                kept.append((end, high, deadline_ms))
            stop += 1
        if taken:
            runs[at:stop] = kept
        return taken


class Member:
    """A consumer of the group that has polled or holds leases."""

    __slots__ = ("last_poll_ms", "leased", "leases", "wanted")

    def __init__(self) -> None:
        self.leases: dict[int, Lease] = {}
        self.leased = 0
        self.last_poll_ms = 0
        #: The filter of its last poll.
        self.wanted = NO_FILTER


class LeaseTable:
    """The leases of one group."""

    def __init__(self, ids: LeaseIds) -> None:
        self._ids = ids
        #: Lower numbers of this term belong to other groups, or to this one before a reset.
        self._first_number = ids.next_number
        self._leases: dict[int, Lease] = {}
        #: (time << _ID_BITS | lease id); of a lease only the entry of its wake_ms is valid.
        self._heap: list[int] = []
        self.members: dict[str, Member] = {}
        self._members_checked_at = _MEMBERS_KEPT
        #: Offsets in all leases.
        self.count = 0

    def __len__(self) -> int:
        return len(self._leases)

    def origin_of(self, lease_id: int) -> int:
        """OWN, EARLIER or STALE. OWN does not mean that the lease still exists."""
        term = lease_id >> NUMBER_BITS
        if term == self._ids.term:
            return OWN if self._first_number <= lease_id & _NUMBER_MASK < self._ids.next_number else STALE
        return EARLIER if 0 < term < self._ids.term else STALE

    # Members.

    def see(self, member: str, now_ms: int, wanted: MessageFilter | None = None) -> None:
        """The member is there, and has polled if there is a filter."""
        found = self._member(member, now_ms)
        found.last_poll_ms = now_ms
        if wanted is not None:
            found.wanted = wanted

    def live(self, now_ms: int) -> list[str]:
        """Members that have leases, or have polled or extended a short time ago."""
        return [
            name
            for name, member in self.members.items()
            if member.leases or now_ms < member.last_poll_ms + MEMBER_LIVE_MS
        ]

    def _member(self, name: str, now_ms: int) -> Member:
        member = self.members.get(name)
        if member is None:
            if len(self.members) >= self._members_checked_at:
                self._forget_members(now_ms)
            member = self.members[name] = Member()
            member.last_poll_ms = now_ms
        return member

    def _forget_members(self, now_ms: int) -> None:
        idle = [
            name
            for name, member in self.members.items()
            if not member.leases and member.last_poll_ms + MEMBER_IDLE_MS <= now_ms
        ]
        for name in idle:
            del self.members[name]
        self._members_checked_at = max(_MEMBERS_KEPT, 2 * len(self.members))

    # Beginnings.

    def give(self, member: str, runs: Iterable[Run], deadline_ms: int, now_ms: int) -> int:
        """A new lease of runs in the order of offsets. Returns its id."""
        lease = Lease(self._ids.new(), member, now_ms)
        lease.runs = [(first, end, deadline_ms) for first, end in runs]
        assert lease.runs, "a lease of nothing"
        self._enter(lease, sum([end - first for first, end, _ in lease.runs]), now_ms)
        self._wake_at(lease, deadline_ms)
        return lease.lease_id

    def adopt(self, lease_id: int, member: str, run: Run, deadline_ms: int, now_ms: int) -> None:
        """A lease of an earlier leader goes on here, under its old id."""
        assert self.origin_of(lease_id) == EARLIER
        lease = self._leases.get(lease_id)
        self.restore(lease or Lease(lease_id, member, now_ms), (*run, deadline_ms), now_ms)

    def restore(self, lease: Lease, run: LeasedRun, now_ms: int) -> None:
        """Puts a run under a lease that may have ended since."""
        first, end, deadline_ms = run
        lease = self._leases.get(lease.lease_id, lease)
        is_new = not lease.runs
        insort(lease.runs, run)
        _join(lease.runs)
        self._enter(lease, end - first, now_ms)
        if is_new or deadline_ms < lease.wake_ms:
            self._wake_at(lease, deadline_ms)

    def _enter(self, lease: Lease, count: int, now_ms: int) -> None:
        self._leases[lease.lease_id] = lease
        member = self._member(lease.member, now_ms)
        member.leases[lease.lease_id] = lease
        member.leased += count
        self.count += count

    def held(self, now_ms: int) -> tuple[HeldLease, ...]:
        """All leases, for the next leader."""
        return tuple(
            [
                HeldLease(
                    lease.lease_id,
                    lease.member,
                    max(now_ms - lease.given_ms, 0),
                    tuple([HeldRun(first, end, max(until_ms - now_ms, 0)) for first, end, until_ms in lease.runs]),
                )
                for lease in self._leases.values()
            ]
        )

    def inherit(self, held: HeldLease, run: HeldRun, now_ms: int) -> None:
        """A run of a lease that the last leader handed over."""
        assert self.origin_of(held.lease_id) == EARLIER
        lease = self._leases.get(held.lease_id) or Lease(held.lease_id, held.member, now_ms - held.age_ms)
        self.restore(lease, (run.first, run.end, now_ms + run.left_ms), now_ms)

    # Ends.

    def find(self, lease_id: int) -> Lease | None:
        return self._leases.get(lease_id)

    def take(self, lease: Lease, first: Offset, end: Offset) -> list[LeasedRun]:
        """Takes the parts of [first, end) that are under the lease out of it, and returns them."""
        taken = lease.cut(first, end)
        if taken:
            self._leave(lease, taken)
        return taken

    def _leave(self, lease: Lease, taken: list[LeasedRun]) -> None:
        count = 0
        for first, end, _ in taken:
            count += end - first
        member = self.members[lease.member]
        member.leased -= count
        self.count -= count
        if not lease.runs:
            del member.leases[lease.lease_id]
            del self._leases[lease.lease_id]

    def expire(self, now_ms: int, limit: int) -> list[LeasedRun]:
        """Takes out the runs whose deadline has come, of at most `limit` leases."""
        expired: list[LeasedRun] = []
        while limit and self._heap and self._heap[0] >> _ID_BITS <= now_ms:
            entry = heappop(self._heap)
            lease = self._leases.get(entry & _ID_MASK)
            if lease is None or lease.wake_ms != entry >> _ID_BITS:
                continue
            limit -= 1
            taken = [run for run in lease.runs if run[2] <= now_ms]
            lease.runs = [run for run in lease.runs if run[2] > now_ms]
            if taken:
                expired += taken
                self._leave(lease, taken)
            if lease.runs:
                self._wake_at(lease, min([run[2] for run in lease.runs]))
        return expired

    def drop_member(self, name: str) -> list[LeasedRun]:
        """Takes out all runs of the member, in the order of its leases."""
        member = self.members.pop(name, None)
        if member is None:
            return []
        taken = []
        for lease_id, lease in member.leases.items():
            taken += lease.runs
            # A settlement in flight may still refer to the lease: restoring it must not bring these back.
            lease.runs = []
            del self._leases[lease_id]
        self.count -= member.leased
        return taken

    # Deadlines.

    def extend(self, lease: Lease, first: Offset, end: Offset, deadline_ms: int) -> list[LeasedRun]:
        """Gives the parts of [first, end) that are under the lease a new deadline, and returns them."""
        found = lease.cut(first, end)
        for low, high, _ in found:
            insort(lease.runs, (low, high, deadline_ms))
        _join(lease.runs)
        if found and deadline_ms < lease.wake_ms:
            self._wake_at(lease, deadline_ms)
        return found

    def next_wake_ms(self) -> int | None:
        """When to call `expire`; None: there is no lease."""
        heap = self._heap
        while heap:
            lease = self._leases.get(heap[0] & _ID_MASK)
            if lease is not None and lease.wake_ms == heap[0] >> _ID_BITS:
                return lease.wake_ms
            heappop(heap)
        return None

    def _wake_at(self, lease: Lease, time_ms: int) -> None:
        lease.wake_ms = time_ms
        if len(self._heap) > 2 * len(self._leases) + _HEAP_SLACK:
            # Most entries are of leases that were settled long before their deadlines.
            self._heap = [each.wake_ms << _ID_BITS | each.lease_id for each in self._leases.values()]
            heapify(self._heap)
        else:
            heappush(self._heap, time_ms << _ID_BITS | lease.lease_id)

    def leased_to(self, name: str, first: Offset, end: Offset) -> list[tuple[Offset, Offset, int]]:
        """The parts of [first, end) that are leased to a member, with their lease ids, in the order of offsets."""
        member = self.members.get(name)
        if member is None:
            return []
        return sorted(
            (max(low, first), min(high, end), lease.lease_id)
            for lease in member.leases.values()
            for low, high, _ in lease.runs
            if low < end and first < high
        )

    def lease_at(self, offset: Offset) -> tuple[Lease, int] | None:
        """The lease of a message, and its deadline. Searches from the newest lease on."""
        for lease in reversed(self._leases.values()):
            for first, end, deadline_ms in lease.runs:
                if first <= offset < end:
                    return lease, deadline_ms
        return None


def _join(runs: list[LeasedRun]) -> None:
    """Makes neighbours with the same deadline one run."""
    at = len(runs) - 1
    while at > 0:
        first, end, deadline_ms = runs[at - 1]
        if end == runs[at][0] and deadline_ms == runs[at][2]:
            runs[at - 1 : at + 1] = [(first, runs[at][1], deadline_ms)]
        at -= 1
