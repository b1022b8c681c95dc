"""Answers with the records of large batches: made on another thread, one at a time for all endpoints of a node.

A batch of a hundred kilobytes may open to sixteen megabytes, which become more as JSON: that would hold the loop for a
tenth of a second. After each answer the thread rests for twice the time that it took, so that it leaves processors, and
the lock of the interpreter, to the loop.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from flotilla.codec.batch.columns import size_when_open
from flotilla.types.limits import OPENING_TURN_BYTES_MAX
from flotilla.types.operations.queue import Delivery

_REST_SHARE: Final = 2
_REST_S_MAX: Final = 1.0

T = TypeVar("T")


def parts_of(
    deliveries: Sequence[Delivery], bytes_max: int, size_of: Callable[[bytes | memoryview], int] = size_when_open
) -> Iterator[list[Delivery]]:
    """The deliveries of a push as several answers of bounded size. A single delivery is never split."""
    part: list[Delivery] = []
    left = bytes_max
    for delivery in deliveries:
        size_bytes = size_of(delivery.batch)
        if part and size_bytes > left:
            yield part
            part, left = [], bytes_max
        part.append(delivery)
        left -= size_bytes
    yield part


class LargeAnswers:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._free_at_s = 0.0

    async def make(self, batches: Sequence[bytes | memoryview], work: Callable[[], T]) -> T:
        """What `work` makes of these batches, which may raise."""
        if sum(map(size_when_open, batches)) <= OPENING_TURN_BYTES_MAX:
            return work()
        time_s = asyncio.get_running_loop().time
        async with self._turn:
            left_s = self._free_at_s - time_s()
            if left_s > 0:
                await asyncio.sleep(left_s)
            begun_s = time_s()
            try:
                return await asyncio.to_thread(work)
            finally:
                now_s = time_s()
                self._free_at_s = now_s + min(_REST_SHARE * (now_s - begun_s), _REST_S_MAX)
