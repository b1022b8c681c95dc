"""Streams through the gRPC endpoint: many records in, many messages out, and what is in flight when they end."""

import asyncio
from typing import Any

import grpc
import pytest

from flotilla.codec.generated import flotilla_pb2 as pb
from tests.unit.frontends.grpc.conftest import Endpoint, Session


def records(*payloads: bytes) -> list[pb.Record]:
    return [pb.Record(payload=payload) for payload in payloads]


async def subscribe(session: Session, group: str = "g", **fields: Any) -> Any:
    call = session.stub.Subscribe()
    opened = pb.SubscribeRequest.Open(topic=session.topic, group=group, member="me", **fields)
    await call.write(pb.SubscribeRequest(open=opened))
    return call


async def take(call: Any, count: int) -> list[pb.Message]:
    found: list[pb.Message] = []
    while len(found) < count:
        found += (await call.read()).messages
    return found


def test_every_request_has_its_reply_in_order(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        call = session.stub.ProduceStream()

        async def write() -> None:
            for number in range(300):
                bad = number % 100 == 50
                request = pb.ProduceRequest(topic=session.topic, records=[] if bad else records(b"%d" % number))
                await call.write(request)
            await call.done_writing()

        writing = asyncio.ensure_future(write())
        replies = [reply async for message in call for reply in message.replies]
        await writing
        assert len(replies) == 300
        failed = [number for number, reply in enumerate(replies) if reply.HasField("error")]
        assert failed == [50, 150, 250]
        assert {replies[number].error.name for number in failed} == {"INVALID_ARGUMENT"}
        assert [reply.receipts[0].offset for reply in replies if reply.receipts] == list(range(297))
        fetched = await session.stub.Fetch(pb.FetchRequest(topic=session.topic))
        assert fetched.messages[0].payload == b"0"
        assert fetched.next_offset == 297

    endpoint.play(work)


def test_a_stream_takes_batches_too(endpoint: Endpoint) -> None:
    from flotilla.codec.batch.records import encode_batch
    from flotilla.types.records import Record

    async def work(session: Session) -> None:
        await session.stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic))
        call = session.stub.ProduceStream()
        batch = encode_batch([Record(b"a"), Record(b"b")])
        for data in (batch, b"garbage", batch):
            await call.write(pb.ProduceRequest(topic=session.topic, partition=0, batch=data))
        await call.done_writing()
        replies = [reply async for message in call for reply in message.replies]
        assert [reply.error.name for reply in replies] == ["", "INVALID_ARGUMENT", ""]
        assert sorted(reply.receipts[0].offset for reply in replies if reply.receipts) == [0, 2]

    endpoint.play(work)


def test_a_stream_that_is_cut_off_leaves_nothing_behind(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        for count in (1, 10, 200):
            call = session.stub.ProduceStream()
            for number in range(count):
                await call.write(pb.ProduceRequest(topic=session.topic, records=records(b"%d" % number)))
            call.cancel()
        single = pb.ProduceRequest(topic=session.topic, records=records(b"x"))
        given_up = session.stub.Produce(single)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        while endpoint.server._grpc.admission.used_bytes:
            await asyncio.sleep(0.005)
        assert len((await session.stub.Produce(single)).receipts) == 1

    endpoint.play(work)


def test_credit_bounds_what_comes_and_settling_gives_it_back(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        await session.stub.Produce(
            pb.ProduceRequest(topic=session.topic, records=records(*[b"%d" % n for n in range(9)]))
        )
        call = await subscribe(session, credit=3)
        first = await take(call, 3)
        assert [message.payload for message in first] == [b"0", b"1", b"2"]
        described = await session.stub.DescribeGroup(pb.DescribeGroupRequest(topic=session.topic, group="g"))
        assert [(part.leased, part.ready) for part in described.partitions.values()] == [(3, 6)]
        await call.write(pb.SubscribeRequest(ack=pb.AckRequest(leases=[message.lease for message in first[:2]])))
        assert [message.payload for message in await take(call, 2)] == [b"3", b"4"]
        await call.write(pb.SubscribeRequest(credit=2))
        assert [message.payload for message in await take(call, 2)] == [b"5", b"6"]
        nack = pb.NackRequest(leases=[first[2].lease], kind=pb.NackRequest.REJECT, reason="no good")
        await call.write(pb.SubscribeRequest(nack=nack))
        assert [message.payload for message in await take(call, 1)] == [b"7"]
        call.cancel()

    endpoint.play(work)


def test_leases_that_are_not_good_any_more_are_named(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=records(b"a", b"b")))
        call = await subscribe(session, credit=2)
        leases = [message.lease for message in await take(call, 2)]
        await session.stub.Ack(pb.AckRequest(topic=session.topic, group="g", leases=leases[:1]))
        await call.write(pb.SubscribeRequest(ack=pb.AckRequest(leases=leases)))
        assert list((await call.read()).expired) == leases[:1]
        extend = pb.ExtendRequest(leases=leases[1:], visibility_ms=60_000)
        await call.write(pb.SubscribeRequest(extend=extend))
        assert list((await call.read()).expired) == leases[1:]
        call.cancel()

    endpoint.play(work)


def test_a_stream_that_ends_releases_its_leases(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=records(b"a", b"b", b"c")))
        call = await subscribe(session, credit=2, visibility_ms=3_600_000)
        held = await take(call, 2)
        await call.write(pb.SubscribeRequest(ack=pb.AckRequest(leases=[held[0].lease])))
        await take(call, 1)
        call.cancel()
        found: dict[bytes, int] = {}
        while len(found) < 2:
            request = pb.PollRequest(topic=session.topic, group="g", member="you", wait_ms=20_000)
            found |= {message.payload: message.attempt for message in (await session.stub.Poll(request)).messages}
        assert found == {b"b": 1, b"c": 1}

    endpoint.play(work)


def test_a_client_that_says_no_more_still_gets_messages(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        await session.stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic))
        call = await subscribe(session, credit=10, auto_ack=True)
        await call.done_writing()
        await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=records(b"x")))
        (message,) = await take(call, 1)
        assert (message.payload, message.lease) == (b"x", "")
        call.cancel()

    endpoint.play(work)


def test_large_messages_come_in_several_replies(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        for _ in range(8):
            await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=records(bytes(900_000))))
        call = await subscribe(session, credit=100)
        assert len(await take(call, 8)) == 8
        call.cancel()

    endpoint.play(work)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([pb.SubscribeRequest(credit=1)], grpc.StatusCode.INVALID_ARGUMENT),
        ([], grpc.StatusCode.INVALID_ARGUMENT),
        (
            [pb.SubscribeRequest(open=pb.SubscribeRequest.Open(topic="none", group="g", member="m"))],
            grpc.StatusCode.NOT_FOUND,
        ),
    ],
)
def test_a_stream_that_does_not_open_ends(
    endpoint: Endpoint, words: list[pb.SubscribeRequest], code: grpc.StatusCode
) -> None:
    async def work(session: Session) -> None:
        call = session.stub.Subscribe()
        for word in words:
            await call.write(word)
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is code

    endpoint.play(work)


@pytest.mark.parametrize(
    "word",
    [
        pb.SubscribeRequest(),
        pb.SubscribeRequest(open=pb.SubscribeRequest.Open(topic="t")),
        pb.SubscribeRequest(ack=pb.AckRequest(leases=["x"])),
        pb.SubscribeRequest(credit=2**31),
    ],
)
def test_a_word_that_makes_no_sense_ends_the_stream(endpoint: Endpoint, word: pb.SubscribeRequest) -> None:
    async def work(session: Session) -> None:
        await session.stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic))
        call = await subscribe(session, credit=1)
        await call.write(word)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    endpoint.play(work)


def test_a_subscription_has_a_filter(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        regions = [
            pb.Record(payload=b"%d" % n, headers=[pb.Header(name="region", value=b"eu")] * (n % 2)) for n in range(6)
        ]
        await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=regions))
        call = await subscribe(session, credit=10, headers=[pb.Header(name="region", value=b"eu")])
        assert [message.payload for message in await take(call, 3)] == [b"1", b"3", b"5"]
        other = await subscribe(session, credit=10)
        assert [message.payload for message in await take(other, 3)] == [b"0", b"2", b"4"]
        wrong = await subscribe(session, credit=10, types=[str(n) for n in range(65)])
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await wrong.read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    endpoint.play(work)


def test_a_member_leaves_and_gives_back_what_it_holds(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        await session.stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic, partitions=3))
        for partition in range(3):
            request = pb.ProduceRequest(topic=session.topic, partition=partition, records=records(b"%d" % partition))
            await session.stub.Produce(request)
        work = {"topic": session.topic, "group": "g"}
        polled = await session.stub.Poll(pb.PollRequest(**work, member="a", wait_ms=5_000))
        while len(polled.messages) < 3:
            polled.messages.extend(
                (await session.stub.Poll(pb.PollRequest(**work, member="a", wait_ms=5_000))).messages
            )
        with pytest.raises(grpc.aio.AioRpcError):
            await session.stub.DeleteGroup(pb.DeleteGroupRequest(**work))
        await session.stub.LeaveQueue(pb.LeaveQueueRequest(**work, member="a"))
        taken: list[pb.Message] = []
        while len(taken) < 3:
            taken += (await session.stub.Poll(pb.PollRequest(**work, member="b", wait_ms=5_000))).messages
        assert {message.attempt for message in taken} == {1}
        await session.stub.Ack(pb.AckRequest(**work, leases=[message.lease for message in taken]))
        await session.stub.LeaveQueue(pb.LeaveQueueRequest(**work, member="b"))
        await session.stub.DeleteGroup(pb.DeleteGroupRequest(**work))

    endpoint.play(work)
