"""The clocks of one node, which drift from simulated time.

Ticks follow the node's monotonic clock, which drifts but never jumps. The wall clock drifts too and
may jump in either direction, by up to a year: nothing may depend on the wall clock of one node.
"""

from typing import Final

from flotilla.sim.devices.world import MS

TICK_US = 100 * MS
_MILLION = 1_000_000
#: How fast the clocks of a whole product's brokers drift at most; quartz is within this.
DRIFT_PPM_MAX: Final = 200
#: The product expects times of a calendar.
EPOCH_MS: Final = 1_700_000_000_000


class NodeClock:
    """One machine's clocks. `drift_ppm` positive: this node's time runs faster than the world's."""

    __slots__ = ("_steady_offset_us", "_wall_offset_us", "drift_ppm", "tick_interval_us")

    def __init__(self, drift_ppm: int = 0, wall_offset_us: int = 0, steady_offset_us: int = 0) -> None:
        self.drift_ppm = drift_ppm
        self._wall_offset_us = wall_offset_us
        self._steady_offset_us = steady_offset_us
        #: World time between two ticks of this node.
        self.tick_interval_us = TICK_US * _MILLION // (_MILLION + drift_ppm)

    def drift(self, drift_ppm: int, now_us: int) -> None:
        """Changes the speed. No clock jumps by it."""
        shown_us, steady_us = self.wall_us(now_us), self.steady_us(now_us)
        self.drift_ppm = drift_ppm
        self.tick_interval_us = TICK_US * _MILLION // (_MILLION + drift_ppm)
        self._wall_offset_us += shown_us - self.wall_us(now_us)
        self._steady_offset_us += steady_us - self.steady_us(now_us)

    def jump(self, distance_us: int) -> None:
        """Sets the wall clock."""
        self._wall_offset_us += distance_us

    def wall_us(self, now_us: int) -> int:
        return now_us + now_us * self.drift_ppm // _MILLION + self._wall_offset_us

    def steady_us(self, now_us: int) -> int:
        """The monotonic clock."""
        return now_us + now_us * self.drift_ppm // _MILLION + self._steady_offset_us

    def missed_ticks(self, paused_us: int) -> int:
        """Ticks that a pause of this length skipped."""
        return paused_us // self.tick_interval_us
