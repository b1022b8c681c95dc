"""The simulated event loop keeps the promises of asyncio's."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from flotilla.machine import here, now_ms, steady_ms
from flotilla.sim.devices.world import SECOND, World
from flotilla.sim.whole.cluster import Cluster


class Two:
    """Two hosts and a process on each."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, 3)
        self.failures: list[BaseException] = []
        self.cluster.on_client_failed = lambda process, failure: self.failures.append(failure)
        self.hosts = [self.cluster.client_host("left"), self.cluster.client_host("right")]

    def run(self, *mains: Callable[[], Coroutine[Any, Any, None]], seconds: int = 10) -> None:
        processes = [self.cluster.run(host, main) for host, main in zip(self.hosts, mains, strict=False)]
        self.world.run_until(self.world.now_us + seconds * SECOND)
        for process in processes:
            process.die(is_heard=False)
        if self.failures:
            raise self.failures[0]


def test_callbacks_run_in_order_and_timers_at_their_time() -> None:
    seen: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        loop.call_later(0.2, seen.append, "late")
        loop.call_later(0.1, seen.append, "early")
        cancelled = loop.call_later(0.1, seen.append, "never")
        for number in range(5):
            loop.call_soon(seen.append, number)
        cancelled.cancel()
        await asyncio.sleep(0.3)
        assert 0.3 <= loop.time() - began < 0.301
        seen.append("end")

    Two().run(main)
    assert seen == [0, 1, 2, 3, 4, "early", "late", "end"]


def test_timeouts_and_cancellation_work() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.Event().wait()
        task = asyncio.create_task(asyncio.sleep(100))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.gather(asyncio.sleep(1, 1), asyncio.sleep(0.5, 2)) == [1, 2]
        assert await asyncio.to_thread(lambda: 7) == 7

    Two().run(main)


def test_each_process_has_a_machine_of_its_own() -> None:
    seen: dict[str, tuple[int, int]] = {}

    def look(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def main() -> None:
            await asyncio.sleep(1)
            assert here().host_name() == name
            seen[name] = (now_ms(), steady_ms())

        return main

    two = Two()
    two.hosts[1].clock.jump(5 * SECOND)
    before = here()
    two.run(look("left"), look("right"))
    assert here() is before
    assert 4_990 < seen["right"][0] - seen["left"][0] < 5_010
    assert abs(seen["right"][1] - seen["left"][1]) < 10


def test_a_paused_process_goes_on_and_a_dead_one_does_not() -> None:
    two = Two()
    ticks: list[float] = []

    async def main() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())

    process = two.cluster.run(two.hosts[0], main)
    two.world.run_until(3 * SECOND + SECOND // 2)
    process.pause()
    two.world.run_until(60 * SECOND)
    assert len(ticks) == 3
    process.resume()
    two.world.run_until(61 * SECOND)
    assert len(ticks) == 4
    process.die(is_heard=True)
    two.world.run_until(90 * SECOND)
    assert len(ticks) == 4


def test_the_order_between_processes_is_drawn_and_repeats() -> None:
    def order(seed: int) -> list[str]:
        seen: list[str] = []

        def steps(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
            async def main() -> None:
                for _ in range(30):
                    seen.append(name)
                    await asyncio.sleep(0)

            return main

        Two(seed).run(steps("left"), steps("right"))
        return seen

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) > 5


def test_time_does_not_go_back_when_a_slow_thread_reports() -> None:
    two = Two()
    two.hosts[0].disk_slowness = 5_000
    seen: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        here().lane("disk").put(lambda: loop.call_soon_threadsafe(lambda: seen.append(steady_ms())))
        for _ in range(200):
            seen.append(steady_ms())
            await asyncio.sleep(0.01)

    two.run(main)
    assert seen == sorted(seen)
