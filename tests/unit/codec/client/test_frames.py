"""Frames between clients and brokers decode to what was encoded, and no bytes do harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.client.frames import (
    COPY_BYTES_MAX,
    ERROR_CHARS_MAX,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from flotilla.codec.frames import FrameReader
from flotilla.codec.generated import client_pb2
from flotilla.types import operations as op
from flotilla.types.errors import (
    ALL_ERRORS,
    FlotillaError,
    InvalidArgumentError,
    NotLeaderError,
    OverloadedError,
    UnknownError,
)
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX, ENTRY_BYTES_MAX, REQUEST_ENVELOPE_BYTES_MAX
from flotilla.types.operations import cluster as cluster_operations
from flotilla.types.operations import queue as queue_operations
from flotilla.types.operations import stream as stream_operations
from flotilla.types.operations import transactions as transaction_operations
from tests.unit.codec.client_strategies import REPLIES, REQUESTS, replies, requests, u64

BATCH = b"b" * (COPY_BYTES_MAX + 1)


def body_of(buffers):
    """The one frame that the buffers hold, without its length."""
    (frame,) = FrameReader(CLIENT_FRAME_BYTES_MAX).feed(b"".join(buffers))
    return frame


def framed(envelope, attachment=b""):
    data = envelope.SerializeToString()
    return len(data).to_bytes(4, "big") + data + attachment


# There and back.


def test_every_operation_travels():
    """A request or reply that is added to the operations needs a row in the table, and a strategy here."""
    families = (op, cluster_operations, queue_operations, transaction_operations, stream_operations)
    known = [value for family in families for value in vars(family).values()]
    kinds = [kind for kind in known if isinstance(kind, type) and kind not in (op.Request, op.Reply)]
    assert set(REQUESTS) == {op.Hello, op.Authenticate, *(kind for kind in kinds if issubclass(kind, op.Request))}
    assert set(REPLIES) == {op.Welcome, op.Challenge, *(kind for kind in kinds if issubclass(kind, op.Reply))}


@given(u64, requests, u64)
def test_requests_come_out_as_they_went_in(correlation_id, request, index):
    decoded_request = decode_request(body_of(encode_request(correlation_id, request, index)))
    assert decoded_request == (correlation_id, request, index)


@given(u64, replies, u64)
def test_replies_come_out_as_they_went_in(correlation_id, reply, index):
    decoded_reply = decode_response(body_of(encode_response(correlation_id, reply, index)))
    assert decoded_reply == (correlation_id, reply, index)


def test_the_bytes_of_a_frame_are_recorded():
    """Other languages read these bytes; a change here is a change of the protocol."""
    (frame,) = encode_request(5, op.Produce("t", 2, b"BATCH"))
    assert frame == bytes.fromhex("000000120000000908051a050a01741002") + b"BATCH"
    (frame,) = encode_response(5, op.Produced(7))
    assert frame == bytes.fromhex("0000000a00000006080522020807")


# Batches.


def test_large_batches_are_not_copied_on_the_way_out():
    assert encode_request(1, op.Produce("t", 0, BATCH))[1] is BATCH
    assert encode_response(1, op.Fetched([BATCH, BATCH], 0, 9))[1:] == [BATCH, BATCH]


def test_batches_are_slices_of_the_frame_and_as_writable_as_it_is():
    frame = bytearray(body_of(encode_request(1, op.Produce("t", 0, BATCH))))
    batch = decode_request(frame)[1].batch
    assert batch.obj is frame
    assert not batch.readonly
    frame = bytes(body_of(encode_response(1, op.Fetched([BATCH, b"small"], 0, 9))))
    assert [batch.obj for batch in decode_response(frame)[1].batches] == [frame, frame]


def test_the_largest_batch_fits_and_nothing_larger_is_sent():
    head, batch = encode_request(2**64 - 1, op.Produce("t" * 255, 2**32 - 1, bytes(ENTRY_BYTES_MAX)))
    assert len(head) + len(batch) <= CLIENT_FRAME_BYTES_MAX
    with pytest.raises(InvalidArgumentError, match="over the limit"):
        encode_request(1, op.Produce("t", 0, bytes(CLIENT_FRAME_BYTES_MAX)))
    with pytest.raises(InvalidArgumentError, match="over the limit"):
        encode_response(1, op.Fetched([bytes(ENTRY_BYTES_MAX)] * 2, 0, 1))


@pytest.mark.parametrize(("sizes", "attached"), [([5], 4), ([5], 6), ([2**32 - 1] * 3, 5), ([], 1)])
def test_batches_fill_the_attachment_exactly(sizes, attached):
    envelope = client_pb2.Response(correlation_id=3, fetched=client_pb2.Fetched(batch_bytes=sizes))
    with pytest.raises(InvalidArgumentError):
        decode_response(framed(envelope, bytes(attached)))


# What cannot be sent.


@pytest.mark.parametrize(
    "request_",
    [
        op.Fetch("t", -1, 0, 1),
        op.Fetch("t", 2**32, 0, 1),
        op.Fetch("t", 0, -1, 1),
        op.Fetch("\ud800", 0, 0, 1),
        op.Fetch(7, 0, 0, 1),
        op.CreateTopic("t", settings={"a": 1}),
        op.InitCluster({-1: "a"}),
        op.GetMetadata(["t" * 100] * 5000),
    ],
    ids=str,
)
def test_values_outside_of_the_contract_are_refused_before_they_leave(request_):
    with pytest.raises(InvalidArgumentError):
        encode_request(1, request_)


# Errors.


@pytest.mark.parametrize("kind", ALL_ERRORS, ids=lambda kind: kind.__name__)
def test_errors_come_out_as_their_own_class(kind):
    error = NotLeaderError(3, "broker-3:7600") if kind is NotLeaderError else kind("why")
    error.retry_after_ms = 250
    correlation_id, answer, _ = decode_response(body_of(encode_response(9, error)))
    assert correlation_id == 9
    assert type(answer) is kind
    assert (str(answer), answer.retry_after_ms, answer.retryable) == (str(error), 250, kind.row.retryable)


def test_not_leader_carries_the_address_of_the_leader():
    _, answer, _ = decode_response(body_of(encode_response(9, NotLeaderError(3, "broker-3:7600"))))
    assert answer.address == "broker-3:7600"
    assert str(answer) == "the leader is node 3"


def test_an_error_of_a_newer_broker_is_raised_but_not_retried():
    envelope = client_pb2.Response(correlation_id=4, error=client_pb2.Error(code=999, message="moon phase"))
    correlation_id, answer, _ = decode_response(framed(envelope))
    assert correlation_id == 4
    assert type(answer) is UnknownError
    assert not answer.retryable
    assert str(answer) == "error 999: moon phase"


def test_the_text_of_an_error_is_bounded_and_always_encodable():
    error = OverloadedError("\udcff" + "x" * 100_000)
    error.retry_after_ms = 2**40
    _, answer, _ = decode_response(body_of(encode_response(1, error)))
    assert str(answer).startswith("\\udcff")
    assert ERROR_CHARS_MAX <= len(str(answer)) < ERROR_CHARS_MAX + 10


# Newer and broken peers.


def with_field(message, number):
    """The message with a field that this version does not know."""
    unknown = bytes([number << 3 & 0x7F | 0x82, number >> 4, 3]) + b"new"
    return type(message).FromString(message.SerializeToString() + unknown)


def test_unknown_fields_are_ignored():
    fetch = with_field(client_pb2.Fetch(topic="t", offset=8), 900)
    request = with_field(client_pb2.Request(correlation_id=1, fetch=fetch), 901)
    assert decode_request(framed(request)) == (1, op.Fetch("t", 0, 8, 0), 0)
    response = with_field(client_pb2.Response(correlation_id=1, done=client_pb2.Done()), 902)
    assert decode_response(framed(response)) == (1, op.Done(), 0)


def test_an_unknown_request_can_still_be_answered():
    envelope = client_pb2.Request(correlation_id=77)
    for unknown in (envelope, with_field(envelope, 903)):
        correlation_id, request, _ = decode_request(framed(unknown))
        assert correlation_id == 77
        assert type(request) is InvalidArgumentError


def test_an_unknown_answer_ends_its_request_with_an_error():
    correlation_id, answer, _ = decode_response(framed(with_field(client_pb2.Response(correlation_id=78), 904)))
    assert correlation_id == 78
    assert type(answer) is UnknownError


def test_nothing_follows_a_request_without_a_batch():
    envelope = client_pb2.Request(correlation_id=6, delete_topic=client_pb2.DeleteTopic(topic="t"))
    correlation_id, request, _ = decode_request(framed(envelope, b"x"))
    assert correlation_id == 6
    assert type(request) is InvalidArgumentError


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\1",
        b"\xff\xff\xff\xff" + b"x" * 20,
        b"\0\0\0\2\xff\xff",
        (REQUEST_ENVELOPE_BYTES_MAX + 1).to_bytes(4, "big") + bytes(REQUEST_ENVELOPE_BYTES_MAX + 1),
        b"\0\0\0\x05\x1a\x03\x0a\x01\xff",
        bytes(CLIENT_FRAME_BYTES_MAX + 1),
    ],
    ids=["empty", "no length", "short", "endless", "garbage", "large envelope", "not UTF-8", "large frame"],
)
def test_a_frame_that_is_no_request_is_refused(frame):
    with pytest.raises(InvalidArgumentError):
        decode_request(frame)


def decoded(decode, frame):
    try:
        correlation_id, value, metadata_index = decode(frame)
    except InvalidArgumentError:
        return
    assert isinstance(correlation_id, int)
    assert isinstance(metadata_index, int)
    assert isinstance(
        value, op.Request | op.Reply | op.Hello | op.Welcome | op.Authenticate | op.Challenge | FlotillaError
    )


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(frame):
    decoded(decode_request, frame)
    decoded(decode_response, frame)
    # The same behind an envelope length that fits, where the interesting part begins.
    framed_bytes = len(frame).to_bytes(4, "big") + frame
    decoded(decode_request, framed_bytes)
    decoded(decode_response, framed_bytes)


@given(st.one_of(requests, replies), st.data())
def test_no_damage_does_harm(value, data):
    is_request = isinstance(value, op.Request | op.Hello | op.Authenticate)
    encode, decode = (encode_request, decode_request) if is_request else (encode_response, decode_response)
    frame = bytearray(body_of(encode(5, value)))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, min(len(frame) - 1, 80)))] = data.draw(st.integers(0, 255))
    decoded(decode, frame[: data.draw(st.integers(0, len(frame)))])
    decoded(decode, frame)
