"""Files that change while a process runs, read beside its event loop: certificates, keys, issuers of tokens.

A disk that does not return such a file holds up nothing but the change: one thread for each source looks and reads, and
what it has read is taken into use on the loop.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from flotilla.machine import Lane, here

#: Between two looks.
LOOK_MS: Final = 10_000
#: The end of a process does not wait for a disk that hangs.
_CLOSE_S: Final = 0.1

#: Looks and reads on any thread, also unchanged files if it is forced. What it returns takes the new content into use,
#: on the loop; None: there is none.
Read: TypeAlias = Callable[[bool], Callable[[], None] | None]


class FreshFile:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._lane: Lane | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_reading = False
        #: A forced look was asked for while another one was reading.
        self._is_again = False

    def start(self) -> None:
        """Looks every `LOOK_MS`."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_MS / 1_000, self._due)

    def _due(self) -> None:
        self.start()
        self.look()

    def look(self, *, is_forced: bool = False) -> None:
        """Has no effect while the last look has not returned, unless it is forced: then another one follows."""
        if self._is_reading:
            self._is_again = self._is_again or is_forced
            return
        self._is_reading = True
        self._lane = self._lane or here().lane("fresh-file")
        loop = asyncio.get_running_loop()

        def run() -> None:
            take: Callable[[], None] | None = None
            failure: Exception | None = None
            try:
                take = self._read(is_forced)
            except Exception as error:
                failure = error
            with suppress(RuntimeError):
                # The loop may be closed meanwhile.
                loop.call_soon_threadsafe(self._returned, take, failure)

        self._lane.put(run)

    def _returned(self, take: Callable[[], None] | None, failure: Exception | None) -> None:
        self._is_reading = False
        if self._is_again:
            self._is_again = False
            self.look(is_forced=True)
        if failure is not None:
            raise failure
        if take is not None:
            take()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._lane is not None:
            self._lane.close(_CLOSE_S)
