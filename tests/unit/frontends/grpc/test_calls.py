"""Calls through the gRPC endpoint, with generated stubs: what conformance scenarios do not show.

Those speak in batches; here are messages and lease tokens, errors, deadlines, sizes, health and reflection.
"""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc import calls as api
from flotilla.frontends.grpc.errors import trailing_metadata
from flotilla.types.errors import ALL_ERRORS, NotLeaderError, OverloadedError
from flotilla.types.limits import GRPC_MESSAGE_BYTES_MAX
from tests.unit.frontends.grpc.conftest import Endpoint, Session


async def refused(call: Any) -> tuple[grpc.StatusCode, dict[str, str]]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), {str(key): str(value) for key, value in caught.value.trailing_metadata()}


def test_every_call_of_the_contract_has_a_handler(endpoint: Endpoint) -> None:
    handlers = endpoint.server._grpc._handlers()
    assert sorted(handlers) == sorted(api.call_names())


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_every_error_has_a_status_and_says_what_it_is(kind: type) -> None:
    error = kind() if kind is NotLeaderError else kind("why")
    assert grpc.StatusCode[error.row.grpc_status] is not grpc.StatusCode.OK
    trailing = dict(trailing_metadata(error))
    assert trailing == {
        "flotilla-error": error.row.name,
        "flotilla-code": str(error.row.code),
        "flotilla-retryable": str(error.row.retryable).lower(),
    }


def test_when_to_come_again_is_said_if_it_is_known() -> None:
    error = OverloadedError("full")
    error.retry_after_ms = 250
    assert dict(trailing_metadata(error))["flotilla-retry-after-ms"] == "250"


def test_a_record_comes_back_as_it_was_sent(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        headers = [pb.Header(name="a", value=b"1"), pb.Header(name="a", value=b"2")]
        record = pb.Record(
            payload=b"hello",
            key=b"",
            headers=headers,
            priority=5,
            content_type=2,
            timestamp_ms=1_700_000_000_000,
            ttl_ms=10**12,
            idempotency_key=b"once",
            max_deliveries=7,
        )
        first = await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=[record, pb.Record()]))
        assert [(each.offset, each.duplicate) for each in first.receipts] == [(0, False), (1, False)]
        again = await session.stub.Produce(pb.ProduceRequest(topic=session.topic, records=[record]))
        assert [(each.offset, each.duplicate) for each in again.receipts] == [(0, True)]

        fetched = await session.stub.Fetch(pb.FetchRequest(topic=session.topic))
        polled = await session.stub.Poll(pb.PollRequest(topic=session.topic, group="g", member="me", wait_ms=5_000))
        for messages in (fetched.messages, polled.messages):
            message = next(each for each in messages if each.offset == 0)
            assert message.payload == b"hello"
            assert message.HasField("key")
            assert message.key == b""
            assert [(each.name, each.value) for each in message.headers] == [("a", b"1"), ("a", b"2")]
            fields = (message.priority, message.content_type, message.timestamp_ms, message.ttl_ms)
            assert fields == (5, 2, 1_700_000_000_000, 10**12)
            assert (message.idempotency_key, message.max_deliveries) == (b"once", 7)
            plain = next(each for each in messages if each.offset == 1)
            assert not plain.HasField("key")
            assert plain.payload == b""
        assert (fetched.resume_offset, fetched.next_offset, fetched.log_start) == (2, 2, 0)
        rest = await session.stub.Fetch(pb.FetchRequest(topic=session.topic, offset=1))
        assert [message.offset for message in rest.messages] == [1]

    endpoint.play(work)


def test_leases_are_settled_by_what_came_with_the_messages(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        stub, where = session.stub, {"topic": session.topic, "group": "g"}
        await stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic, settings={"nack_backoff_ms": "0ms"}))
        await stub.Produce(
            pb.ProduceRequest(topic=session.topic, records=[pb.Record(payload=b"%d" % n) for n in range(5)])
        )
        polled = await stub.Poll(pb.PollRequest(**where, member="me", wait_ms=5_000))
        leases = [message.lease for message in polled.messages]
        assert len(leases) == len(set(leases)) == 5
        assert list((await stub.Ack(pb.AckRequest(**where, leases=leases[:2]))).expired) == []
        assert list((await stub.Ack(pb.AckRequest(**where, leases=leases[1:3]))).expired) == [leases[1]]
        code, trailing = await refused(stub.Ack(pb.AckRequest(**where, leases=leases[:3])))
        assert (code, trailing["flotilla-error"]) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_EXPIRED")
        await stub.Extend(pb.ExtendRequest(**where, member="me", leases=leases[3:], visibility_ms=60_000))
        await stub.Nack(pb.NackRequest(**where, leases=leases[3:4], reason="no"))
        await stub.Nack(pb.NackRequest(**where, leases=leases[4:], kind=pb.NackRequest.RELEASE))
        found = {}
        while len(found) < 2:
            again = await stub.Poll(pb.PollRequest(**where, member="me", wait_ms=5_000))
            found |= {message.payload: message.attempt for message in again.messages}
        assert found == {b"3": 2, b"4": 1}

    endpoint.play(work)


BAD_CALLS = {
    "nothing to store": ("Produce", pb.ProduceRequest(topic="t")),
    "a batch without a partition": ("Produce", pb.ProduceRequest(topic="t", batch=b"x")),
    "records and a batch": ("Produce", pb.ProduceRequest(topic="t", partition=0, batch=b"x", records=[pb.Record()])),
    "two times of delivery": (
        "Produce",
        pb.ProduceRequest(topic="t", records=[pb.Record(delay_ms=1, deliver_at_ms=1)]),
    ),
    "a priority that is none": ("Produce", pb.ProduceRequest(topic="t", records=[pb.Record(priority=8)])),
    "a payload that is too large": ("Produce", pb.ProduceRequest(topic="t", records=[pb.Record(payload=bytes(2**21))])),
    "no lease": ("Ack", pb.AckRequest(topic="t", group="g")),
    "a lease that is none": ("Ack", pb.AckRequest(topic="t", group="g", leases=["0.1"])),
    "a lease of nothing": ("Ack", pb.AckRequest(topic="t", group="g", leases=["0.0.0"])),
    "a lease with letters": ("Ack", pb.AckRequest(topic="t", group="g", leases=["0.x.0"])),
    "a lease beyond all numbers": ("Ack", pb.AckRequest(topic="t", group="g", leases=["0.1." + "9" * 99])),
    "leases in two ways": ("Ack", pb.AckRequest(topic="t", group="g", leases=["0.1.1"], held=[pb.Held(count=1)])),
    "an empty run": ("Ack", pb.AckRequest(topic="t", group="g", held=[pb.Held(lease_id=1)])),
    "an end of another kind": ("Nack", pb.NackRequest(topic="t", group="g", leases=["0.1.1"], kind=9)),
    "a start of another kind": ("Poll", pb.PollRequest(topic="t", group="g", member="m", start=pb.Start(place=9))),
    "no messages": ("Poll", pb.PollRequest(topic="t", group="g", member="m", max_messages=0)),
    "no member": ("Poll", pb.PollRequest(topic="t", group="g")),
    "an offset without a partition": ("CancelMessages", pb.CancelMessagesRequest(topic="t", offsets=[1])),
    "a name that is none": ("CreateTopic", pb.CreateTopicRequest(topic="no/name")),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_an_invalid_argument_is_refused(endpoint: Endpoint, name: str) -> None:
    method, request = BAD_CALLS[name]

    async def work(session: Session) -> None:
        if method == "Poll":
            await session.stub.Produce(pb.ProduceRequest(topic="t", records=[pb.Record(payload=b"x")]))
        code, trailing = await refused(getattr(session.stub, method)(request))
        assert (code, trailing["flotilla-error"]) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")

    endpoint.play(work)


def test_a_missing_topic_is_not_found(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        stub = session.stub
        for call in (
            stub.Poll(pb.PollRequest(topic="missing", group="g", member="m")),
            stub.Fetch(pb.FetchRequest(topic="missing")),
            stub.ListGroups(pb.ListGroupsRequest(topic="missing")),
            stub.DeleteTopic(pb.DeleteTopicRequest(topic="missing")),
        ):
            code, trailing = await refused(call)
            assert (code, trailing["flotilla-error"]) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
        await stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic, partitions=2))
        code, _ = await refused(stub.DescribeGroup(pb.DescribeGroupRequest(topic=session.topic, group="g")))
        assert code == grpc.StatusCode.NOT_FOUND

    endpoint.play(work)


def test_groups_of_several_partitions_are_described_together(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        stub, topic = session.stub, session.topic
        await stub.CreateTopic(pb.CreateTopicRequest(topic=topic, partitions=3))
        for partition in range(3):
            await stub.Produce(
                pb.ProduceRequest(topic=topic, partition=partition, records=[pb.Record(payload=b"%d" % partition)])
            )
        await stub.Poll(pb.PollRequest(topic=topic, group="g", member="m", partitions=[1], wait_ms=5_000))
        found = await stub.DescribeGroup(pb.DescribeGroupRequest(topic=topic, group="g"))
        assert {number: part.leased for number, part in found.partitions.items()} == {1: 1}
        polled: list[bytes] = []
        while len(polled) < 2:
            reply = await stub.Poll(pb.PollRequest(topic=topic, group="g", member="m", wait_ms=5_000))
            polled += [message.payload for message in reply.messages]
        assert sorted(polled) == [b"0", b"2"]
        reset = await stub.ResetGroup(
            pb.ResetGroupRequest(topic=topic, group="g", start=pb.Start(place=pb.Start.LATEST))
        )
        assert {number: move.to_offset for number, move in reset.partitions.items()} == {0: 1, 1: 1, 2: 1}
        assert dict((await stub.ListGroups(pb.ListGroupsRequest(topic=topic))).groups) == {"g": "queue"}
        await stub.AlterGroup(pb.AlterGroupRequest(topic=topic, group="g", settings={"paused": "1"}))
        await stub.DeleteGroup(pb.DeleteGroupRequest(topic=topic, group="g", partitions=[0]))
        kept = await stub.AlterGroup(pb.AlterGroupRequest(topic=topic, group="g"))
        assert dict(kept.settings) == {"paused": "1"}
        await stub.DeleteGroup(pb.DeleteGroupRequest(topic=topic, group="g"))
        assert dict((await stub.ListGroups(pb.ListGroupsRequest(topic=topic))).groups) == {}
        assert dict((await stub.AlterGroup(pb.AlterGroupRequest(topic=topic, group="g"))).settings) == {}

    endpoint.play(work)


def test_a_stream_group_is_moved_and_deleted_when_its_members_have_left(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        stub, topic = session.stub, session.topic
        await stub.CreateTopic(pb.CreateTopicRequest(topic=topic, partitions=2))
        await stub.Produce(pb.ProduceRequest(topic=topic, partition=0, records=[pb.Record(payload=b"x")]))
        member = {"topic": topic, "group": "g", "member": "m"}
        owned = (await stub.JoinGroup(pb.JoinGroupRequest(**member))).partitions
        move = pb.ResetGroupRequest(topic=topic, group="g", start=pb.Start(place=pb.Start.LATEST))
        end = pb.DeleteGroupRequest(topic=topic, group="g")
        for call, request in ((stub.ResetGroup, move), (stub.DeleteGroup, end)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(request)
            assert ("flotilla-error", "GROUP_IN_USE") in tuple(refused.value.trailing_metadata())
        await stub.LeaveGroup(pb.LeaveGroupRequest(**member))
        moved = (await stub.ResetGroup(move)).partitions
        assert {number: (each.from_offset, each.to_offset) for number, each in moved.items()} == {0: (0, 1), 1: (0, 0)}
        late = {"topic": topic, "group": "g", "partition": 0, "offset": 0, "epoch": owned[0].epoch}
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.CommitOffset(pb.CommitOffsetRequest(**late))
        assert ("flotilla-error", "STALE_GENERATION") in tuple(refused.value.trailing_metadata())
        await stub.DeleteGroup(end)
        assert list((await stub.ListStreamGroups(pb.ListStreamGroupsRequest(topic=topic))).groups) == []
        assert dict((await stub.ListGroups(pb.ListGroupsRequest(topic=topic))).groups) == {}

    endpoint.play(work)


def test_dead_letters_are_shown_sent_again_and_thrown_away(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        stub, where = session.stub, {"topic": session.topic, "group": "g"}
        headers = [pb.Header(name="a", value=b"1")]
        for payload in (b"x", b"y"):
            record = pb.Record(payload=payload, key=b"k", headers=headers)
            await stub.Produce(pb.ProduceRequest(topic=session.topic, records=[record]))
        polled = await stub.Poll(pb.PollRequest(**where, member="me", max_messages=2, wait_ms=5_000))
        for message in polled.messages:
            nack = {"kind": pb.NackRequest.REJECT, "reason": f"no {message.payload.decode()}"}
            await stub.Nack(pb.NackRequest(**where, leases=[message.lease], **nack))
        while len(found := (await stub.ListDeadLetters(pb.DeadLettersRequest(**where))).dead_letters) < 2:
            await asyncio.sleep(0.02)
        # In any order: on a busy machine the first may reach the dead-letter topic at a second try.
        fields = sorted((each.payload, each.key, each.reason, each.topic, each.attempts) for each in found)
        assert fields == [(b"x", b"k", "no x", session.topic, 1), (b"y", b"k", "no y", session.topic, 1)]
        assert [(each.name, each.value) for each in found[0].headers] == [("a", b"1")]

        only = pb.DeadLettersRequest(**where, reason="no x", limit=1)
        dry = await stub.RedriveDeadLetters(pb.DeadLettersRequest(**where, reason="no x", dry_run=True))
        assert dry.done == 1
        assert (await stub.RedriveDeadLetters(only)).done == 1
        (again,) = (await stub.Poll(pb.PollRequest(**where, member="me", wait_ms=20_000))).messages
        assert (again.payload, again.attempt) == (b"x", 1)
        assert (await stub.PurgeDeadLetters(pb.DeadLettersRequest(**where))).done == 1
        assert list((await stub.ListDeadLetters(pb.DeadLettersRequest(**where))).dead_letters) == []

    endpoint.play(work)


async def members(stub: Any, **where: str) -> list[str]:
    found = await stub.DescribeGroup(pb.DescribeGroupRequest(**where))
    return [member.name for part in found.partitions.values() for member in part.members]


def test_a_poll_whose_deadline_passes_holds_nothing(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        stub, where = session.stub, {"topic": session.topic, "group": "g"}
        await stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Poll(pb.PollRequest(**where, member="me", wait_ms=60_000), timeout=0.3)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        cancelled = stub.Poll(pb.PollRequest(**where, member="gone", wait_ms=60_000))
        while "gone" not in await members(stub, **where):
            await asyncio.sleep(0.005)
        cancelled.cancel()
        await stub.Produce(pb.ProduceRequest(topic=session.topic, records=[pb.Record(payload=b"x")]))
        found = await stub.Poll(pb.PollRequest(**where, member="you", wait_ms=20_000))
        assert [(message.payload, message.attempt) for message in found.messages] == [(b"x", 1)]

    endpoint.play(work)


def test_a_message_that_is_too_large_fails_alone(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        request = pb.ProduceRequest(topic=session.topic, records=[pb.Record(payload=bytes(2**20))] * 20)
        code, _ = await refused(session.stub.Produce(request))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        small = pb.ProduceRequest(topic=session.topic, records=[pb.Record(payload=b"x")])
        assert len((await session.stub.Produce(small)).receipts) == 1

    endpoint.play(work)


def test_reflection(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        reflection = reflection_pb2_grpc.ServerReflectionStub(session.channel)
        call = reflection.ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=api.SERVICE_NAME))
        await call.done_writing()
        listed, described = [reply async for reply in call]
        names = {service.name for service in listed.list_services_response.service}
        assert {api.SERVICE_NAME, "grpc.health.v1.Health"} <= names
        assert b"PollRequest" in described.file_descriptor_response.file_descriptor_proto[0]

    endpoint.play(work)


def test_a_port_that_is_taken_is_not_shared(endpoint: Endpoint) -> None:
    from flotilla.frontends.grpc.server import GrpcServer
    from flotilla.types.address import parse_address

    async def work(session: Session) -> None:
        taken = parse_address(session.server.grpc_address)
        with pytest.raises(OSError, match="cannot listen"):
            await GrpcServer(session.server.gateway).start(taken.host, taken.port)

    endpoint.play(work)


#: An endless varint: no message begins so.
GARBAGE = b"\xff" * 100


@pytest.mark.parametrize(("name", "data"), [("Ack", GARBAGE), ("Produce", GARBAGE), ("Ack", b"\x7a" + bytes(2**20))])
def test_bytes_that_are_no_request_are_refused_as_such(endpoint: Endpoint, name: str, data: bytes) -> None:
    async def work(session: Session) -> None:
        call = session.channel.unary_unary(f"/{api.SERVICE_NAME}/{name}")
        status, trailing = await refused(call(data))
        assert (status, trailing["flotilla-error"]) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")

    endpoint.play(work)


def test_a_stream_refuses_bytes_that_are_no_request_and_goes_on(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        await session.stub.CreateTopic(pb.CreateTopicRequest(topic=session.topic))
        good = pb.ProduceRequest(topic=session.topic, records=[pb.Record(payload=b"x")])
        call = session.channel.stream_stream(
            f"/{api.SERVICE_NAME}/ProduceStream", response_deserializer=pb.ProduceStreamReply.FromString
        )()
        replies: list[Any] = []
        for data in (GARBAGE, good.SerializeToString()):
            await call.write(data)
            replies += (await call.read()).replies
        await call.done_writing()
        assert [reply.error.name for reply in replies] == ["INVALID_ARGUMENT", ""]

    endpoint.play(work)


def test_a_subscription_ends_with_the_reason(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        call = session.channel.stream_stream(f"/{api.SERVICE_NAME}/Subscribe")()
        await call.write(GARBAGE)
        status, _ = await refused(call.read())
        assert status is grpc.StatusCode.INVALID_ARGUMENT

    endpoint.play(work)


def test_a_request_that_no_node_should_hold_is_refused_by_its_length(endpoint: Endpoint) -> None:
    async def work(session: Session) -> None:
        call = session.channel.unary_unary(f"/{api.SERVICE_NAME}/Ack")
        status, _ = await refused(call(bytes(GRPC_MESSAGE_BYTES_MAX + 1)))
        assert status is grpc.StatusCode.RESOURCE_EXHAUSTED

    endpoint.play(work)
