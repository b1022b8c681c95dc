"""An event loop in simulated time: one for each simulated process, all driven by one World.

It keeps asyncio's promises: callbacks run in the order in which they were scheduled, timers not before their time, and
everything that is ready runs in one iteration. When the next iteration comes is drawn: a process is never
alone on its machine. So two processes interleave in any order, and the same seed gives the same order.

Time is the process's own: it runs faster or slower than the world's by the drift of its host.
"""

import asyncio
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from math import inf
from typing import Any, TypeVar

from flotilla import machine
from flotilla.sim.whole.process import Process

T = TypeVar("T")

#: Of the clock: simulated time passes in microseconds.
_RESOLUTION_S = 1e-6
#: Tasks are counted again when there are twice as many as after the last count.
_TASKS_MIN = 256
#: How often the coroutine of a dead process may wait on its way out.
_WAITS_MAX = 100


class ProcessLoop(asyncio.AbstractEventLoop):
    """What the product and asyncio itself use of an event loop; sockets are in `loop_network`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._world = process.world
        self._clock = process.host.clock
        self._ready: deque[asyncio.Handle] = deque()
        #: (due time of the process, number, handle); cancelled ones stay until they are due.
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        #: An iteration is scheduled for `_due_us`, by the number of its world event.
        self._is_due = False
        #: World time of the earliest wake-up for a timer, and the time of the process that it was set for.
        self._alarm_us: int | None = None
        self._alarm_s = inf
        #: Kept while they are pending: a task of a dead process must not end by garbage collection.
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_max = _TASKS_MIN
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    # Scheduling.

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_due:
            self._schedule()
        return handle

    #: Threads are simulated: their actions run between iterations.
    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heappush(self._timers, (when, self._timer_count, handle))
        if when < self._alarm_s:
            self._set_alarm()
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Asked for by TimerHandle. A cancelled timer costs nothing but its place."""

    def time(self) -> float:
        return self._clock.steady_us(self._world.now_us) / 1_000_000

    def _schedule(self) -> None:
        process = self.process
        if process.is_running:
            self._is_due = True
            self._world.after(process.delay_us(), self.iterate)

    def _set_alarm(self) -> None:
        """Wakes the loop for its next timer."""
        process = self.process
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if timers and timers[0][0] < self._alarm_s and process.is_running:
            self._alarm_s = timers[0][0]
            self._alarm_us = process.world_us(self._alarm_s) + process.turn_us()
            process.world.at(self._alarm_us, self._ring, self._alarm_us)

    def _ring(self, alarm_us: int) -> None:
        if alarm_us != self._alarm_us:
            return
        self._alarm_us, self._alarm_s = None, inf
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers or self._is_due:
            return
        if timers[0][0] > self.time() + _RESOLUTION_S:
            # The timer that it was set for is cancelled.
            self._set_alarm()
        elif self.process.spent_us:
            self._schedule()
        else:
            self.iterate()

    def resume(self) -> None:
        """The process runs again after a pause."""
        self._is_due = False
        self._alarm_us, self._alarm_s = None, inf
        self._schedule()

    def iterate(self) -> None:
        """One iteration: the timers that are due and everything that was ready before."""
        process = self.process
        self._is_due = False
        if not process.is_running:
            return
        ready = self._ready
        timers = self._timers
        if timers:
            # As in asyncio, up to the resolution of the clock too early.
            due_by = self.time() + _RESOLUTION_S
            while timers and timers[0][0] <= due_by:
                timer = heappop(timers)[2]
                if not timer._cancelled:
                    ready.append(timer)
        count = len(ready)
        self._world.mix(process.mark ^ count)
        before = machine.enter(process.machine)
        _set_running_loop(self)
        try:
            for _ in range(count):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                    if process.has_stopped():
                        return
        finally:
            _set_running_loop(None)
            machine.enter(before)
        if ready and not self._is_due:
            self._schedule()
        if timers and timers[0][0] < self._alarm_s:
            self._set_alarm()

    # Tasks and futures.

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_max = max(_TASKS_MIN, 2 * len(self._tasks))
        return task

    async def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> T:  # type: ignore[override]
        """On a simulated thread of its own."""
        done: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                self.call_soon(_settle, done, None, error)
            else:
                self.call_soon(_settle, done, result, None)

        self.process.machine.lane("executor").put(work)
        return await done

    # Exceptions that nobody handles.

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.process.unhandled(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.process.is_alive:
            return
        self.process.unhandled(context)
        if self._handler is not None:
            self._handler(self, context)

    # Facts that asyncio asks for.

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.process.is_alive

    def is_closed(self) -> bool:
        return not self.process.is_alive

    def get_task_factory(self) -> None:
        return None

    def bury(self) -> None:
        """The process is dead. Its tasks stay as they are, and are not reported as forgotten."""
        self._ready.clear()
        self._timers.clear()
        for task in self._tasks:
            # A documented attribute of neither version, but read by all: whether the end of a pending task is reported.
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def dissolve(self) -> None:
        """The run is over. Ends the coroutines of a dead process here, where their last words do not matter.

        Otherwise garbage collection ends them at any later time, and complains about each one that waits in a
        `finally` or an `async with`.
        """
        before = self.process.enter()
        _set_running_loop(self)
        try:
            while self._tasks:
                # On their way out some start others.
                task = self._tasks.pop()
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _end(task.get_coro())
        finally:
            _set_running_loop(None)
            self.process.leave(before)
        self._ready.clear()
        self._timers.clear()


class _RunIsOverError(BaseException):
    """Raised inside of the coroutines of a dead process."""


def _end(coroutine: Any) -> None:
    try:
        for _ in range(_WAITS_MAX):
            # Not `close`: that leaves an inner coroutine behind which waits on its way out.
            coroutine.throw(_RunIsOverError())
    except BaseException:
        pass


def _settle(done: "asyncio.Future[T]", result: Any, error: Exception | None) -> None:
    if not done.done():
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)
