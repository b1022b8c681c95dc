"""A token bucket that may go into debt: what was done is counted, and the debt says how long to wait for the next.

It holds what a second brings, so a burst may be that large. The debt is bounded by the longest wait: a request that is
larger than the rate brings in that time costs no more than that. Counts in thousandths of a token, so that a slow rate
gains something each millisecond. Pure: callers bring the time.
"""

from flotilla.types.limits import QUOTA_PAUSE_MS_MAX


class TokenBucket:
    __slots__ = ("_filled_ms", "_level", "_rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        """`rate`: tokens per second, which are thousandths of a token per millisecond, too."""
        self._rate = rate
        self._level = rate * 1_000
        self._filled_ms = now_ms

    def take(self, tokens: int, now_ms: int) -> None:
        self._fill(now_ms)
        self._level = max(self._level - tokens * 1_000, -self._rate * QUOTA_PAUSE_MS_MAX)

    def wait_ms(self, now_ms: int) -> int:
        """Until nothing is owed; 0: nothing is."""
        self._fill(now_ms)
        return 0 if self._level >= 0 else -(self._level // self._rate)

    def _fill(self, now_ms: int) -> None:
        gained_ms = now_ms - self._filled_ms
        if gained_ms > 0:
            self._filled_ms = now_ms
            self._level = min(self._level + gained_ms * self._rate, self._rate * 1_000)
