"""The times at which records were stored, from stamps in the log: retention by age uses these, not producers' clocks.

A stamp says "everything below this offset is at least as old as this": a StampTime carries log time, and records
that are stored when it is applied were stored before. So no record counts as older than it is, however wrong a
producer's clock is. The distance of stamps grows with the time that they span, so there are a few hundred of them.
"""

from array import array
from bisect import bisect_right
from typing import Final

from flotilla.types.ids import Offset

#: The distance of stamps: at least this, or this share of the time that all of them span.
GAP_MS_MIN: Final = 1_000
_SHARE: Final = 256
#: Beyond this every second stamp is dropped, which makes no record older.
_COUNT_MAX: Final = 4_096


class StoredTimes:
    """The stamps of one partition, the oldest first."""

    __slots__ = ("ends", "times_ms")

    def __init__(self) -> None:
        self.times_ms = array("Q")
        self.ends = array("Q")

    def note(self, now_ms: int, end: Offset) -> None:
        """Everything below `end` is stored by now. Times never go back."""
        if self.times_ms:
            gap_ms = max(GAP_MS_MIN, (now_ms - self.times_ms[0]) // _SHARE)
            if end == self.ends[-1] or now_ms - self.times_ms[-1] < gap_ms:
                return
        elif end == 0:
            return
        self.times_ms.append(now_ms)
        self.ends.append(end)
        if len(self.ends) > _COUNT_MAX:
            del self.times_ms[::2]
            del self.ends[::2]

    @property
    def oldest_ms(self) -> int | None:
        return self.times_ms[0] if self.times_ms else None

    def end_before(self, time_ms: int) -> Offset:
        """Everything below was stored at that time or before; 0: nothing is known to be."""
        place = bisect_right(self.times_ms, max(time_ms, 0))
        return self.ends[place - 1] if place else 0

    def is_due(self, now_ms: int, next_offset: Offset, gap_ms: int) -> bool:
        """Whether there are records after the last stamp, and it is at least `gap_ms` old."""
        if not self.ends:
            return next_offset > 0
        return self.ends[-1] < next_offset and now_ms - self.times_ms[-1] >= max(gap_ms, GAP_MS_MIN)

    def forget_below(self, log_start: Offset) -> None:
        """Drops stamps of records that the log has removed."""
        gone = bisect_right(self.ends, log_start)
        del self.times_ms[:gone]
        del self.ends[:gone]
