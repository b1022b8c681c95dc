"""The time of day without its jumps: the clock of leases, delays and rate limits.

It runs with the monotonic clock and is slewed towards the wall clock, by a tenth at most, so setting the wall clock
neither expires leases nor stops a queue. It never goes back. A wall clock that stays far ahead for a minute is
believed: then this one was wrong.
"""

from flotilla.broker.ports import Outside

#: One part in this many of the elapsed time may go into the correction.
LEAN = 10
#: The largest correction at once, after a time without corrections.
STEP_MS = 100
#: A wall clock further ahead than this was set; after BELIEVED_MS it is believed.
JUMP_MS = 5_000
BELIEVED_MS = 60_000


class SteadyClock:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._steady_ms = outside.steady_ms()
        self._now_ms = outside.now_ms()
        #: Elapsed time that no correction has used yet.
        self._slack_ms = 0
        #: Since when the wall clock has been far ahead, by the monotonic clock.
        self._ahead_since_ms: int | None = None

    def now_ms(self) -> int:
        steady_ms = self._outside.steady_ms()
        elapsed_ms = steady_ms - self._steady_ms
        if elapsed_ms > 0:
            self._steady_ms = steady_ms
            self._now_ms += elapsed_ms
            drift_ms = self._outside.now_ms() - self._now_ms
            if drift_ms or self._ahead_since_ms is not None:
                self._correct(drift_ms, elapsed_ms)
        return self._now_ms

    def _correct(self, drift_ms: int, elapsed_ms: int) -> None:
        if drift_ms <= JUMP_MS:
            self._ahead_since_ms = None
        elif self._ahead_since_ms is None:
            self._ahead_since_ms = self._steady_ms
        elif self._steady_ms - self._ahead_since_ms >= BELIEVED_MS:
            self._now_ms += drift_ms
            self._ahead_since_ms = None
            return
        self._slack_ms = min(self._slack_ms + elapsed_ms, LEAN * STEP_MS)
        most_ms = self._slack_ms // LEAN
        # Never by more than has just passed: that would go back.
        correction_ms = max(min(drift_ms, most_ms), -most_ms, -elapsed_ms)
        self._now_ms += correction_ms
        self._slack_ms -= LEAN * abs(correction_ms)
