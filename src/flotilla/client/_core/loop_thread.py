"""A thread with an event loop, on which the blocking client runs.

Nearly all state lives there, so that batches, fetches and timers go on while the application works. A round trip costs
two thread switches; the producer's fast path avoids them.

A signal handler may raise in the caller's thread after any call, at the start of any function and at the end of any
round of a loop; CPython runs handlers nowhere else. So the caller's thread changes shared state in this way: it
prepares a value, tells the loop that there will be something, and then links the value with one call, or with plain
stores only. What it cannot do like that it leaves in a form that may be done twice, for the next caller to finish.

A child process has no copy of the thread, and must not use its copy of the connections: after a fork every use is
refused, so that a child never sends under the identity of its parent.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from flotilla.types.errors import ConnectionClosedError

Result = TypeVar("Result")

#: A signal that arrives just before a wait begins is handled only when the wait ends.
WAIT_MS_MAX = 500


class _Forks:
    """Counts the forks between the import of this module and this process."""

    count = 0

    @classmethod
    def note(cls) -> None:
        cls.count += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.note)


def new_loop() -> asyncio.AbstractEventLoop:
    """The quickest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Gate:
    """Opened once, by any thread. Waiting for it can be interrupted."""

    __slots__ = ("_lock", "open")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        #: Wakes the waiting thread.
        self.open: Callable[[], None] = self._lock.release

    def wait(self, timeout_ms: int | None = None) -> bool:
        """False: the timeout passed."""
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while True:
            seconds = WAIT_MS_MAX / 1000
            if end is not None:
                seconds = min(seconds, max(end - time.monotonic(), 0))
            if self._lock.acquire(timeout=seconds):
                return True
            if end is not None and time.monotonic() >= end:
                return False


class News:
    """Something has happened: said by any thread, heard by one. Waiting for it can be interrupted anywhere.

    Unlike an Event it has no lock that an interrupt could leave held: the lock is the news.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):
            # Free already: the earlier news were not heard yet.
            self._lock.release()

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def wait(self, timeout_ms: int) -> None:
        """Until there are news, which are heard by that, or for this long."""
        self._lock.acquire(timeout=timeout_ms / 1000)


class _Running(Generic[Result]):
    """A coroutine that a thread waits for. Only the loop touches it once it was posted."""

    __slots__ = ("_loop", "_work", "gate", "is_unwanted", "task")

    task: asyncio.Task[Result]

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> None:
        self._loop = loop
        self._work: Coroutine[Any, Any, Result] | None = work
        self.gate = Gate()
        #: The caller was interrupted.
        self.is_unwanted = False

    def start(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        if self.is_unwanted:
            work.close()
            return
        self.task = self._loop.create_task(work)
        self.task.add_done_callback(lambda _: self.gate.open())

    def give_up(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.close()
        elif hasattr(self, "task"):
            self.task.cancel()


class LoopThread:
    def __init__(self) -> None:
        self._loop = new_loop()
        self._born = _Forks.count
        self._is_stopped = False
        # A daemon thread, so that a program which does not close its client can exit.
        self._thread = threading.Thread(target=self._run, name="flotilla-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def check(self) -> None:
        """Raises ConnectionClosedError when the client is closed, or belongs to the parent process."""
        if self._is_stopped:
            raise ConnectionClosedError("the client is closed")
        if self._born != _Forks.count:
            raise ConnectionClosedError("the client was opened by the parent process; open one in each process")

    @property
    def is_usable(self) -> bool:
        return not self._is_stopped and self._born == _Forks.count

    @property
    def is_current(self) -> bool:
        """The caller is a callback of the client, which cannot wait for the client."""
        return threading.current_thread() is self._thread

    @property
    def is_foreign(self) -> bool:
        """It belongs to the parent process."""
        return self._born != _Forks.count

    def post(self, action: Callable[..., object], *arguments: object) -> None:
        """Schedules a call on the loop."""
        try:
            self._loop.call_soon_threadsafe(action, *arguments)
        except RuntimeError:
            raise ConnectionClosedError("the client is closed") from None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine on the loop and waits for it. An interrupt of the caller cancels it."""
        if self.is_current:
            work.close()
            raise RuntimeError("a callback of the client cannot wait for the client")
        running = _Running(self._loop, work)
        try:
            self.check()
            self.post(running.start)
            self.wait(running.gate)
            return running.task.result()
        except BaseException:
            # On the loop: nobody but the loop can know whether it has begun.
            running.is_unwanted = True
            try:
                self.post(running.give_up)
            except ConnectionClosedError:
                work.close()
            raise

    def wait(self, gate: Gate) -> None:
        """Waits until the loop opens the gate. Raises ConnectionClosedError when the loop has ended."""
        if self.is_current:
            raise RuntimeError("a callback of the client cannot wait for the client")
        while not gate.wait(WAIT_MS_MAX):
            if not self._thread.is_alive():
                raise ConnectionClosedError("the client was closed before an answer came")

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `last` on the loop and ends the thread. Does nothing if it has ended, or belongs to another process."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self.is_foreign:
            return

        def finish() -> None:
            # The loop stops by itself, also when the join below is interrupted.
            self._loop.create_task(last()).add_done_callback(lambda task: self._loop.stop())

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(finish)
        if not self.is_current:
            self._thread.join()
