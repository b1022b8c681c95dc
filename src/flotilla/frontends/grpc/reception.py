"""How the messages of calls are received: bounded in memory for every method of every service.

For the library a call with one message is a stream with one message, and only of a stream does it leave to its handler
when to receive, and say when an answer has left. So all methods become streams here. Streams that last are bounded by
their number as well.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from flotilla.codec.grpc import calls as api
from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.errors import Context, fail
from flotilla.frontends.grpc.open_calls import OpenCalls
from flotilla.frontends.grpc.reading_places import ReadingPlaces
from flotilla.frontends.grpc.stream_requests import StreamRequests
from flotilla.frontends.grpc.unread_answers import UnreadAnswers
from flotilla.types.errors import FlotillaError, InvalidArgumentError, OverloadedError
from flotilla.types.limits import GRPC_STREAM_COUNT_MAX


class ReceptionInterceptor(grpc.aio.ServerInterceptor):
    def __init__(
        self,
        admission: Admission,
        places: ReadingPlaces,
        calls: OpenCalls,
        answers: UnreadAnswers,
        streams_max: int = GRPC_STREAM_COUNT_MAX,
    ) -> None:
        self._admission = admission
        self._calls = calls
        self._places = places
        self._answers = answers
        self._streams_max = streams_max
        self._stream_count = 0

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        write = handler.response_serializer
        if handler.request_streaming:
            call = self._stream(handler.stream_stream, handler.request_deserializer)
            return grpc.stream_stream_rpc_method_handler(call, response_serializer=write)
        inner, decode = handler.unary_unary or handler.unary_stream, handler.request_deserializer
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(self._single(inner, decode), response_serializer=write)
        is_repeatable = handler_call_details.method.rpartition("/")[2] in api.REPEATABLE

        return grpc.stream_stream_rpc_method_handler(self._answered(inner, decode, write, is_repeatable=is_repeatable))

    def _single(self, inner: Callable[[Any, Context], Awaitable[Any]], decode: Callable[[bytes], Any] | None) -> Any:
        async def call(_: AsyncIterator[bytes], context: Context) -> Any:
            with self._calls.calling(context):
                return await _without_frames(self._receive(inner, decode, context))

        return call

    def _answered(
        self,
        inner: Callable[[Any, Context], Awaitable[Any]],
        decode: Callable[[bytes], Any] | None,
        write: Callable[[Any], bytes],
        *,
        is_repeatable: bool,
    ) -> Any:
        """A call with one answer, as a stream of one: of a stream it is known when an answer has left."""

        async def answer(context: Context) -> None:
            if is_repeatable:
                self._answers.check(context)
            data = write(await self._receive(inner, decode, context))
            await self._answers.write(context, data, is_repeatable=is_repeatable)

        async def whole(context: Context) -> None:
            try:
                await answer(context)
                return
            except OverloadedError as error:
                # Its frames would keep the answer.
                refused = error.with_traceback(None)
            await fail(context, refused)

        async def call(_: AsyncIterator[bytes], context: Context) -> None:
            with self._calls.calling(context):
                await _without_frames(whole(context))

        return call

    async def _receive(
        self,
        inner: Callable[[Any, Context], Awaitable[Any]],
        decode: Callable[[bytes], Any] | None,
        context: Context,
    ) -> Any:
        async def read() -> bytes:
            data = await context.read()
            if not isinstance(data, bytes):
                raise InvalidArgumentError("the call has no message")
            return data

        size_bytes = 0
        try:
            data = await self._admission.receive(read, context.peer())
            size_bytes = len(data)
            return await inner(data if decode is None else api.decode(decode, data), context)
        except FlotillaError as error:
            await fail(context, error)
        finally:
            self._admission.give(size_bytes)

    def _stream(
        self, inner: Callable[[StreamRequests, Context], Any], decode: Callable[[bytes], Any] | None = None
    ) -> Any:
        async def call(_: AsyncIterator[bytes], context: Context) -> None:
            if self._stream_count >= self._streams_max:
                await fail(context, OverloadedError(f"too many streams: the limit is {self._streams_max}"))
            requests = StreamRequests(self._admission, self._places, context, decode)
            self._stream_count += 1
            try:
                with self._calls.calling(context):
                    await _without_frames(_whole(inner, requests, context))
            finally:
                requests.close()
                self._stream_count -= 1

        return call


async def _whole(inner: Callable[[StreamRequests, Context], Any], requests: StreamRequests, context: Context) -> None:
    try:
        await requests.open()
    except OverloadedError as error:
        await fail(context, error)
    if inspect.isasyncgenfunction(inner):
        async for reply in inner(requests, context):
            await context.write(reply)
    else:
        await inner(requests, context)


async def _without_frames(answer: Awaitable[Any]) -> Any:
    """The library keeps an error that ends a call in a cycle with the frames that it came through, and those keep the
    message until they are collected, long after its bytes were given back. So the error leaves them behind.
    """
    try:
        return await answer
    except grpc.aio.AbortError as error:
        error.__context__ = None
        raise error.with_traceback(None) from None
