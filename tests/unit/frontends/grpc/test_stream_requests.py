"""Streams reserve room for large messages, and those that are read have places."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc
import pytest

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.produce_stream import ProduceStream
from flotilla.frontends.grpc.reading_places import ReadingPlaces
from flotilla.frontends.grpc.stream_requests import StreamRequests
from flotilla.frontends.grpc.unread_answers import UnreadAnswers
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import GRPC_READ_STREAM_COUNT_MAX
from tests.unit.frontends.grpc.conftest import Endpoint, Session
from tests.unit.frontends.grpc.test_reading_places import Reader
from tests.unit.frontends.grpc.test_streams import records, subscribe, take

LARGE = 100_000


class Context:
    """A client that sends what a test puts."""

    def __init__(self, name: str = "peer") -> None:
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.read_count = 0
        self.name = name

    def peer(self) -> str:
        return self.name

    async def read(self) -> Any:
        self.read_count += 1
        return await self.sent.get()


def play(work: Callable[[Admission, ReadingPlaces, Context], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        admission = Admission(2 * LARGE, message_bytes_max=LARGE)
        await work(admission, ReadingPlaces(2), Context())
        assert admission.used_bytes == 0

    asyncio.run(run())


def test_a_large_message_is_asked_for_when_there_is_room() -> None:
    async def work(admission: Admission, places: ReadingPlaces, context: Context) -> None:
        await admission.wait(2 * LARGE, "other")
        requests: Any = StreamRequests(admission, places, context)  # type: ignore[arg-type]
        asked = asyncio.ensure_future(anext(requests))
        await asyncio.sleep(0.01)
        assert not context.read_count
        admission.give(2 * LARGE)
        context.sent.put_nowait(bytes(LARGE - 1))
        assert len(await asked) == LARGE - 1
        assert admission.used_bytes == LARGE - 1
        context.sent.put_nowait(grpc.aio.EOF)
        assert [data async for data in requests] == []
        requests.close()

    play(work)


def test_an_idle_stream_keeps_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flotilla.frontends.grpc.admission._HURRIED_S_MAX", 0.01)

    async def work(admission: Admission, places: ReadingPlaces, context: Context) -> None:
        requests: Any = StreamRequests(admission, places, context)  # type: ignore[arg-type]
        asked = asyncio.ensure_future(anext(requests))
        while not admission.used_bytes:
            await asyncio.sleep(0)
        while admission.used_bytes:
            await asyncio.sleep(0.001)
        context.sent.put_nowait(b"small")
        assert await asked == b"small"
        assert admission.used_bytes == 5
        # The next one is expected to be small, too.
        asked = asyncio.ensure_future(anext(requests))
        await asyncio.sleep(0)
        assert (context.read_count, admission.used_bytes) == (2, 0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        requests.close()

    play(work)


def test_streams_wait_for_a_place_and_give_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flotilla.frontends.grpc.stream_requests.TRANSFER_MS_MAX", 10)

    async def work(admission: Admission, places: ReadingPlaces, context: Context) -> None:
        streams = [StreamRequests(admission, places, context) for _ in range(3)]  # type: ignore[arg-type]
        await streams[0].open()
        assert not streams[0].rest()
        await streams[1].open()
        with pytest.raises(OverloadedError, match="too many streams: the limit is 2 "):
            await streams[2].open()
        assert streams[0].rest()
        await streams[2].open()
        for each in streams:
            each.close()
        assert not places.is_scarce

    play(work)


def test_consumers_that_wait_for_messages_need_no_place(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        await session.stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic))
        places = session.server._grpc.places
        readers = [Reader(f"{number}") for number in range(GRPC_READ_STREAM_COUNT_MAX - 1)]
        for reader in readers:
            await places.wait(reader)
        groups = ["a", "b", "c"]
        calls = [await subscribe(session, group, credit=1) for group in groups]
        for number in range(3):
            payload = b"%d" % number
            await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=records(payload)))
            for call in calls:
                (message,) = await take(call, 1)
                assert message.payload == payload
                await call.write(pb.SubscribeRequest(ack=pb.AckRequest(leases=[message.lease])))
        for call in calls:
            call.cancel()
        for reader in readers:
            places.give(reader)

    endpoint.play(work)


def test_a_stream_does_not_keep_a_message_until_the_next_one() -> None:
    data = bytes(LARGE)
    counts: list[int] = []

    class Requests:
        async def __aiter__(self) -> AsyncIterator[bytes]:
            before = sys.getrefcount(data)
            yield data
            counts.append(sys.getrefcount(data) - before)

        def keep(self) -> int:
            return 0

    requests: Any = Requests()
    asyncio.run(ProduceStream(Gateway(list), Admission(), UnreadAnswers())._read(requests))
    assert counts == [0]


def test_a_stream_gives_its_place_to_a_connection_with_fewer() -> None:
    async def work(admission: Admission, places: ReadingPlaces, context: Context) -> None:
        streams: list[Any] = [StreamRequests(admission, places, context) for _ in range(2)]  # type: ignore[arg-type]
        for each in streams:
            await each.open()
        other = Context("other")
        honest: Any = StreamRequests(admission, places, other)  # type: ignore[arg-type]
        opening = asyncio.ensure_future(honest.open())
        await asyncio.sleep(0)
        context.sent.put_nowait(b"first")
        asked = asyncio.ensure_future(anext(streams[0]))
        await opening
        assert not asked.done()
        honest.close()
        assert await asked == b"first"
        for each in streams:
            each.close()

    play(work)


def test_an_idle_stream_ends_for_a_connection_with_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flotilla.frontends.grpc.reading_places._PATIENCE_S", 0.01)
    failed: list[object] = []

    class Produce(Context):
        async def abort(self, *reason: object) -> None:
            failed.append(reason[0])
            raise grpc.aio.AbortError

    async def work(admission: Admission, places: ReadingPlaces, _: Context) -> None:
        context = Produce()
        streams: list[Any] = [StreamRequests(admission, places, context) for _ in range(2)]  # type: ignore[arg-type]
        for each in streams:
            await each.open()
        handling = [
            asyncio.ensure_future(ProduceStream(Gateway(list), admission, UnreadAnswers()).handle(each, context))  # type: ignore[arg-type]
            for each in streams
        ]
        while context.read_count < 2:
            await asyncio.sleep(0)
        honest: Any = StreamRequests(admission, places, Context("other"))  # type: ignore[arg-type]
        opening = asyncio.ensure_future(honest.open())
        done, left = await asyncio.wait(handling, return_when=asyncio.FIRST_COMPLETED)
        assert isinstance(done.pop().exception(), grpc.aio.AbortError)
        assert failed == [grpc.StatusCode.RESOURCE_EXHAUSTED]
        streams[0].close()
        await opening
        honest.close()
        (other,) = left
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        streams[1].close()

    play(work)
