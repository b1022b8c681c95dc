"""Ticks keep to the clock, and a long pause does not come back as a storm of them."""

import asyncio
import time

import uvloop

from flotilla.runtime.ticker import CATCH_UP_TICKS_MAX, Ticker

#: What the loop's clock may be off by.
CLOCK_S = 0.002


def test_ticks_follow_the_clock_and_catch_up_only_a_little() -> None:
    async def scenario() -> None:
        ticks: list[int] = []
        news = asyncio.Event()

        def tick(count: int) -> None:
            ticks.append(count)
            news.set()

        loop = asyncio.get_running_loop()
        ticker = Ticker(tick, interval_ms=5)
        # The loop's own time, which stands still between its rounds: nothing can come in between.
        started_s = loop.time()
        ticker.start()
        while len(ticks) < 10:
            news.clear()
            await news.wait()
        assert loop.time() - started_s >= 0.05 - CLOCK_S
        assert max(ticks) <= CATCH_UP_TICKS_MAX

        ticks.clear()
        # The process stands still for twenty ticks.
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass
        while not ticks:
            news.clear()
            await news.wait()
        assert ticks[0] == CATCH_UP_TICKS_MAX

        ticker.stop()
        ticks.clear()
        others: list[int] = []
        gone_on = asyncio.Event()

        def tick_on(count: int) -> None:
            others.append(count)
            if len(others) == 3:
                gone_on.set()

        other = Ticker(tick_on, interval_ms=5)
        other.start()
        await gone_on.wait()
        other.stop()
        assert ticks == [], "another one that was begun later has ticked three times by now"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
