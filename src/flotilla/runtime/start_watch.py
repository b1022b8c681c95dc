"""Reports a start that waits for the disk: before the store is open, nothing else could tell why a node is silent.

A start reads all journal files, indexes and snapshots before the node takes part in anything. One that the disk does
not return keeps the node away, as if it were down; the other nodes serve.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from flotilla.runtime.observability.logs import get_logger
from flotilla.types.limits import LOAD_MS_MAX

log = get_logger("runtime")


class StartWatch:
    """While it is entered, every file that takes long is named in the log, once."""

    def __init__(self, opened: Callable[[], str], patience_s: float = LOAD_MS_MAX / 1000) -> None:
        """`opened` returns the file that was opened last."""
        self._opened = opened
        self._patience_s = patience_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="start-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        before = named = ""
        while not self._is_over.wait(self._patience_s):
            path = self._opened()
            if path and path == before and path != named:
                log.warning("the start waits for the disk to return a file", path=path)
                named = path
            before = path
