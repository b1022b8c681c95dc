"""Whether the loop writes a block of the journal itself, or the journal's thread does. No clock in here.

To hand a block over and to hear of its end wakes two threads, who then contend for the interpreter: about as
much work as all the rest that a follower does for a message that travels alone. So a small block is written on
the loop while the disk is known to be quick and has little to do. Under load the thread is better, because the
loop takes in what the next block will hold meanwhile; and with a slow disk it is needed, because a loop that
waits for a disk neither answers nor says that it is alive.
"""

#: A larger block takes its time, whatever the disk.
BLOCK_BYTES_MAX = 16 * 1024
#: A disk that usually takes longer holds up the loop for more than the change of threads is worth. What the thread
#: measures includes its waits for the interpreter: with a lower bound, a disk that was slow once would stay so.
QUICK_US_MAX = 1_000
#: What the disk is like is not known at first: some twenty quick writes show it. No write counts as longer than that:
#: one that the disk took its time for says little of the next.
UNKNOWN_US = 4_000
#: How much the last write counts.
_WEIGHT = 8


class InlineWrites:
    def __init__(self) -> None:
        self._usual_us = UNKNOWN_US
        self._took_us = 0
        self._ended_us = 0

    def allows(self, size_bytes: int, now_us: int) -> bool:
        """Whether a block of this size had better be written on the loop."""
        # A disk that rests less than it works is under load.
        has_rested = now_us - self._ended_us >= self._took_us
        return self._usual_us <= QUICK_US_MAX and size_bytes <= BLOCK_BYTES_MAX and has_rested

    def note(self, started_us: int, ended_us: int) -> None:
        """A block was written, wherever that was, or could not be."""
        self._ended_us = ended_us
        self._took_us = ended_us - started_us
        self._usual_us += (min(self._took_us, UNKNOWN_US) - self._usual_us) // _WEIGHT
