"""Messages of a partition whose time of delivery has not come, for all groups of one leader.

Time is the same for every group, so they share one queue: what is due leaves it once and is written into a list,
which each group reads on at its own pace. A group that nobody polls costs nothing when messages come due.

The clock here never goes back: what was due once stays due.
"""

from array import array
from bisect import bisect_right
from heapq import heapify, heappop, heappush
from typing import Final

from flotilla.queue.batch_index import BatchIndex, Stretch
from flotilla.queue.runs import RunSet
from flotilla.types.ids import Offset

#: Of an offset in an entry of the heap, below its time.
_OFFSET_BITS: Final = 64
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1


class Delays:
    """One partition's delayed messages at one leader."""

    __slots__ = ("_began", "_due", "_heap", "_index", "_newest", "now_ms", "pending")

    def __init__(self, index: BatchIndex, log_start: Offset, now_ms: int) -> None:
        self._index = index
        #: Everything up to this time is due.
        self.now_ms = now_ms
        #: Not due.
        self.pending = RunSet()
        #: (time << _OFFSET_BITS | first offset) of stretches that are not due.
        self._heap: list[int] = []
        #: The stretch that was added last: the next batch may only make it longer.
        self._newest: Stretch | None = None
        #: First offsets of stretches in the order in which they came due, and the number of the first one kept.
        self._due = array("Q")
        self._began = 0
        self._fill(log_start)

    def _fill(self, log_start: Offset) -> None:
        """Finds what is not due in the columns of the index: a node that begins to lead stands still meanwhile."""
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

    @property
    def position(self) -> int:
        """Where a reader stands that knows everything that is due."""
        return self._began + len(self._due)

    def add(self, stretch: Stretch) -> None:
        """A batch with a time of delivery was stored."""
        if stretch.deliver_at_ms <= self.now_ms:
            self._due.append(stretch.first)
            return
        self.pending.add(stretch.first, stretch.end)
        newest = self._newest
        self._newest = stretch
        if newest is not None and (newest.deliver_at_ms, newest.end, newest.priority) == (
            stretch.deliver_at_ms,
            stretch.first,
            stretch.priority,
        ):
            # The index knows both as one stretch, and the entry of the first part finds all of it.
            return
        heappush(self._heap, stretch.deliver_at_ms << _OFFSET_BITS | stretch.first)

    def advance(self, now_ms: int, log_start: Offset) -> bool:
        """Whether anything is due that was not before."""
        if now_ms <= self.now_ms:
            return False
        self.now_ms = now_ms
        before = len(self._due)
        while self._heap and self._heap[0] >> _OFFSET_BITS <= now_ms:
            first = heappop(self._heap) & _OFFSET_MASK
            stretch = self._due_stretch(first, log_start)
            if stretch is not None:
                self.pending.discard(first, stretch.end)
                self._due.append(first)
        return len(self._due) > before

    def due_since(self, position: int, log_start: Offset) -> list[Stretch]:
        """What came due behind a reader's position, as far as it is still in the log."""
        found = [self._due_stretch(first, log_start) for first in self._due[position - self._began :]]
        return [stretch for stretch in found if stretch is not None]

    def _due_stretch(self, first: Offset, log_start: Offset) -> Stretch | None:
        """From `first` on, or of what trimming left of it."""
        stretch = self._index.delayed_at(max(first, log_start))
        return stretch if stretch is not None and 0 < stretch.deliver_at_ms <= self.now_ms else None

    def next_due_ms(self) -> int | None:
        return self._heap[0] >> _OFFSET_BITS if self._heap else None

    def pending_from(self, offset: Offset) -> int:
        """Messages from `offset` on that are not due."""
        if self.pending.first >= offset:
            return self.pending.count
        return self.pending.count - sum([end - first for first, end in self.pending.within(0, offset)])

    def forget(self, position: int, log_start: Offset) -> None:
        """All readers are here or further, and the log begins there."""
        del self._due[: position - self._began]
        self._began = position
        self.pending.discard(0, log_start)

    def __len__(self) -> int:
        """Stretches that some reader may not know to be due."""
        return len(self._due)
