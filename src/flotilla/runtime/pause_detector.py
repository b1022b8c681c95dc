"""Whether this process has been awake all along, by its own clock.

A process that is stopped (a signal, a debugger, a paused machine, a long stall) goes on with what it knew
before. For a leader that may be old: others have waited an election timeout and chosen another. So the
ticker says "awake" at every tick, and whoever is about to rely on leadership looks here first. If no tick
came for `unseen_ms_max`, that look counts a nap, and leadership of before the nap is worth a question only.

Only ticks count, because heartbeats leave with them: a loop that worked on requests for a second was
as silent to its followers as one that slept. A follower that hears a heartbeat votes for nobody for an
election timeout, and heartbeats leave every few ticks; as long as the two times together stay below it,
nobody can have been elected unnoticed.

The clock is one that goes on while the machine is suspended, where the system has it. Who stops the clock
together with the machine cannot be found out from inside.
"""

import time
from collections.abc import Callable

_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake_ns() -> int:
    """Time that passes also while the machine is suspended."""
    return time.clock_gettime_ns(_CLOCK_ID)


class PauseDetector:
    __slots__ = ("_clock", "_pauses", "_seen_ns", "_unseen_ns_max")

    def __init__(self, unseen_ms_max: int, clock: Callable[[], int] = awake_ns) -> None:
        assert unseen_ms_max > 0
        self._unseen_ns_max = unseen_ms_max * 1_000_000
        self._clock = clock
        self._seen_ns = clock()
        self._pauses = 0

    def tick(self) -> None:
        """The ticker runs, so heartbeats leave."""
        self.pauses()
        self._seen_ns = self._clock()

    def pauses(self) -> int:
        """How often this process has overslept until now."""
        now_ns = self._clock()
        if now_ns - self._seen_ns >= self._unseen_ns_max:
            self._pauses += 1
            self._seen_ns = now_ns
        return self._pauses
