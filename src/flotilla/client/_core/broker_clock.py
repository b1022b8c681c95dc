"""The difference between the brokers' clock and ours: delays and expiries are enforced by the brokers' clock.

A broker reports its time of day in Welcome, after Hello has left here and before Welcome arrives, so the difference is
known up to that round trip. A time that must not be early uses the larger bound. If our wall clock is set afterwards,
the monotonic clock shows by how much, and the difference moves with it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from flotilla.types.address import Address

#: Clocks of brokers in this process, by address. Tests advance them by hand (`flotilla.testing`), which a client would
#: only notice at the next Welcome.
CLOCKS_HERE: Final[dict[Address, Callable[[], int]]] = {}


#: Smaller moves of the wall clock bring it closer to the brokers', which are synchronised too.
_SLEWED_MS_MAX: Final = 1_000


class BrokerTime(NamedTuple):
    """The time of day that a broker reported in Welcome."""

    address: Address
    time_ms: int
    #: When Hello was sent, by the clock of the session.
    asked_ms: int


class ClockDifference(NamedTuple):
    """Bounds of the brokers' time of day minus ours."""

    least_ms: int
    most_ms: int

    @property
    def likely_ms(self) -> int:
        """0 as long as the clocks may agree, which most do."""
        return 0 if self.least_ms <= 0 <= self.most_ms else self.most_ms


#: Until a broker reports its time.
AGREED: Final = ClockDifference(0, 0)


def difference_of(broker_time: BrokerTime, now_ms: int, day_ms: int) -> ClockDifference:
    """The difference by a report that has just arrived, at `now_ms` of the session and `day_ms` of the wall clock."""
    took_ms = now_ms - broker_time.asked_ms
    heard_ms = broker_time.time_ms - day_ms
    # Clocks are read in whole milliseconds, and those of the two machines do not start together.
    return ClockDifference(heard_ms - 1, heard_ms + took_ms + 1)


def after_jump(difference: ClockDifference, ahead_before_ms: int, ahead_ms: int) -> ClockDifference:
    """The difference now. Both times are our wall clock minus our monotonic one: when it was measured, and now."""
    jumped_ms = ahead_ms - ahead_before_ms
    if abs(jumped_ms) <= _SLEWED_MS_MAX:
        return difference
    return ClockDifference(difference.least_ms - jumped_ms, difference.most_ms - jumped_ms)


def difference_here(broker_time: BrokerTime | None, day_ms: int) -> ClockDifference | None:
    """The exact difference of a broker in this process to `day_ms`, read just before; None: it runs elsewhere."""
    clock = None if broker_time is None else CLOCKS_HERE.get(broker_time.address)
    if clock is None:
        return None
    ahead_ms = clock() - day_ms
    return ClockDifference(ahead_ms - 1, ahead_ms)
