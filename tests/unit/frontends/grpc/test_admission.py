"""Messages of calls are bounded together: calls wait for room, connections in turn, and a slow one does not block."""

import asyncio
import sys
from typing import Any

import grpc
import pytest

from flotilla.codec.grpc import calls as api
from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.open_calls import OpenCalls
from flotilla.frontends.grpc.produce_stream import ProduceStream
from flotilla.frontends.grpc.reading_places import ReadingPlaces
from flotilla.frontends.grpc.reception import ReceptionInterceptor, _without_frames
from flotilla.frontends.grpc.unread_answers import UnreadAnswers
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import InvalidArgumentError, OverloadedError
from flotilla.types.limits import GRPC_MESSAGE_BYTES_MAX
from tests.unit.frontends.grpc.conftest import Endpoint, Session


def test_waiting_is_in_order_and_may_be_cancelled() -> None:
    async def run() -> None:
        admission = Admission(100)
        await admission.wait(100, "a")
        waiting = [
            asyncio.ensure_future(admission.wait(size, peer)) for size, peer in ((80, "a"), (50, "b"), (40, "c"))
        ]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.gather(waiting[1], return_exceptions=True)
        admission.give(100)
        await waiting[0]
        await asyncio.sleep(0)
        assert not waiting[2].done()
        admission.give(80)
        # Granted and cancelled in the same turn: it is given back.
        waiting[2].cancel()
        await asyncio.gather(waiting[2], return_exceptions=True)
        assert admission.used_bytes == 0

    asyncio.run(run())


def test_room_for_a_call_that_was_just_cancelled_goes_to_the_next() -> None:
    async def run() -> None:
        admission = Admission(100)
        await admission.wait(100, "a")
        cancelled = asyncio.ensure_future(admission.wait(80, "b"))
        next_one = asyncio.ensure_future(admission.wait(80, "c"))
        await asyncio.sleep(0)
        cancelled.cancel()
        # The cancelled task has not run since.
        admission.give(100)
        await next_one
        assert cancelled.cancelled()
        assert admission.used_bytes == 80

    asyncio.run(run())


def test_connections_wait_in_turn() -> None:
    async def run() -> None:
        admission = Admission(10, message_bytes_max=10)
        received: list[str] = []

        async def call(peer: str) -> None:
            async def read() -> bytes:
                received.append(peer)
                await asyncio.sleep(0)
                return b"1234"

            admission.give(len(await admission.receive(read, peer)))

        await asyncio.gather(*(call(peer) for peer in "aaaaab"))
        assert received.index("b") < 3
        assert sorted(received) == list("aaaaab")
        assert admission.used_bytes == 0

    asyncio.run(run())


def test_what_a_message_does_not_take_is_given_back() -> None:
    async def run() -> None:
        admission = Admission(100, message_bytes_max=60)

        async def read() -> bytes:
            assert admission.used_bytes == 60
            return b"1234"

        async def refuse() -> bytes:
            raise InvalidArgumentError("nothing")

        await admission.receive(read, "a")
        assert admission.used_bytes == 4
        with pytest.raises(InvalidArgumentError):
            await admission.receive(refuse, "a")
        assert admission.used_bytes == 4

    asyncio.run(run())


def test_a_slow_message_makes_room_for_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flotilla.frontends.grpc.admission._HURRIED_S_MAX", 0.01)

    async def run() -> None:
        admission = Admission(10, message_bytes_max=10)

        async def never() -> bytes:
            return await asyncio.get_running_loop().create_future()

        async def soon() -> bytes:
            return b"1"

        slow = asyncio.ensure_future(admission.receive(never, "slow"))
        await asyncio.sleep(0.05)
        assert not slow.done()
        assert await admission.receive(soon, "honest") == b"1"
        with pytest.raises(OverloadedError) as caught:
            await slow
        assert caught.value.retry_after_ms > 0
        assert admission.used_bytes == 1

    asyncio.run(run())


def test_calls_beyond_the_budget_wait_and_are_answered(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        admission = session.server._grpc.admission
        # Room for one message at a time.
        blocked = admission._large.bytes_max - GRPC_MESSAGE_BYTES_MAX
        await admission.wait(blocked, "test")
        peaks: list[int] = []
        call = session.channel.unary_unary(f"/{api.SERVICE_NAME}/Ack")
        asked = [asyncio.ensure_future(_status(call(bytes(GRPC_MESSAGE_BYTES_MAX)))) for _ in range(8)]
        while not all(each.done() for each in asked):
            peaks.append(admission.used_bytes)
            await asyncio.sleep(0.001)
        admission.give(blocked)
        assert {each.result() for each in asked} == {grpc.StatusCode.INVALID_ARGUMENT}
        assert max(peaks) <= admission._large.bytes_max
        assert admission.used_bytes == 0

    endpoint.play(work)


async def _status(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


def test_streams_are_bounded_by_their_number() -> None:
    class Context:
        def peer(self) -> str:
            return "peer"

        def invocation_metadata(self) -> None:
            return None

        async def abort(self, *reason: object) -> None:
            raise grpc.aio.AbortError(str(reason[1]))

    async def run() -> None:
        end = asyncio.Event()

        async def handle(requests: Any, context: Any) -> None:
            await end.wait()

        call = ReceptionInterceptor(Admission(), ReadingPlaces(), OpenCalls(), UnreadAnswers(), streams_max=1)._stream(
            handle
        )
        first = asyncio.ensure_future(call(None, Context()))
        await asyncio.sleep(0)
        with pytest.raises(grpc.aio.AbortError, match="too many streams: the limit is 1"):
            await call(None, Context())
        end.set()
        await first
        await call(None, Context())

    asyncio.run(run())


def test_an_error_that_ends_a_call_does_not_keep_its_message() -> None:
    async def run() -> None:
        async def refuse(message: bytes) -> None:
            try:
                raise InvalidArgumentError("no")
            except InvalidArgumentError:
                raise grpc.aio.AbortError from None

        with pytest.raises(grpc.aio.AbortError) as caught:
            await _without_frames(refuse(b"large"))
        frames = [each.frame for each in caught.traceback]
        assert not [frame for frame in frames if "message" in frame.f_locals]
        assert caught.value.__context__ is None

    asyncio.run(run())


def test_a_refused_request_of_a_stream_does_not_keep_its_message() -> None:
    data = b"no message at all" * 100
    holders = sys.getrefcount(data)
    refused = asyncio.run(ProduceStream(Gateway(list), Admission(), UnreadAnswers())._start(data))
    assert refused.is_done
    assert sys.getrefcount(data) == holders
