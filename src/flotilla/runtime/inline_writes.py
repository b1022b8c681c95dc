"""The choice between the loop and the journal's thread for writing a block. No clock in here.

A write on the thread wakes two threads, which then contend for the interpreter: about as much work as all the
rest that a follower does for a single message. So a small block is written on the loop while the disk is known
to be fast and mostly idle. Under load the thread is better, because meanwhile the loop collects the next block.
With a slow disk the thread is needed, because a loop that waits for a disk neither replies nor sends heartbeats.
"""

#: A larger block takes long on any disk.
BLOCK_BYTES_MAX = 16 * 1024
#: A slower disk would block the loop for longer than the change of threads takes. Times measured on the thread
#: include its waits for the interpreter: with a lower bound, a disk that was slow once would count as slow for ever.
QUICK_US_MAX = 1_000
#: The assumption about an unknown disk, which some twenty fast writes correct. No write counts as longer than this:
#: one slow write says little about the next.
UNKNOWN_US = 4_000
#: The last write counts for one part in this many.
_WEIGHT = 8


class InlineWrites:
    def __init__(self) -> None:
        self._usual_us = UNKNOWN_US
        self._took_us = 0
        self._ended_us = 0

    def allows(self, size_bytes: int, now_us: int) -> bool:
        """Whether to write a block of this size on the loop."""
        # A disk that is busy more than half of the time is under load.
        has_rested = now_us - self._ended_us >= self._took_us
        return self._usual_us <= QUICK_US_MAX and size_bytes <= BLOCK_BYTES_MAX and has_rested

    def note(self, started_us: int, ended_us: int) -> None:
        """A write has ended, on the loop or on the thread, with or without an error."""
        self._ended_us = ended_us
        self._took_us = ended_us - started_us
        self._usual_us += (min(self._took_us, UNKNOWN_US) - self._usual_us) // _WEIGHT
