"""The rate limit of one group: a token bucket as a theoretical arrival time, in integer microseconds.

Each message moves that time ahead by its share; the burst bounds how far it may be ahead of the clock. That needs no
refilling and no fractions, and rates below one a second are nothing special.

The leader spends tokens in memory, but only those that the log has reserved: up to a second's worth ahead, or one
token. The next leader begins behind the reservation, whatever the last one used of it. So a failover never exceeds the
limit, and loses at most the reserved tokens.

Invariant: the arrival time never passes the reservation, nor the clock by more than the burst.
"""

from typing import Final

from flotilla.partition.state.group import GroupState

_MINUTE_US: Final = 60_000_000
#: How far ahead tokens are reserved, unless one of them takes longer.
_AHEAD_US: Final = 1_000_000
#: Time passes until a reservation is in the log: without a margin a slow token would be short by it then.
_MARGIN_US: Final = 500_000
#: A reservation that has not committed by then was lost on its way.
_LOST_MS: Final = 1_000


class RateLimit:
    __slots__ = ("_asked_ms", "_asked_us", "_burst", "_group", "_per_minute", "_tat_us", "_wanted")

    def __init__(self, group: GroupState) -> None:
        self._group = group
        self._per_minute = 0
        self._burst = 1
        #: The theoretical arrival time: when the bucket will be full again.
        self._tat_us = group.reserved_tat_us
        #: Tokens that polls wanted beyond the reservation.
        self._wanted = 0
        self._asked_us = 0
        self._asked_ms = 0

    def configure(self, per_minute: int, burst: int, now_ms: int) -> None:
        """The limit in force; 0 a minute: none."""
        if per_minute == self._per_minute and burst == self._burst:
            return
        self._per_minute = per_minute
        self._burst = burst
        if per_minute:
            # A time further ahead comes from a slower limit, or from a faster clock.
            self._tat_us = min(self._tat_us, self._latest_us(now_ms))

    @property
    def is_limited(self) -> bool:
        return self._per_minute > 0

    def _latest_us(self, now_ms: int) -> int:
        """The latest time that is ever reserved."""
        return now_ms * 1000 + self._cost_us(self._burst) + max(_AHEAD_US, self._cost_us(1))

    def _cost_us(self, count: int) -> int:
        """Rounded up, so that the limit is never exceeded."""
        return -(-count * _MINUTE_US // self._per_minute)

    def available(self, now_ms: int, wanted: int) -> int:
        """How many of the wanted messages may go now. Those that lack a reservation raise `wanted_reservation`."""
        if not self._per_minute:
            return wanted
        allowed = min(self._count(self._room_us(now_ms)), self._burst)
        reserved = self._count(self._group.reserved_tat_us - max(self._tat_us, now_ms * 1000))
        if wanted > reserved:
            self._wanted = max(self._wanted, wanted)
        return min(wanted, allowed, reserved)

    def _room_us(self, now_ms: int) -> int:
        """How far the burst lets the arrival time move."""
        now_us = now_ms * 1000
        return now_us + self._cost_us(self._burst) - max(self._tat_us, now_us)

    def _count(self, room_us: int) -> int:
        return max(room_us, 0) * self._per_minute // _MINUTE_US

    def take(self, count: int, now_ms: int) -> None:
        """`count` messages go now; `available` has allowed it."""
        if self._per_minute and count:
            self._tat_us = max(self._tat_us, now_ms * 1000) + self._cost_us(count)
            assert self._tat_us <= self._group.reserved_tat_us, "tokens were spent that were not reserved"
            self._ask_early(now_ms)

    def _ask_early(self, now_ms: int) -> None:
        """Asks for the next reservation before this one is used up, if a token costs at most a second."""
        left_us = self._group.reserved_tat_us - max(self._tat_us, now_ms * 1000)
        if self._cost_us(1) <= _AHEAD_US and left_us < _AHEAD_US // 2:
            self._wanted = max(self._wanted, 1)

    def refund(self, count: int) -> None:
        """`count` messages were not sent after all."""
        if self._per_minute:
            self._tat_us -= count * _MINUTE_US // self._per_minute

    def wanted_reservation(self, now_ms: int) -> int | None:
        """The arrival time to reserve up to; None: no poll wants tokens, or a reservation is in flight."""
        if not self._per_minute or not self._wanted:
            return None
        reserved_us = self._group.reserved_tat_us
        if reserved_us < self._asked_us and now_ms - self._asked_ms < _LOST_MS:
            return None
        room_us = self._room_us(now_ms)
        token_us = self._cost_us(1)
        if room_us < token_us and token_us > _AHEAD_US:
            # The token is not there yet, and reserving it early would delay it under the next leader.
            return None
        ahead_us = max(token_us, min(self._cost_us(self._wanted), room_us))
        if token_us <= _AHEAD_US:
            ahead_us = max(ahead_us, _AHEAD_US)
        else:
            ahead_us += _MARGIN_US
        tat_us = min(max(self._tat_us, now_ms * 1000) + ahead_us, self._latest_us(now_ms))
        self._wanted = 0
        if tat_us <= reserved_us:
            return None
        self._asked_us = tat_us
        self._asked_ms = now_ms
        return tat_us

    def next_token_ms(self, now_ms: int) -> int:
        """Until the bucket has a token; 0: it has one."""
        if not self._per_minute:
            return 0
        missing_us = self._cost_us(1) - self._room_us(now_ms)
        return max(0, -(-missing_us // 1000))
