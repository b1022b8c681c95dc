"""The index of batches: priorities and times of delivery by offset, which is all that delivery must know of batches.

Every applied batch extends it, in order, and trimming cuts it. Neighbouring batches with the same priority and the same
time of delivery are one stretch: a topic that uses one priority and no delays is one stretch, whatever its size, and a
batch with a time of its own costs 25 bytes. Knows nothing of groups or of the clock.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from flotilla.partition.offset_runs import Run
from flotilla.types.ids import Offset
from flotilla.types.limits import PRIORITY_MAX, TIME_MS_MAX

PRIORITIES: Final = PRIORITY_MAX + 1
#: Matches no priority: the next batch begins a stretch.
_NONE: Final = -1


class Stretch(NamedTuple):
    """Offsets [first, end) of one priority and one time of delivery."""

    #: 0: at once.
    deliver_at_ms: int
    first: Offset
    end: Offset
    priority: int


class BatchIndex:
    __slots__ = (
        "_open_deliver_at_ms",
        "_open_ends",
        "_open_priority",
        "delayed_ends",
        "delayed_firsts",
        "delayed_priorities",
        "delayed_times_ms",
        "plain_ends",
        "plain_firsts",
    )

    def __init__(self) -> None:
        #: Of each priority, stretches without a time of delivery in the order of offsets.
        self.plain_firsts = [array("Q") for _ in range(PRIORITIES)]
        self.plain_ends = [array("Q") for _ in range(PRIORITIES)]
        #: Stretches with a time of delivery, also in the order of offsets.
        self.delayed_times_ms = array("Q")
        self.delayed_firsts = array("Q")
        self.delayed_ends = array("Q")
        self.delayed_priorities = array("B")
        #: Of the newest stretch, and the column whose last item is its end: most batches only move that.
        self._open_priority = _NONE
        self._open_deliver_at_ms = 0
        self._open_ends = self.delayed_ends

    @property
    def delayed_count(self) -> int:
        """Stretches with a time of delivery, past or to come."""
        return len(self.delayed_firsts)

    def append(self, first: Offset, end: Offset, priority: int, deliver_at_ms: int) -> None:
        """A batch was stored after all others. The priority is any byte, the time any number."""
        if priority == self._open_priority and deliver_at_ms == self._open_deliver_at_ms:
            self._open_ends[-1] = end
        else:
            self._begin(first, end, priority, deliver_at_ms)

    def _begin(self, first: Offset, end: Offset, priority: int, deliver_at_ms: int) -> None:
        if priority > PRIORITY_MAX or not 0 <= deliver_at_ms <= TIME_MS_MAX:
            # Admission refuses such values. If one comes all the same, it must not stop a replica.
            self.append(first, end, min(priority, PRIORITY_MAX), min(max(deliver_at_ms, 0), TIME_MS_MAX))
            return
        if deliver_at_ms:
            self.delayed_times_ms.append(deliver_at_ms)
            self.delayed_firsts.append(first)
            self.delayed_priorities.append(priority)
            self._open_ends = self.delayed_ends
        else:
            self.plain_firsts[priority].append(first)
            self._open_ends = self.plain_ends[priority]
        self._open_ends.append(end)
        self._open_priority = priority
        self._open_deliver_at_ms = deliver_at_ms

    @property
    def count(self) -> int:
        """Offsets in all stretches together."""
        columns = zip((*self.plain_firsts, self.delayed_firsts), (*self.plain_ends, self.delayed_ends), strict=True)
        return sum(sum(ends) - sum(firsts) for firsts, ends in columns)

    def reopen(self, next_offset: Offset) -> None:
        """To be called after filling the columns: finds the last stretch, so that it can grow."""
        self._open_priority = _NONE
        self._open_deliver_at_ms = 0
        for priority, ends in enumerate(self.plain_ends):
            if ends and ends[-1] == next_offset:
                self._open_priority = priority
                self._open_ends = ends
        if self.delayed_ends and self.delayed_ends[-1] == next_offset:
            self._open_priority = self.delayed_priorities[-1]
            self._open_deliver_at_ms = self.delayed_times_ms[-1]
            self._open_ends = self.delayed_ends

    def plain_from(self, priority: int, offset: Offset) -> Run | None:
        """The first run of this priority without a time of delivery that reaches beyond `offset`, from there on."""
        ends = self.plain_ends[priority]
        at = bisect_right(ends, offset)
        if at == len(ends):
            return None
        first = self.plain_firsts[priority][at]
        return (first if first > offset else offset), ends[at]

    def delayed_from(self, offset: Offset) -> Iterator[Stretch]:
        """Stretches with a time of delivery that reach beyond `offset`, the first of them from there on.

        In the order of offsets. Nothing may be stored or trimmed while they are iterated.
        """
        for at in range(bisect_right(self.delayed_ends, offset), len(self.delayed_ends)):
            yield self._delayed(at, offset)

    def delayed_priorities_present(self) -> list[int]:
        """Of stretches with a time of delivery, past or to come; the highest last."""
        present = self.delayed_priorities.tobytes()
        return [priority for priority in range(PRIORITIES) if priority in present]

    def next_due(
        self, first: Offset, end: Offset, priority: int, now_ms: int, looks_max: int
    ) -> tuple[Stretch | None, Offset]:
        """The first due stretch of this priority in [first, end), and the offset from which to go on.

        None: the first `looks_max` stretches are others; or all are, and then the offset is `end`.
        """
        times_ms, priorities = self.delayed_times_ms, self.delayed_priorities
        start = bisect_right(self.delayed_ends, first)
        stop = min(start + looks_max, bisect_left(self.delayed_firsts, end))
        for at in range(start, stop):
            if times_ms[at] <= now_ms and priorities[at] == priority:
                return self._delayed(at, first), self.delayed_ends[at]
        return None, self.delayed_ends[stop - 1] if stop == start + looks_max else end

    def _delayed(self, at: int, offset: Offset) -> Stretch:
        first = max(self.delayed_firsts[at], offset)
        return Stretch(self.delayed_times_ms[at], first, self.delayed_ends[at], self.delayed_priorities[at])

    def stretch_at(self, offset: Offset) -> Stretch | None:
        """The stretch of `offset`, from there on; None: it is not in the log."""
        for priority in range(PRIORITIES):
            run = self.plain_from(priority, offset)
            if run is not None and run[0] == offset:
                return Stretch(0, offset, run[1], priority)
        return self.delayed_at(offset)

    def delayed_at(self, offset: Offset) -> Stretch | None:
        """The same for an offset with a time of delivery; None for all others."""
        at = bisect_right(self.delayed_ends, offset)
        if at < len(self.delayed_ends) and self.delayed_firsts[at] <= offset:
            return self._delayed(at, offset)
        return None

    def within(self, first: Offset, end: Offset) -> Iterator[Stretch]:
        """The parts of stretches inside [first, end), in the order of offsets."""
        while first < end:
            stretch = self.stretch_at(first)
            if stretch is None:
                return
            yield stretch if stretch.end <= end else stretch._replace(end=end)
            first = stretch.end

    def priority_of(self, offset: Offset) -> int:
        """0 also for an offset that is not in the log."""
        stretch = self.stretch_at(offset)
        return 0 if stretch is None else stretch.priority

    def deliver_at_ms_of(self, offset: Offset) -> int:
        """0: at once."""
        stretch = self.stretch_at(offset)
        return 0 if stretch is None else stretch.deliver_at_ms

    def make_due(self, offset: Offset, now_ms: int) -> list[tuple[int, Offset]]:
        """A delayed message is due from now on. Call `reopen` after the last one.

        Returns the time and first offset of each stretch that begins anew: of the message, and of those behind it.
        Empty: the message is not delayed beyond now.
        """
        at = bisect_right(self.delayed_ends, offset)
        if at == len(self.delayed_ends) or self.delayed_firsts[at] > offset or self.delayed_times_ms[at] <= now_ms:
            return []
        time_ms, first, end, priority = self._delayed(at, 0)
        due_ms = max(now_ms, 1)
        parts = [(time_ms, first, offset), (due_ms, offset, offset + 1), (time_ms, offset + 1, end)]
        parts = [part for part in parts if part[1] < part[2]]
        self.delayed_times_ms[at : at + 1] = array("Q", [part[0] for part in parts])
        self.delayed_firsts[at : at + 1] = array("Q", [part[1] for part in parts])
        self.delayed_ends[at : at + 1] = array("Q", [part[2] for part in parts])
        self.delayed_priorities[at : at + 1] = array("B", [priority] * len(parts))
        return [part[:2] for part in parts if part[1] >= offset]

    def trim(self, log_start: Offset) -> None:
        """Forgets everything below."""
        for firsts, ends in zip(self.plain_firsts, self.plain_ends, strict=True):
            _trim(firsts, ends, log_start)
        gone = _trim(self.delayed_firsts, self.delayed_ends, log_start)
        del self.delayed_times_ms[:gone]
        del self.delayed_priorities[:gone]
        if not self._open_ends:
            self._open_priority = _NONE
            self._open_deliver_at_ms = 0


def _trim(firsts: "array[int]", ends: "array[int]", log_start: Offset) -> int:
    """Returns how many stretches are gone; the first that is left begins at log_start or later."""
    gone = bisect_right(ends, log_start)
    del firsts[:gone]
    del ends[:gone]
    if firsts and firsts[0] < log_start:
        firsts[0] = log_start
    return gone
