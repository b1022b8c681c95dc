"""The threads that read logs from disk for the loop: a few, and at most one for each group.

A read may take any time, also for ever, on a disk that does not answer. So a group whose file hangs holds up one thread
and its own further loads; those of other groups go on while a thread is left. Threads start when they are needed. An
exception that is not a typed error is a bug, and ends the one load: nothing that is stored depends on it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from flotilla.machine import Lane, here
from flotilla.replica.ports import Load
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.errors import FlotillaError, StorageFailedError
from flotilla.types.ids import GroupId
from flotilla.types.limits import LOAD_THREADS_MAX

log = get_logger("runtime")

#: No group has this id.
_BACKGROUND: GroupId = -1
#: How long the pool's end waits for a read that is in flight. A thread that hangs ends with the process.
_JOIN_S = 0.1


class LoadPool:
    def __init__(self, done: Callable[[Load, FlotillaError | None], None], threads_max: int = LOAD_THREADS_MAX) -> None:
        """`done` is called on the loop that called start()."""
        self._done = done
        self._threads_max = threads_max
        self._threads: list[Lane] = []
        self._idle: list[Lane] = []
        #: Loads that no thread is free for.
        self._waiting: deque[Load] = deque()
        #: By group: its load in a thread or next for one, then those that wait for it. Background loads have a lane of
        #: their own.
        self._lanes: dict[GroupId, deque[Load]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def submit(self, load: Load) -> None:
        lane = self._lanes.get(_lane_of(load))
        if lane is not None:
            lane.append(load)
            return
        self._lanes[_lane_of(load)] = deque((load,))
        if not self._idle and len(self._threads) < self._threads_max:
            thread = here().lane(f"load-{len(self._threads) + 1}")
            self._threads.append(thread)
            self._idle.append(thread)
        self._waiting.append(load)
        self._hand_out()

    def stop(self) -> None:
        """Nothing more is reported."""
        loop, self._loop = self._loop, None
        for thread in self._threads if loop is not None else ():
            thread.close(_JOIN_S)

    def _hand_out(self) -> None:
        while self._idle and self._waiting:
            thread = self._idle.pop()
            thread.put(partial(self._work, thread, self._waiting.popleft()))

    def _work(self, thread: Lane, load: Load) -> None:
        error: FlotillaError | None = None
        try:
            load.run()
        except FlotillaError as failure:
            error = failure
        except Exception as failure:
            log.exception("a load failed", group=load.group, path=load.path)
            error = StorageFailedError(f"reading {load.path} failed: {failure!r}")
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._deliver, thread, load, error)
        except RuntimeError:
            # The loop was closed meanwhile.
            return

    def _deliver(self, thread: Lane, load: Load, error: FlotillaError | None) -> None:
        if self._loop is None:
            return
        self._idle.append(thread)
        lane = self._lanes[_lane_of(load)]
        lane.popleft()
        if lane:
            self._waiting.append(lane[0])
        else:
            del self._lanes[_lane_of(load)]
        self._hand_out()
        self._done(load, error)


def _lane_of(load: Load) -> GroupId:
    return _BACKGROUND if load.is_background else load.group
