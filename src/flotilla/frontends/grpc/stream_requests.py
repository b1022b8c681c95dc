"""The messages that a client sends on a stream, read while the stream has a place (`reading_places`).

A stream that is not read has a window of 64 KiB.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from flotilla.codec.grpc import calls as api
from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.errors import Context
from flotilla.frontends.grpc.pace import LARGE_BYTES_MIN
from flotilla.frontends.grpc.reading_places import ReadingPlaces
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import TRANSFER_MS_MAX


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
        #: The task that waits for the next message.
        self._reading: asyncio.Task[Any] | None = None
        self._ended_by: OverloadedError | None = None
        #: Of the last message.
        self._size_bytes = 0
        self._is_large = True

    @property
    def peer(self) -> str:
        """The connection of the stream."""
        return self._context.peer()

    def end(self, error: OverloadedError) -> None:
        """Whoever waits for the next message gets the error."""
        if self._reading is not None:
            self._ended_by = error
            self._reading.cancel()

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
        if self._has_place and self._places.is_wanted(self.peer):
            self._leave()
        await self._enter()
        data = await self._next()
        if data is None:
            raise StopAsyncIteration
        self._places.heard(self)
        self._size_bytes = len(data)
        self._is_large = len(data) > LARGE_BYTES_MIN
        return data if self._decode is None else api.decode(self._decode, data)

    async def _next(self) -> bytes | None:
        """Raises OverloadedError: the stream has lost its place to others."""
        reading = self._reading = asyncio.current_task()
        try:
            return await self._admission.receive_next(self._read, self.peer, is_large=self._is_large)
        except asyncio.CancelledError:
            # Somebody else may have cancelled the task as well.
            if reading is None or self._ended_by is None or reading.uncancel():
                raise
            raise self._ended_by from None
        finally:
            self._reading = None

    async def _read(self) -> bytes | None:
        data = await self._context.read()
        return data if isinstance(data, bytes) else None

    async def _enter(self) -> None:
        if not self._has_place:
            await self._places.wait(self)
            self._has_place = True

    def _leave(self) -> None:
        self._has_place = False
        self._places.give(self)
