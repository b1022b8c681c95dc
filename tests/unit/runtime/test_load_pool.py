"""Reads on a few threads: a group whose disk hangs holds up itself alone."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from flotilla import machine
from flotilla.replica.ports import Load
from flotilla.runtime.load_pool import LoadPool
from flotilla.types.errors import FlotillaError, StorageFailedError


class FakeLoad:
    path = "a file"
    is_background = False

    def __init__(self, group: int, work: Callable[[], None] = lambda: None) -> None:
        self.group = group
        self.run = work


class Outcomes:
    """What the pool has reported, for a test that waits for it."""

    def __init__(self) -> None:
        self.found: list[tuple[Load, FlotillaError | None]] = []
        self._more = asyncio.Event()

    def note(self, load: Load, error: FlotillaError | None) -> None:
        self.found.append((load, error))
        self._more.set()

    async def wait(self, count: int) -> None:
        while len(self.found) < count:
            self._more.clear()
            await self._more.wait()


def run(test: Callable[[Outcomes, LoadPool], Coroutine[Any, Any, None]], threads_max: int = 2) -> None:
    async def bounded() -> None:
        outcomes = Outcomes()
        pool = LoadPool(outcomes.note, threads_max)
        pool.start()
        async with asyncio.timeout(10):
            await test(outcomes, pool)
        pool.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


def test_a_group_that_hangs_leaves_the_other_threads_to_the_other_groups() -> None:
    async def scenario(outcomes: Outcomes, pool: LoadPool) -> None:
        answer = threading.Event()
        hanging = [FakeLoad(1, lambda: answer.wait() and None) for _ in range(5)]
        others = [FakeLoad(group) for group in range(2, 50)]
        for load in (*hanging, *others):
            pool.submit(load)
        await outcomes.wait(len(others))
        assert [load for load, _ in outcomes.found] == others
        answer.set()
        await outcomes.wait(len(others) + len(hanging))
        assert [load for load, _ in outcomes.found[len(others) :]] == hanging, "one after the other"

    run(scenario)


def test_errors_are_outcomes_and_a_bug_ends_one_load() -> None:
    async def scenario(outcomes: Outcomes, pool: LoadPool) -> None:
        def fail() -> None:
            raise StorageFailedError("too many open files")

        def break_down() -> None:
            raise KeyError("a bug")

        for load in (FakeLoad(1, fail), FakeLoad(1, break_down), FakeLoad(1)):
            pool.submit(load)
        await outcomes.wait(3)
        assert [str(error) for _, error in outcomes.found] == [
            "too many open files",
            "reading a file failed: KeyError('a bug')",
            "None",
        ]

    run(scenario)


class OneThread(machine.Machine):
    """A machine whose threads are the caller's."""

    def lane(self, name: str) -> machine.Lane:
        return CallersLane()


class CallersLane(machine.Lane):
    def put(self, action: Callable[[], None]) -> None:
        action()

    def close(self, wait_s: float | None = None) -> None:
        pass


def test_a_load_that_failed_is_reported_and_the_next_one_runs() -> None:
    async def scenario(outcomes: Outcomes, pool: LoadPool) -> None:
        def fail() -> None:
            raise StorageFailedError("bad sector")

        before = machine.enter(OneThread())
        pool.submit(FakeLoad(1, fail))
        pool.submit(FakeLoad(1))
        for _ in range(3):
            await asyncio.sleep(0)
        machine.enter(before)
        assert [str(error) for _, error in outcomes.found] == ["bad sector", "None"]

    run(scenario)


def test_the_end_does_not_wait_for_a_disk_that_hangs() -> None:
    answer = threading.Event()

    async def scenario(outcomes: Outcomes, pool: LoadPool) -> None:
        pool.submit(FakeLoad(1, lambda: answer.wait() and None))
        pool.stop()
        answer.set()
        await asyncio.sleep(0)
        assert outcomes.found == []

    run(scenario)
