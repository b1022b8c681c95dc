"""The checker of ages, by the world's time: what is young is there, and nothing happens before its time.

Nodes judge by cluster time. It may be wrong by what all clocks are wrong by (their drift), and it lags by what
readings need on their way; a clock that was set must not move it. The jumps of a run are far larger than this slack.
"""

from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.clock import EPOCH_MS
from flotilla.sim.devices.world import MS, World
from flotilla.types.ids import Offset

_MILLION: Final = 1_000_000
#: Readings are late by the weather and by pauses, and time is corrected slowly after that.
_LATE_MS: Final = 20_000
_EARLY_MS: Final = 500


class AgeChecker:
    """One partition."""

    def __init__(self, world: World, retention_ms: int, keep_messages: int, drift_ppm_max: int) -> None:
        self._world = world
        self._retention_ms = retention_ms
        self._keep_messages = keep_messages
        self._drift_ppm_max = drift_ppm_max
        #: By offset: when the first replica applied it. No answer came before that.
        self._stored_us: list[int] = []
        self._log_start: Offset = 0

    def _wrong_ms(self) -> int:
        """How far ahead cluster time may be."""
        return self._world.now_us * self._drift_ppm_max // _MILLION // MS

    def applied(self, log_start: Offset, next_offset: Offset) -> None:
        """The ends of the log at a replica, after an entry."""
        now_us = self._world.now_us
        if next_offset > len(self._stored_us):
            self._stored_us += [now_us] * (next_offset - len(self._stored_us))
        if log_start <= self._log_start:
            return
        slack_ms = 2 * self._wrong_ms() + _LATE_MS
        # Retention by count may have removed what is below.
        excess = next_offset - self._keep_messages if self._keep_messages else 0
        for offset in range(max(self._log_start, excess), log_start):
            age_ms = (now_us - self._stored_us[offset]) // MS
            if not self._retention_ms or age_ms < self._retention_ms - slack_ms:
                raise Violation(
                    "acknowledged and young is there",
                    f"message {offset} was removed after {age_ms} ms, and retention is {self._retention_ms} ms",
                )
        self._log_start = log_start

    def happens(self, due_ms: int, what: str) -> None:
        """Something that may not happen before `due_ms`, which a client has given."""
        now_ms = EPOCH_MS + self._world.now_us // MS
        early_ms = due_ms - now_ms - self._wrong_ms()
        if early_ms > _EARLY_MS:
            raise Violation("never early", f"{what} {early_ms} ms before its time, by the world's clock")
