"""The ticks of a node: one each interval of monotonic time.

After a pause of the process only a few of the missed ticks follow: a replica must first receive the
messages that wait in its sockets, before it may conclude that its leader is gone.
"""

import asyncio
from collections.abc import Callable

from flotilla.types.timing import TICK_MS

CATCH_UP_TICKS_MAX = 3


class Ticker:
    def __init__(self, tick: Callable[[int], None], interval_ms: int = TICK_MS) -> None:
        """`tick` is called with the number of ticks that have passed, at least one."""
        self._tick = tick
        self._interval_s = interval_ms / 1000
        self._next_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_s = loop.time() + self._interval_s
        self._timer = loop.call_at(self._next_s, self._fire)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        loop = asyncio.get_running_loop()
        late_s = max(0.0, loop.time() - self._next_s)
        passed = 1 + int(late_s / self._interval_s)
        self._next_s += passed * self._interval_s
        self._timer = loop.call_at(self._next_s, self._fire)
        self._tick(min(passed, CATCH_UP_TICKS_MAX))
