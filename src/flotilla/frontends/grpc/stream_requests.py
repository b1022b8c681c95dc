"""The messages that a client sends on a stream, and the places of the streams that are read.

The library receives a whole message of a stream as soon as it is asked for one, and the question cannot be taken back.
So each stream that is read can fill one message that nobody has counted: places bound the memory of all of them. A
stream that is not read has a window of 64 KiB.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from flotilla.codec.grpc import calls as api
from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.errors import Context
from flotilla.frontends.grpc.pace import LARGE_BYTES_MIN
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import GRPC_READ_STREAM_COUNT_MAX, TRANSFER_MS_MAX


class ReadingPlaces:
    def __init__(self, count_max: int = GRPC_READ_STREAM_COUNT_MAX) -> None:
        self._count_max = count_max
        self._free = asyncio.Semaphore(count_max)
        self._used_count = 0

    @property
    def is_scarce(self) -> bool:
        """More than half of the places are taken."""
        return 2 * self._used_count > self._count_max

    async def wait(self) -> None:
        """Takes a place, in order of arrival."""
        await self._free.acquire()
        self._used_count += 1

    def give(self) -> None:
        self._used_count -= 1
        self._free.release()

    def too_many(self) -> OverloadedError:
        return OverloadedError(f"too many streams: the limit is {self._count_max} from which requests are read")


class StreamRequests:
    """The messages of one stream. Iterate it, and close it: the bytes of a message are given back with the next one."""

    def __init__(
        self,
        admission: Admission,
        places: ReadingPlaces,
        context: Context,
        decode: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._admission = admission
        self._places = places
        self._context = context
        self._decode = decode
        self._has_place = False
        #: Of the last message.
        self._size_bytes = 0
        self._is_large = True

    async def open(self) -> None:
        """Waits for the first place. Raises OverloadedError."""
        try:
            async with asyncio.timeout(TRANSFER_MS_MAX / 1000):
                await self._enter()
        except TimeoutError:
            raise self._places.too_many() from None

    def rest(self) -> bool:
        """Gives the place back when others may need it, until the next message is asked for."""
        if self._has_place and self._places.is_scarce:
            self._leave()
        return not self._has_place

    def keep(self) -> int:
        """The size of the last message; the caller gives its bytes back."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        return size_bytes

    def close(self) -> None:
        self._admission.give(self.keep())
        if self._has_place:
            self._leave()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self._admission.give(self.keep())
        await self._enter()
        data = await self._admission.receive_next(self._read, self._context.peer(), is_large=self._is_large)
        if data is None:
            raise StopAsyncIteration
        self._size_bytes = len(data)
        self._is_large = len(data) > LARGE_BYTES_MIN
        return data if self._decode is None else api.decode(self._decode, data)

    async def _read(self) -> bytes | None:
        data = await self._context.read()
        return data if isinstance(data, bytes) else None

    async def _enter(self) -> None:
        if not self._has_place:
            await self._places.wait()
            self._has_place = True

    def _leave(self) -> None:
        self._has_place = False
        self._places.give()
