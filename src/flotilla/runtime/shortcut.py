"""Whether the loop writes a block of the journal itself, or the journal's thread does. No clock in here.

To hand a block over and to hear of its end wakes two threads, who then contend for the interpreter: about as
much work as all the rest that a follower does for a message that travels alone. So a small block is written on
the loop while the disk is known to be quick and has little to do. Under load the thread is better, because the
loop takes in what the next block will hold meanwhile; and with a slow disk it is needed, because a loop that
waits for a disk neither answers nor says that it is alive.
"""

#: A larger block takes its time, whatever the disk.
BLOCK_BYTES_MAX = 16 * 1024
#: A write that takes longer is slow: as long as a few requests take, and far from anything that anybody waits for.
QUICK_US_MAX = 1_000
#: After a slow one so many writes in a row have to be quick.
QUICK_COUNT_MIN = 64


class Shortcut:
    def __init__(self) -> None:
        #: How many more writes have to be quick. What the disk is like is not known at first.
        self._missing_count = QUICK_COUNT_MIN
        self._took_us = 0
        self._ended_us = 0

    def is_open(self, size_bytes: int, now_us: int) -> bool:
        """Whether a block of this size had better be written on the loop."""
        # A disk that rests less than it works is under load.
        has_rested = now_us - self._ended_us >= self._took_us
        return not self._missing_count and size_bytes <= BLOCK_BYTES_MAX and has_rested

    def note(self, started_us: int, ended_us: int) -> None:
        """A block was written, wherever that was, or could not be."""
        self._ended_us = ended_us
        self._took_us = ended_us - started_us
        if self._took_us > QUICK_US_MAX:
            self._missing_count = QUICK_COUNT_MIN
        elif self._missing_count:
            self._missing_count -= 1
