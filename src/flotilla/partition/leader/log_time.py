"""The time of one partition's log at its leader: what the leader stamps, and the time from which it counts ages.

Log time never goes back, and it runs ahead of the leader's monotonic clock only where cluster time does, which a
majority of clocks confirms. A stamp is never earlier than the time at which its messages were stored: they would count
as older than they are. Where the log holds a stamp from the future (written while a majority of clocks was wrong),
log time goes on from there with the monotonic clock: messages stored since then age as fast as all others, and
messages with earlier stamps are old when cluster time says so.

Ages follow at a limited pace. After a leader finds that much more time has passed than its log knows (the cluster was
down, or its clocks were set), what became old by that goes step by step, over hours: a wrong decision is noticed before
everything is gone.
"""

from typing import Final

#: The time of ages runs this many times as fast as the monotonic clock, so that retention keeps up with any load;
RATE_MIN: Final = 4
#: or so fast that a 60th of what is missing passes each minute.
CATCH_UP_MS: Final = 3_600_000


class LogTime:
    """One term of one leader."""

    __slots__ = ("_aged_ms", "_now_ms", "_steady_ms", "behind_ms")

    def __init__(self, log_ms: int, steady_ms: int) -> None:
        """`log_ms` is the newest stamp in the log; 0: there is none."""
        self._now_ms = log_ms
        self._aged_ms = log_ms
        self._steady_ms = steady_ms
        #: How far the time of ages is behind.
        self.behind_ms = 0

    def advance(self, cluster_ms: int | None, steady_ms: int, oldest_ms: int | None) -> None:
        """`cluster_ms` is None while no majority confirms it: then nothing may be stamped, nor deleted by age.

        `oldest_ms` is the oldest stamp in the log.
        """
        elapsed_ms = steady_ms - self._steady_ms
        self._steady_ms = steady_ms
        self._now_ms += elapsed_ms
        if cluster_ms is None:
            return
        self._now_ms = max(self._now_ms, cluster_ms)
        is_from_future = oldest_ms is not None and oldest_ms > cluster_ms
        reference_ms = self._now_ms if is_from_future else cluster_ms
        gap_ms = reference_ms - self._aged_ms
        if gap_ms <= 0 or not self._aged_ms:
            self._aged_ms = reference_ms
        else:
            self._aged_ms += min(gap_ms, elapsed_ms * max(RATE_MIN, gap_ms // CATCH_UP_MS))
        self.behind_ms = reference_ms - self._aged_ms

    @property
    def now_ms(self) -> int:
        """For stamps."""
        return self._now_ms

    @property
    def aged_ms(self) -> int:
        """Messages are old that were stored a retention before this time."""
        return self._aged_ms
