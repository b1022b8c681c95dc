"""The time of the event loop that large messages take.

The library copies a message on the loop when it has received it, and decoding it takes about half as long again: 4 MiB
hold the loop for milliseconds, and hundreds of streams send them without end. So large messages are handed on one after
the other, and after each the loop is left to everybody else for several times as long as the copy took. Those that
wait keep their room among the messages of all calls (`Admission`), so no further ones are asked for. A message that
comes alone waits for nothing.
"""

import asyncio
import time
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Final, TypeVar

from flotilla.types.limits import KIB

#: Larger messages are paced. The library receives as much before it is asked for a message.
LARGE_BYTES_MIN: Final = 64 * KIB
#: The rest after a message, by the time of its copy, and at most: a process that was stopped goes on.
_REST_SHARE: Final = 4
_REST_S_MAX: Final = 0.5

_D = TypeVar("_D")


class Pace:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._free_at_s = 0.0

    async def wait(self, took_s: float) -> None:
        """For the turn of a message whose copy took so long, in order of arrival."""
        async with self._turn:
            left_s = self._free_at_s - time.monotonic()
            if left_s > 0:
                await asyncio.sleep(left_s)
            self._free_at_s = time.monotonic() + min(_REST_SHARE * took_s, _REST_S_MAX)


@coroutine
def timed(reading: Coroutine[Any, Any, _D]) -> Generator[Any, Any, tuple[_D, float]]:
    """The result, and the time of the last step in seconds: that of the copy."""
    error: BaseException | None = None
    while True:
        begun_s = time.monotonic()
        try:
            awaited = reading.send(None) if error is None else reading.throw(error)
        except StopIteration as end:
            return end.value, time.monotonic() - begun_s
        error = None
        try:
            yield awaited
        except BaseException as thrown:
            # It is the reader's: a cancellation.
            error = thrown
