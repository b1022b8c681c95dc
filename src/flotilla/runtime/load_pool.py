"""The threads that read logs from disk for the loop: a few, and at most one for each group.

A read may take any time, also for ever, on a disk that does not answer. So a group whose file hangs holds up one thread
and its own further loads; those of other groups go on while a thread is left. Threads start when they are needed. An
exception that is not a typed error is a bug, and ends the one load: nothing that is stored depends on it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

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
        self._threads: list[threading.Thread] = []
        self._inbox: SimpleQueue[Load | None] = SimpleQueue()
        #: By group: its load in a thread or in the inbox, then those that wait for it. Background loads have a lane of
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
        self._inbox.put(load)
        if len(self._threads) < min(len(self._lanes), self._threads_max):
            thread = threading.Thread(target=self._work, name=f"load-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Nothing more is reported."""
        loop, self._loop = self._loop, None
        for _ in self._threads:
            self._inbox.put(None)
        for thread in self._threads if loop is not None else ():
            thread.join(_JOIN_S)

    def _work(self) -> None:
        while (load := self._inbox.get()) is not None:
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
                loop.call_soon_threadsafe(self._deliver, load, error)
            except RuntimeError:
                # The loop was closed meanwhile.
                return

    def _deliver(self, load: Load, error: FlotillaError | None) -> None:
        if self._loop is None:
            return
        lane = self._lanes[_lane_of(load)]
        lane.popleft()
        if lane:
            self._inbox.put(lane[0])
        else:
            del self._lanes[_lane_of(load)]
        self._done(load, error)


def _lane_of(load: Load) -> GroupId:
    return _BACKGROUND if load.is_background else load.group
