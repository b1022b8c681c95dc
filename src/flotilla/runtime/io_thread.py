"""A thread that does blocking work for the loop: items in by a queue, outcomes back on the loop.

Items are worked off one at a time and in order, and reported in that order. A FlotillaError is an
outcome like any other: whoever submitted the item decides what becomes of it. Any other exception
means that the program is wrong; it is handed to `broken` and the thread takes nothing more on.
What nobody waits for, such as to note that something was done, is left for when there is nothing else to do.

A node has two: one for the journal, whose write-and-sync is the heart beat of everything, and one
for all that may take long. A round trip through a thread of our own took 13 us, through an executor 91.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Generic, TypeVar

from flotilla.runtime.observability.histogram import DurationHistogram
from flotilla.types.errors import FlotillaError

T = TypeVar("T")


class Order(Enum):
    """What the thread is told beside the items."""

    TIDY = 1
    END = 2


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
        #: When the last item was begun and ended.
        self.last_us = (0, 0)
        #: The thread has been told to tidy up and has not ended that yet: `do` has to wait.
        self.is_tidying = False
        self._run = run
        self._done = done
        self._broken = broken
        self._tidy = tidy
        #: Something was done since the last time.
        self._is_untidy = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._inbox: SimpleQueue[T | Order] = SimpleQueue()
        self._outcomes: deque[tuple[T, FlotillaError | None]] = deque()
        #: The loop has been asked to collect outcomes and has not begun to: no need to ask again.
        self._is_woken = False
        self._under_way = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: asyncio.Future[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def submit(self, item: T) -> None:
        self._under_way += 1
        self._inbox.put(item)

    def do(self, item: T) -> FlotillaError | None:
        """Does it now and returns what `done` would be told. On the loop only while the thread has nothing to do."""
        started_us = perf_counter_ns() // 1000
        error: FlotillaError | None = None
        try:
            self._run(item)
        except FlotillaError as failure:
            error = failure
            self.failed_count += 1
        ended_us = perf_counter_ns() // 1000
        self.last_us = (started_us, ended_us)
        self.durations.record(ended_us - started_us)
        self._is_untidy = True
        return error

    def tidy_up(self) -> None:
        """Nothing has come for a while: what was done last is tidied up, unless that was so already."""
        if self._is_untidy and not self._under_way:
            self._is_untidy = False
            self.is_tidying = True
            self._inbox.put(Order.TIDY)

    async def stop(self) -> None:
        """Finishes and reports what was submitted, and what was submitted because of it; then ends the thread."""
        loop = asyncio.get_running_loop()
        while self._under_way and self._thread.is_alive():
            # What is reported may bring more.
            self._idle = loop.create_future()
            await self._idle
        self.tidy_up()
        self._inbox.put(Order.END)
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        assert self._loop is not None
        while (item := self._inbox.get()) is not Order.END:
            try:
                if item is Order.TIDY:
                    self._tidy()
                    self.is_tidying = False
                    continue
                error = self.do(item)
            except Exception as failure:
                self._loop.call_soon_threadsafe(self._break, failure)
                return
            self._outcomes.append((item, error))
            if not self._is_woken:
                self._is_woken = True
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Cleared first: an outcome that comes in from here on asks for another round.
        self._is_woken = False
        while self._outcomes:
            item, error = self._outcomes.popleft()
            self._under_way -= 1
            self._done(item, error)
        self._settle()

    def _break(self, failure: Exception) -> None:
        self._deliver()
        self._under_way = 0
        self._settle()
        self._broken(failure)

    def _settle(self) -> None:
        if self._idle is not None and not self._under_way:
            self._idle.set_result(None)
            self._idle = None
