"""A thread for the loop's blocking work: items go in by a queue, outcomes come back on the loop.

Items run one at a time and in order, and are reported in that order. A FlotillaError is an outcome like
any other: the submitter handles it. Any other exception is a bug; it goes to `broken`, and the thread
ends. Work that nothing waits for, such as a mark that a block is durable, runs as `tidy` when the thread
is idle.

A node has two: one for the journal, whose write-and-sync every request waits for, and one for long
background jobs.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from flotilla.machine import Lane, here
from flotilla.runtime.observability.histogram import DurationHistogram
from flotilla.types.errors import FlotillaError

T = TypeVar("T")


class IoThread(Generic[T]):
    def __init__(
        self,
        name: str,
        *,
        run: Callable[[T], None],
        done: Callable[[T, FlotillaError | None], None],
        broken: Callable[[Exception], None],
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        """`run` and `tidy` are called on the thread, `done` and `broken` on the loop that called start()."""
        self.durations = DurationHistogram()
        self.failed_count = 0
        #: Start and end of the last item.
        self.last_us = (0, 0)
        #: The thread tidies up, or is about to: `do` must wait.
        self.is_tidying = False
        self._run = run
        self._done = done
        self._broken = broken
        self._tidy = tidy
        #: An item has run since the last tidying.
        self._is_untidy = False
        self._name = name
        self._lane: Lane | None = None
        self._elapsed_ns = here().elapsed_ns
        #: A bug has ended it.
        self._is_broken = False
        self._outcomes: deque[tuple[T, FlotillaError | None]] = deque()
        #: `_deliver` is scheduled on the loop and has not begun.
        self._is_woken = False
        self._pending_count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: asyncio.Future[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lane = here().lane(self._name)

    def submit(self, item: T) -> None:
        assert self._lane is not None
        self._pending_count += 1
        self._lane.put(partial(self._work, item))

    def do(self, item: T) -> FlotillaError | None:
        """Runs the item now and returns its outcome. On the loop only while the thread is idle."""
        started_us = self._elapsed_ns() // 1000
        error: FlotillaError | None = None
        try:
            self._run(item)
        except FlotillaError as failure:
            error = failure
            self.failed_count += 1
        ended_us = self._elapsed_ns() // 1000
        self.last_us = (started_us, ended_us)
        self.durations.record(ended_us - started_us)
        self._is_untidy = True
        return error

    def tidy_up(self) -> None:
        """Tidies up after the last items, if the thread is idle and that has not happened yet."""
        if self._is_untidy and not self._pending_count and self._lane is not None:
            self._is_untidy = False
            self.is_tidying = True
            self._lane.put(self._work_tidy)

    async def stop(self) -> None:
        """Finishes and reports all items, also those submitted meanwhile; then ends the thread."""
        loop = asyncio.get_running_loop()
        while self._pending_count and not self._is_broken and self._lane is not None:
            # A report may submit more.
            self._idle = loop.create_future()
            await self._idle
        self.tidy_up()
        if self._lane is not None:
            self._lane.close()

    def _work(self, item: T) -> None:
        assert self._loop is not None
        if self._is_broken:
            return
        try:
            error = self.do(item)
        except Exception as failure:
            self._end(failure)
            return
        self._outcomes.append((item, error))
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _work_tidy(self) -> None:
        if self._is_broken:
            return
        try:
            self._tidy()
        except Exception as failure:
            self._end(failure)
        else:
            self.is_tidying = False

    def _end(self, failure: Exception) -> None:
        assert self._loop is not None
        self._is_broken = True
        self._loop.call_soon_threadsafe(self._break, failure)

    def _deliver(self) -> None:
        # Cleared first: an outcome that arrives from here on schedules another call.
        self._is_woken = False
        while self._outcomes:
            item, error = self._outcomes.popleft()
            self._pending_count -= 1
            self._done(item, error)
        self._settle()

    def _break(self, failure: Exception) -> None:
        self._deliver()
        self._pending_count = 0
        self._settle()
        self._broken(failure)

    def _settle(self) -> None:
        if self._idle is not None and not self._pending_count:
            self._idle.set_result(None)
            self._idle = None
