"""The ProduceStream call: requests are sent as they come and answered in order.

Requests go to the gateway one after the other, so records keep their order, but a request does not wait for the
answer to the one before it. Answers that are ready together leave in one message.
"""

import asyncio
from collections import deque
from typing import Any, Final, Protocol

from flotilla.codec.grpc import calls as api
from flotilla.codec.grpc.queue import read_produce, write_failure, write_produced, write_receipts, write_replies
from flotilla.codec.grpc.values import ProduceRecords
from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.errors import Context, fail
from flotilla.frontends.grpc.stream_requests import StreamRequests
from flotilla.frontends.grpc.unread_answers import UnreadAnswers
from flotilla.gateway.gateway import Gateway
from flotilla.gateway.produce import PendingRecords
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Produce

#: Requests of one stream without an answer; then nothing more is read from it.
IN_FLIGHT_MAX: Final = 1_024
#: Replies in one message.
_TOGETHER_MAX: Final = 256

_decode, _encode = api.decoder("ProduceStream"), api.encoder("ProduceStream")


class _Pending(Protocol):
    """A request in flight."""

    @property
    def is_done(self) -> bool: ...

    async def reply(self) -> Any:
        """Raises FlotillaError."""

    def cancel(self) -> None: ...


class ProduceStream:
    """One stream."""

    def __init__(self, gateway: Gateway, admission: Admission, answers: UnreadAnswers) -> None:
        self._gateway = gateway
        self._answers = answers
        self._admission = admission
        #: Requests in flight, in order, with their sizes; None: the client has finished sending.
        self._pending: deque[tuple[_Pending, int] | None] = deque()
        #: The node has ended the stream before the client had finished sending.
        self._ended_by: FlotillaError | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def handle(self, requests: StreamRequests, context: Context) -> None:
        reading = asyncio.create_task(self._read(requests))
        try:
            while True:
                while not self._pending:
                    self._news.clear()
                    await self._news.wait()
                if self._pending[0] is None:
                    if self._ended_by is not None:
                        await fail(context, self._ended_by)
                    return
                await self._answers.write(context, _encode(write_replies(await self._take())))
        finally:
            reading.cancel()
            # Its exceptions are dropped: the client may have disconnected in the middle of a message.
            await asyncio.gather(reading, return_exceptions=True)
            for each in self._pending:
                if each is not None:
                    each[0].cancel()
                    self._admission.give(each[1])

    async def _read(self, requests: StreamRequests) -> None:
        try:
            async for data in requests:
                self._pending.append((await self._start(data), requests.keep()))
                # Or this frame would keep it until the next one comes.
                del data
                self._news.set()
                while len(self._pending) >= IN_FLIGHT_MAX:
                    self._room.clear()
                    await self._room.wait()
        except FlotillaError as error:
            self._ended_by = error
        finally:
            self._pending.append(None)
            self._news.set()

    async def _start(self, data: bytes) -> _Pending:
        try:
            message = _decode(data)
            await self._gateway.learn_time()
            asked = read_produce(message, self._gateway.now_ms())
            if isinstance(asked, ProduceRecords):
                return _Records(await self._gateway.send(asked.topic, asked.records, partition=asked.partition))
            return _Batch(self._gateway, asked)
        except FlotillaError as error:
            # Its frames, and those of what caused it, would keep the message.
            error.__cause__ = error.__context__ = None
            return _Refused(error.with_traceback(None))

    async def _take(self) -> list[Any]:
        """Waits for the reply to the oldest request, and adds those after it that are ready."""
        replies: list[Any] = []
        while self._pending and len(replies) < _TOGETHER_MAX:
            oldest = self._pending[0]
            if oldest is None or (replies and not oldest[0].is_done):
                break
            try:
                replies.append(await oldest[0].reply())
            except FlotillaError as error:
                replies.append(write_failure(error))
            self._pending.popleft()
            self._admission.give(oldest[1])
        self._room.set()
        return replies


class _Records:
    """Records, batched with those of other callers."""

    __slots__ = ("_sent",)

    def __init__(self, sent: PendingRecords) -> None:
        self._sent = sent

    @property
    def is_done(self) -> bool:
        return self._sent.is_done

    async def reply(self) -> Any:
        return write_receipts(await self._sent.receipts())

    def cancel(self) -> None:
        """The records are stored all the same."""


class _Batch:
    """A batch that the client has encoded."""

    __slots__ = ("_request", "_task")

    def __init__(self, gateway: Gateway, request: Produce) -> None:
        self._request = request
        self._task = asyncio.ensure_future(gateway.ask(request))

    @property
    def is_done(self) -> bool:
        return self._task.done()

    async def reply(self) -> Any:
        return write_produced(self._request, await self._task)

    def cancel(self) -> None:
        self._task.cancel()


class _Refused:
    """A request that was refused before it was sent."""

    __slots__ = ("_error",)
    is_done = True

    def __init__(self, error: FlotillaError) -> None:
        self._error = error

    async def reply(self) -> Any:
        raise self._error

    def cancel(self) -> None:
        """There is nothing to cancel."""
