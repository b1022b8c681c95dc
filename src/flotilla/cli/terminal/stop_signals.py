"""Signals of a process that stops in order.

    SIGTERM, SIGINT   the first asks for the stop, the second ends the process at once
    SIGHUP            has certificates and settings read again; a closed terminal or a log rotation never ends a broker

The handlers are installed before the process listens and stay until it is gone, so the exit code always says what
happened. A signal that comes while the process starts is kept until `notify` or `notify_hangup` is called; one that
comes after `done` is ignored.

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
        #: The signal that asked for the stop; empty: none has.
        self.asked_by = ""
        self._is_done = False
        self._notify: Callable[[], object] | None = None
        self._reload: Callable[[], object] | None = None
        self._is_reload_due = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        self._before = {number: signal.signal(number, self._stop) for number in STOPPING}
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_done:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def notify(self, loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
        """Calls `action` in the loop at the first signal, which may have come before."""
        self._notify = lambda: loop.call_soon_threadsafe(action)
        if self.asked_by:
            self._notify()

    def notify_hangup(self, loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
        """Calls `action` in the loop at every SIGHUP, and now if one has come before."""
        self._reload = lambda: loop.call_soon_threadsafe(action)
        if self._is_reload_due:
            self._reload()

    def done(self) -> None:
        """Everything is stopped and written: from now on signals change nothing."""
        self._is_done = True
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        self._is_reload_due = True
        if self._reload is not None:
            self._reload()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Runs between any two steps of the main thread."""
        if self.asked_by:
            try:
                log.warning("ended by a second signal", signal=signal.Signals(number).name)
            finally:
                # Even if the log line fails because another one was half written.
                self._end(FAILED.code)
            return
        self.asked_by = signal.Signals(number).name
        if self._notify is not None:
            self._notify()
