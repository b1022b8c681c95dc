"""Looks at the room on a disk, on a thread of its own: a disk that hangs does not answer even that."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from flotilla.machine import Lane, here

#: The end of a node does not wait for a disk that hangs.
_CLOSE_S: Final = 0.1

Seen = TypeVar("Seen")


class DiskLooks(Generic[Seen]):
    def __init__(self, look: Callable[[], Seen] | None, saw: Callable[[Seen], None]) -> None:
        """`look` runs on the thread and does not raise; `saw` gets its result on the loop. None: nothing looks."""
        self._look = look
        self._saw = saw
        self._lane: Lane | None = None
        self._is_pending = False

    def first(self) -> None:
        """At once, on the calling thread: nothing is served yet."""
        if self._look is not None:
            self._saw(self._look())

    def again(self) -> None:
        """Has no effect while the last look has not returned."""
        look = self._look
        if look is None or self._is_pending:
            return
        self._is_pending = True
        self._lane = self._lane or here().lane("disk")
        loop = asyncio.get_running_loop()

        def run() -> None:
            seen = look()
            with suppress(RuntimeError):
                # The loop may be closed meanwhile.
                loop.call_soon_threadsafe(self._returned, seen)

        self._lane.put(run)

    def _returned(self, seen: Seen) -> None:
        self._is_pending = False
        self._saw(seen)

    def close(self) -> None:
        if self._lane is not None:
            self._lane.close(_CLOSE_S)
