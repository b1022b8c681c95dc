"""Messages of a partition whose time of delivery has not come, for all groups of one leader.

Time is the same for every group, so they share one heap: a stretch that comes due leaves it once, for the list of its
priority, which each group reads at its own pace (`due_cursor`). A group that no member polls costs nothing when
messages come due.

The clock here never goes back: a message stays due. When more comes due than one call may take, the rest follows in
the next calls, and counts as pending until then.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final, TypeVar

from flotilla.partition.offset_runs import RunSet
from flotilla.partition.state.batch_index import PRIORITIES, BatchIndex, Stretch
from flotilla.types.ids import Offset

#: The low bits of a heap entry hold an offset, the others its time.
_OFFSET_BITS: Final = 64
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
#: Stretches that come due in one call; the rest waits for the next call.
_DUE_LIMIT: Final = 512


_Item = TypeVar("_Item", int, tuple[int, int, int])


class Delays:
    """One partition's delayed messages at one leader."""

    __slots__ = ("_began", "_due", "_heap", "_index", "_newest", "due_count", "now_ms", "pending")

    def __init__(self, index: BatchIndex, log_start: Offset, now_ms: int) -> None:
        self._index = index
        #: Everything up to this time is due, or will be in the next calls.
        self.now_ms = now_ms
        #: Not known to be due.
        self.pending = RunSet()
        #: (time << _OFFSET_BITS | first offset) of stretches that are not known to be due.
        self._heap: list[int] = []
        #: The stretch that was added last: the next batch may extend it.
        self._newest: Stretch | None = None
        #: The due list of each priority: first offsets of stretches in the order in which they came due; and the
        #: position of the first one kept.
        self._due = [array("Q") for _ in range(PRIORITIES)]
        self._began = [0] * PRIORITIES
        #: Stretches that ever were in the due lists.
        self.due_count = 0
        self._fill(log_start)

    def _fill(self, log_start: Offset) -> None:
        """Finds messages that are not due, by columns of the index: the node does nothing else meanwhile."""
        index = self._index
        now_ms = self.now_ms
        start = bisect_right(index.delayed_ends, log_start)
        times_ms, firsts = index.delayed_times_ms[start:], index.delayed_firsts[start:]
        self._heap = [
            time_ms << _OFFSET_BITS | first for time_ms, first in zip(times_ms, firsts, strict=True) if time_ms > now_ms
        ]
        heapify(self._heap)
        run_first = run_end = log_start
        for time_ms, first, end in zip(times_ms, firsts, index.delayed_ends[start:], strict=True):
            if time_ms <= now_ms:
                continue
            if first > run_end:
                if run_first < run_end:
                    self.pending.add(run_first, run_end)
                run_first = first
            run_end = end
        if run_first < run_end:
            self.pending.add(run_first, run_end)

    def position(self, priority: int) -> int:
        """The position behind the due list of a priority."""
        return self._began[priority] + len(self._due[priority])

    def positions(self) -> list[int]:
        """The same for all priorities."""
        return [self.position(priority) for priority in range(PRIORITIES)]

    def _note_due(self, first: Offset, priority: int) -> None:
        self._due[priority].append(first)
        self.due_count += 1

    def add(self, stretch: Stretch) -> None:
        """A batch with a time of delivery was stored."""
        if stretch.deliver_at_ms <= self.now_ms:
            self._note_due(stretch.first, stretch.priority)
            return
        self.pending.add(stretch.first, stretch.end)
        newest = self._newest
        self._newest = stretch
        if newest is not None and (newest.deliver_at_ms, newest.end, newest.priority) == (
            stretch.deliver_at_ms,
            stretch.first,
            stretch.priority,
        ):
            # The index has both as one stretch, and the entry of the first part finds all of it.
            return
        heappush(self._heap, stretch.deliver_at_ms << _OFFSET_BITS | stretch.first)

    def hasten(self, stretches: Iterable[tuple[int, Offset]]) -> None:
        """Stretches begin anew, each with its time: some of their messages are due earlier than they were."""
        for time_ms, first in stretches:
            heappush(self._heap, time_ms << _OFFSET_BITS | first)
        # The index may have cut it, so the next batch does not extend it.
        self._newest = None

    def advance(self, now_ms: int, log_start: Offset) -> bool:
        """Returns whether anything came due. There is more while `next_due_ms` is not later than now."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        before = self.due_count
        for _ in range(_DUE_LIMIT):
            if not self._heap or self._heap[0] >> _OFFSET_BITS > self.now_ms:
                break
            first = heappop(self._heap) & _OFFSET_MASK
            stretch = self._due_stretch(first, log_start)
            if stretch is not None:
                self.pending.discard(first, stretch.end)
                self._note_due(first, stretch.priority)
        return self.due_count > before

    def due_at(self, priority: int, position: int, log_start: Offset) -> Stretch | None:
        """The stretch at a position of a due list; None: it is not in the log any more."""
        return self._due_stretch(self._due[priority][position - self._began[priority]], log_start)

    def _due_stretch(self, first: Offset, log_start: Offset) -> Stretch | None:
        """The due stretch from `first` on, or the part that trimming left; None: there is none."""
        stretch = self._index.delayed_at(max(first, log_start))
        return stretch if stretch is not None and 0 < stretch.deliver_at_ms <= self.now_ms else None

    def sample(self, count_max: int) -> tuple[list[tuple[int, Offset]], int]:
        """(time, first offset) of every n-th stretch that is not due, and n: at most `count_max` of them."""
        step = max(-(-len(self._heap) // count_max), 1)
        return [(entry >> _OFFSET_BITS, entry & _OFFSET_MASK) for entry in self._heap[::step]], step

    def soonest(self, looks_max: int, log_start: Offset) -> Iterator[tuple[int, Offset, Offset]]:
        """(time, first, end) of the stretches that come due next, in that order. What is left of a trimmed one repeats.

        Nothing may change while they are iterated.
        """
        for entry in islice(in_order(self._heap), looks_max):
            time_ms = entry >> _OFFSET_BITS
            stretch = self._index.delayed_at(max(entry & _OFFSET_MASK, log_start))
            # Otherwise it was trimmed, or its message was made due.
            if stretch is not None and stretch.deliver_at_ms == time_ms:
                yield time_ms, stretch.first, stretch.end

    @property
    def waiting_count(self) -> int:
        """Stretches that `soonest` goes through."""
        return len(self._heap)

    def next_due_ms(self) -> int | None:
        return self._heap[0] >> _OFFSET_BITS if self._heap else None

    def pending_from(self, offset: Offset) -> int:
        """Messages from `offset` on that are not due."""
        if self.pending.first >= offset:
            return self.pending.count
        return self.pending.count - sum([end - first for first, end in self.pending.within(0, offset)])

    def forget(self, positions: Iterable[list[int]], log_start: Offset) -> None:
        """Drops what all readers have passed; `positions` are those of all readers."""
        for priority, lowest in enumerate(map(min, zip(self.positions(), *positions, strict=True))):
            del self._due[priority][: lowest - self._began[priority]]
            self._began[priority] = lowest
        self.pending.discard(0, log_start)

    def __len__(self) -> int:
        """Stretches in the due lists."""
        return sum(map(len, self._due))


def in_order(heap: Sequence[_Item]) -> Iterator[_Item]:
    """The items of a heap, the smallest first: a few cost little. The heap may not change while it is iterated."""
    front: list[tuple[_Item, int]] = [(heap[0], 0)] if heap else []
    while front:
        item, at = heappop(front)
        yield item
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heappush(front, (heap[child], child))
