"""Time as a broker lives by it: the time of day, a clock that only runs forwards, and what is to be done later.

`LoopClock` is the machine's. `TurnedClock` runs with it and can be turned forwards by hand: a delay of a week is over
when somebody says so, and everything that was to be done until then is done at once, in its order.
"""

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol


class Clock(Protocol):
    """Called on the loop."""

    def now_ms(self) -> int:
        """The time of day."""

    def steady_ms(self) -> int:
        """Never goes back, and nobody sets it."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """What takes it back is returned."""


class LoopClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        handle = loop.call_later(delay_ms / 1000, action) if delay_ms else loop.call_soon(action)
        return handle.cancel


class TurnedClock:
    """Ahead of the machine's clock by what it was turned."""

    def __init__(self) -> None:
        self._clock = LoopClock()
        self._ahead_ms = 0
        self._numbers = count()
        #: When it is due, its number, and what to do. What was taken back stays until then, without an action.
        self._due: list[tuple[int, int, list[Callable[[], None]]]] = []
        self._stop_timer: Callable[[], None] | None = None

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms

    def steady_ms(self) -> int:
        return self._clock.steady_ms() + self._ahead_ms

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        if not delay_ms:
            return self._clock.later(0, action)
        actions = [action]
        heappush(self._due, (self.steady_ms() + delay_ms, next(self._numbers), actions))
        self._arm()
        return actions.clear

    def turn(self, ms: int) -> None:
        """Goes forwards. What has become due is done before this returns."""
        assert ms >= 0, "time does not go back"
        self._ahead_ms += ms
        self._run_due()

    def _run_due(self) -> None:
        while self._due and self._due[0][0] <= self.steady_ms():
            for action in heappop(self._due)[2]:
                action()
        self._arm()

    def _arm(self) -> None:
        if self._stop_timer is not None:
            self._stop_timer()
            self._stop_timer = None
        if self._due:
            # The loop's clock is finer than milliseconds, and must not come before ours.
            self._stop_timer = self._clock.later(max(self._due[0][0] - self.steady_ms(), 0) + 1, self._run_due)
