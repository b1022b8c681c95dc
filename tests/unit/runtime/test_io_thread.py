"""Work on a thread, outcomes on the loop: order, errors, and the end."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from flotilla.runtime.io_thread import IoThread
from flotilla.types.errors import DiskFullError, FlotillaError, StorageFailedError


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


def never(failure: Exception) -> None:
    raise AssertionError("the thread broke") from failure


def test_items_run_one_at_a_time_on_the_thread_and_come_back_in_order_on_the_loop() -> None:
    async def scenario() -> None:
        loop_thread = threading.get_ident()
        ran: list[int] = []
        done: list[int] = []

        def work(item: int) -> None:
            assert threading.get_ident() != loop_thread
            ran.append(item)

        def report(item: int, error: FlotillaError | None) -> None:
            assert threading.get_ident() == loop_thread
            assert error is None
            done.append(item)

        thread = IoThread("test", run=work, done=report, broken=never)
        thread.start()
        for item in range(500):
            thread.submit(item)
        await thread.stop()
        assert ran == done == list(range(500))
        assert thread.durations.count == 500

    run(scenario)


@pytest.mark.parametrize("error", [DiskFullError("no room"), StorageFailedError("a sync failed")])
def test_a_typed_error_is_an_outcome_and_the_same_item_may_be_tried_again(error: FlotillaError) -> None:
    async def scenario() -> None:
        outcomes: list[FlotillaError | None] = []
        trials = 0

        def work(item: str) -> None:
            nonlocal trials
            trials += 1
            if trials == 1:
                raise error

        def report(item: str, outcome: FlotillaError | None) -> None:
            outcomes.append(outcome)
            if outcome is not None:
                thread.submit(item)

        thread = IoThread("test", run=work, done=report, broken=never)
        thread.start()
        thread.submit("block")
        await thread.stop()
        assert outcomes == [error, None]
        assert thread.failed_count == 1

    run(scenario)


def test_any_other_exception_breaks_the_thread_for_good() -> None:
    async def scenario() -> None:
        done: list[int] = []
        broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

        def work(item: int) -> None:
            assert item != 1, "a wrong program"

        thread = IoThread("test", run=work, done=lambda item, error: done.append(item), broken=broken.set_result)
        thread.start()
        for item in range(3):
            thread.submit(item)
        assert isinstance(await broken, AssertionError)
        assert done == [0]
        await thread.stop()
        assert done == [0]

    run(scenario)


def test_many_outcomes_share_a_wake_up() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        calls = 0
        call_soon_threadsafe = loop.call_soon_threadsafe

        class Counting:
            """The loop as the thread sees it."""

            def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> object:
                nonlocal calls
                calls += 1
                return call_soon_threadsafe(callback, *args)

        thread = IoThread[int]("test", run=lambda item: None, done=lambda item, error: None, broken=never)
        thread.start()
        thread._loop = Counting()  # type: ignore[assignment]
        for item in range(1000):
            thread.submit(item)
        # The loop is not given a chance to collect before the thread has finished everything.
        assert thread._lane is not None
        thread._lane.close()
        assert calls == 1
        await thread.stop()

    run(scenario)


def test_tidying_runs_once_on_the_thread_when_nothing_is_pending() -> None:
    async def scenario() -> None:
        loop_thread = threading.get_ident()
        done: list[str] = []
        may_tidy = threading.Event()

        def tidy() -> None:
            assert threading.get_ident() != loop_thread
            assert may_tidy.wait(10)
            done.append("tidy")

        thread = IoThread[str]("test", run=done.append, done=lambda item, error: None, broken=never, tidy=tidy)
        thread.start()
        thread.tidy_up()
        assert not thread.is_tidying, "nothing was done yet"
        thread.submit("first")
        thread.tidy_up()
        assert not thread.is_tidying, "an item is pending"
        while thread._pending_count:
            await asyncio.sleep(0.001)
        thread.tidy_up()
        assert thread.is_tidying
        thread.submit("second")
        may_tidy.set()
        while thread._pending_count:
            await asyncio.sleep(0.001)
        assert not thread.is_tidying
        assert thread.do("on the loop") is None
        await thread.stop()
        assert done == ["first", "tidy", "second", "on the loop", "tidy"]
        assert thread.durations.count == 3

    run(scenario)


def test_an_exception_while_tidying_up_breaks_the_thread() -> None:
    async def scenario() -> None:
        broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

        def tidy() -> None:
            raise AssertionError("a wrong program")

        thread = IoThread[int](
            "test", run=lambda item: None, done=lambda item, error: None, broken=broken.set_result, tidy=tidy
        )
        thread.start()
        thread.do(1)
        thread.tidy_up()
        assert isinstance(await broken, AssertionError)
        await thread.stop()

    run(scenario)


def test_stopping_an_idle_or_never_started_thread() -> None:
    async def scenario() -> None:
        thread = IoThread[int]("test", run=lambda item: None, done=lambda item, error: None, broken=never)
        await thread.stop()
        started = IoThread[int]("test", run=lambda item: None, done=lambda item, error: None, broken=never)
        started.start()
        await started.stop()

    run(scenario)
