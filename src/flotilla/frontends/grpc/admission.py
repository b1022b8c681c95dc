"""The bound on the memory of messages that gRPC calls have sent.

The library receives a message as soon as it is asked for one, and tells nobody its size before it has all of it. So a
message is asked for when there is room for the largest one, and what it does not take is given back as soon as it is
there. Calls wait for room, their connections in turn; meanwhile a message must come quickly, or its call is refused.

A stream may be idle for hours, and the library cannot be told to stop receiving. So a stream keeps room for a large
message for a moment only. A stream that is idle can still make the library hold one message that is not counted here:
`ReadingPlaces` bounds how many streams can.

Messages up to 64 KiB have room of their own, once they are received: they do not wait behind large ones.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from flotilla.frontends.grpc.pace import LARGE_BYTES_MIN, Pace, timed
from flotilla.frontends.tcp.budget import ByteBudget
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import (
    GRPC_BYTES_MAX,
    GRPC_MESSAGE_BYTES_MAX,
    TRANSFER_BYTES_PER_SECOND_MIN,
    TRANSFER_MS_MAX,
)

_RETRY_MS: Final = 100
#: How long a message may take, and how long while others wait for its room. A stream is idle after that time.
_RECEIVE_S_MAX: Final = TRANSFER_MS_MAX / 1000 + GRPC_MESSAGE_BYTES_MAX / TRANSFER_BYTES_PER_SECOND_MIN
_HURRIED_S_MAX: Final = 1.0

_D = TypeVar("_D")
Read: TypeAlias = Callable[[], Coroutine[Any, Any, _D]]


class Admission:
    def __init__(self, bytes_max: int = GRPC_BYTES_MAX, message_bytes_max: int = GRPC_MESSAGE_BYTES_MAX) -> None:
        self._large = ByteBudget(bytes_max)
        self._small = ByteBudget(bytes_max)
        self._message_bytes_max = message_bytes_max
        #: Messages that are being received, by the time at which they began.
        self._receiving: dict[asyncio.Timeout, float] = {}
        #: Of each connection one call waits for room of a kind, and the others for that one.
        self._turns: WeakValueDictionary[tuple[str, ByteBudget], asyncio.Lock] = WeakValueDictionary()
        self._pace = Pace()

    @property
    def used_bytes(self) -> int:
        return self._large.used_bytes + self._small.used_bytes

    def _budget(self, size_bytes: int) -> ByteBudget:
        return self._large if size_bytes > LARGE_BYTES_MIN else self._small

    async def receive(self, read: Read[bytes], peer: str) -> bytes:
        """What `read` receives, whose bytes stay taken until they are given back. Raises OverloadedError."""
        taken, kept = self._message_bytes_max, 0
        await self.wait(taken, peer)
        try:
            data, took_s = await self._read(read)
            kept = len(data)
        except TimeoutError as error:
            refusal = OverloadedError("the message came too slowly")
            refusal.retry_after_ms = _RETRY_MS
            raise refusal from error
        finally:
            owed = self._give_rest(taken, kept)
        await self._wait_turn(kept, owed, took_s, peer)
        return data

    async def receive_next(self, read: Read[bytes | None], peer: str, *, is_large: bool) -> bytes | None:
        """The next message of a stream, whose bytes stay taken likewise; None: the client has finished sending.

        `is_large`: room for the largest message is taken before, and given back when the stream is idle.
        """
        if not is_large:
            return await self._counted(timed(read()), peer)
        taken, kept = self._message_bytes_max, 0
        await self.wait(taken, peer)
        reading = asyncio.ensure_future(timed(read()))
        try:
            is_received = bool((await asyncio.wait((reading,), timeout=_HURRIED_S_MAX))[0])
            if is_received:
                data, took_s = reading.result()
                kept = 0 if data is None else len(data)
        except asyncio.CancelledError:
            reading.cancel()
            raise
        finally:
            owed = self._give_rest(taken, kept)
        if not is_received:
            return await self._counted(reading, peer)
        await self._wait_turn(kept, owed, took_s, peer)
        return data

    async def _counted(self, reading: Awaitable[tuple[bytes | None, float]], peer: str) -> bytes | None:
        data, took_s = await reading
        if data is not None:
            await self._wait_turn(len(data), len(data), took_s, peer)
        return data

    def _give_rest(self, taken: int, kept: int) -> int:
        """Gives back what a message does not take of the room for the largest one. Returns what is to be taken anew."""
        if self._budget(taken) is self._budget(kept):
            self._budget(taken).give(taken - kept)
            return 0
        self.give(taken)
        return kept

    async def _wait_turn(self, size_bytes: int, owed: int, took_s: float, peer: str) -> None:
        """Takes the bytes of a message that are not taken; a large one is handed on when others have had the loop."""
        if owed:
            await self.wait(owed, peer)
        if size_bytes > LARGE_BYTES_MIN:
            try:
                await self._pace.wait(took_s)
            except asyncio.CancelledError:
                self.give(size_bytes)
                raise

    async def _read(self, read: Read[bytes]) -> tuple[bytes, float]:
        async with asyncio.timeout(_HURRIED_S_MAX if self._large.waiting_count else _RECEIVE_S_MAX) as limit:
            self._receiving[limit] = asyncio.get_running_loop().time()
            try:
                return await timed(read())
            finally:
                del self._receiving[limit]

    async def wait(self, size_bytes: int, peer: str) -> None:
        """Takes the bytes as soon as there is room; `peer` is the connection that they come from."""
        budget = self._budget(size_bytes)
        if budget.take(size_bytes):
            return
        self._hurry()
        turn = self._turns.setdefault((peer, budget), asyncio.Lock())
        async with turn:
            await _granted(budget, size_bytes)

    def give(self, size_bytes: int) -> None:
        self._budget(size_bytes).give(size_bytes)

    def _hurry(self) -> None:
        for limit, begun in self._receiving.items():
            if not limit.expired():
                limit.reschedule(min(limit.when() or begun, begun + _HURRIED_S_MAX))


async def _granted(budget: ByteBudget, size_bytes: int) -> None:
    if budget.take(size_bytes):
        return
    granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    is_taken = False

    def grant() -> None:
        nonlocal is_taken
        is_taken = True
        # A task that is cancelled in this turn has cancelled it, and does not know yet.
        if not granted.done():
            granted.set_result(None)

    budget.wait(granted, size_bytes, grant)
    try:
        await granted
    except asyncio.CancelledError:
        if is_taken:
            budget.give(size_bytes)
        else:
            budget.leave(granted)
        raise
