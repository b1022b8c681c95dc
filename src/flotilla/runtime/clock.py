"""The clocks of a broker: the time of day, a monotonic clock, and timers.

`LoopClock` is the machine's. `TurnedClock` runs with it and can be turned forwards by hand: a test skips a delay of a
week, and all timers that are due by then run at once, in order.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from flotilla.machine import here


class Clock(Protocol):
    """Called on the loop."""

    def now_ms(self) -> int:
        """The time of day."""

    def steady_ms(self) -> int:
        """Monotonic time: it is never set."""

    def uptime_ms(self) -> int:
        """Monotonic time, with the time in which the machine was suspended where the system counts it."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Schedules `action`; returns a function that cancels it."""


class LoopClock:
    def __init__(self) -> None:
        self._machine = here()
        self._uptime_ns = self._machine.uptime_ns

    def now_ms(self) -> int:
        return self._machine.now_ms()

    def steady_ms(self) -> int:
        return self._machine.steady_ms()

    def uptime_ms(self) -> int:
        return self._uptime_ns() // 1_000_000

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        handle = loop.call_later(delay_ms / 1000, action) if delay_ms else loop.call_soon(action)
        return handle.cancel


class TurnedClock:
    """Ahead of the machine's clock by the time that it was turned."""

    def __init__(self) -> None:
        self._clock = LoopClock()
        self._ahead_ms = 0
        self._numbers = count()
        #: (due time, number, action) of timers. A cancelled timer stays until it is due, without an action.
        self._due: list[tuple[int, int, list[Callable[[], None]]]] = []
        self._stop_timer: Callable[[], None] | None = None

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms

    def steady_ms(self) -> int:
        return self._clock.steady_ms() + self._ahead_ms

    def uptime_ms(self) -> int:
        return self._clock.uptime_ms() + self._ahead_ms

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        if not delay_ms:
            return self._clock.later(0, action)
        actions = [action]
        heappush(self._due, (self.steady_ms() + delay_ms, next(self._numbers), actions))
        self._arm()
        return actions.clear

    def turn(self, ms: int) -> None:
        """Moves the clock forwards. Timers that become due run before this returns."""
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
            # The loop's clock is finer than milliseconds, and its timer must not fire before ours is due.
            self._stop_timer = self._clock.later(max(self._due[0][0] - self.steady_ms(), 0) + 1, self._run_due)
