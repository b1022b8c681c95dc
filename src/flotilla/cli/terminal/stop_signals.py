"""SIGTERM and SIGINT of a process that stops in order: the first one asks for it, the second one ends it at once.

They are taken from before the process listens until it is gone, so at no time does the system's own way of ending it
come first: its exit code says what happened. A signal that comes while everything still starts is kept until there is
somebody to hear of it. One that comes when all is done is ignored.

Must be used on the main thread, where the interpreter runs handlers.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.runtime.observability.logs import get_logger

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)

log = get_logger("signals")


class StopSignals:
    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        """`end` leaves the process with an exit code, whatever its threads are doing."""
        self._end = end
        #: The signal that has asked for the end; empty: none has.
        self.asked_by = ""
        self._is_done = False
        self._notify: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        self._before = {number: signal.signal(number, self._came) for number in STOPPING}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_done:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def tell(self, loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
        """Has the loop do that at the first signal, which may have come before."""
        self._notify = lambda: loop.call_soon_threadsafe(action)
        if self.asked_by:
            self._notify()

    def done(self) -> None:
        """All is stopped and written: what is left of the process ends by itself, with the exit code that it has."""
        self._is_done = True
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)

    def _came(self, number: int, frame: FrameType | None) -> None:
        """Between any two steps of the main thread."""
        if self.asked_by:
            try:
                log.warning("ended by a second signal", signal=signal.Signals(number).name)
            finally:
                # Also when the first half of another line was just being written.
                self._end(FAILED.code)
            return
        self.asked_by = signal.Signals(number).name
        if self._notify is not None:
            self._notify()
