"""Detects that this process was paused (signal, debugger, suspended machine, long stall) by gaps between its ticks.

A paused process goes on with what it knew before. For a leader that may be outdated: its followers may have
waited an election timeout and elected another. So the ticker reports every tick, and the node calls `pauses`
before it relies on leadership. A gap of `unseen_ms_max` counts as a pause, and leadership from before a pause
must be confirmed by a quorum.

Only ticks count, because heartbeats leave with them: a loop that worked on requests for a second was as silent
to its followers as a paused one. How long a gap may be, so that no other leader is elected unnoticed, is derived
from the election timeout (types/timing).

The clock goes on while the machine is suspended, where the system has such a clock. A virtual machine whose
clock is stopped with it cannot notice that from inside.
"""

from collections.abc import Callable


class PauseDetector:
    __slots__ = ("_clock", "_pauses", "_seen_ns", "_unseen_ns_max")

    def __init__(self, unseen_ms_max: int, clock: Callable[[], int]) -> None:
        """`clock` gives nanoseconds."""
        assert unseen_ms_max > 0
        self._unseen_ns_max = unseen_ms_max * 1_000_000
        self._clock = clock
        self._seen_ns = self._clock()
        self._pauses = 0

    def tick(self) -> None:
        """A tick has come, so heartbeats leave."""
        self.pauses()
        self._seen_ns = self._clock()

    def pauses(self) -> int:
        """How often this process was paused until now."""
        now_ns = self._clock()
        if now_ns - self._seen_ns >= self._unseen_ns_max:
            self._pauses += 1
            self._seen_ns = now_ns
        return self._pauses
