"""How far the brokers' clock is ahead of ours: what counts from now on counts by the clock of those who keep it.

A broker tells its time when it welcomes a connection. It said so after Hello had left and before Welcome was here, so
the difference is known up to the length of that round trip. Whatever must not be early takes the larger end.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from flotilla.types.address import Address

#: Clocks of brokers in this very process, by where they are reached: those may be turned by hand (`flotilla.testing`),
#: and nobody would hear of it before the next Welcome.
CLOCKS_HERE: Final[dict[Address, Callable[[], int]]] = {}


class BrokerTime(NamedTuple):
    """What a broker said of its time, with Welcome."""

    address: Address
    #: Its time of day,
    time_ms: int
    #: and when it was asked, by the clock of the session.
    asked_ms: int


class ClockDifference(NamedTuple):
    """The brokers' time of day less ours lies between these."""

    least_ms: int
    most_ms: int

    @property
    def likely_ms(self) -> int:
        """None as long as the clocks may agree, which most do."""
        return 0 if self.least_ms <= 0 <= self.most_ms else self.most_ms


#: Nobody has told anything else.
AGREED: Final = ClockDifference(0, 0)


def difference_of(broker_time: BrokerTime, now_ms: int, day_ms: int) -> ClockDifference:
    """As it was heard now, by the clock of the session and by the time of day here."""
    took_ms = now_ms - broker_time.asked_ms
    heard_ms = broker_time.time_ms - day_ms
    # Clocks are read in whole milliseconds, and the two do not begin theirs together.
    return ClockDifference(heard_ms - 1, heard_ms + took_ms + 1)


def difference_here(broker_time: BrokerTime | None, day_ms: int) -> ClockDifference | None:
    """Of a broker in this process, to a time of day that was read just before; None: it is elsewhere."""
    clock = None if broker_time is None else CLOCKS_HERE.get(broker_time.address)
    if clock is None:
        return None
    ahead_ms = clock() - day_ms
    return ClockDifference(ahead_ms - 1, ahead_ms)
