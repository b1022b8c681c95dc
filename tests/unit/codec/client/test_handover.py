"""A request handed over within a process equals its decoded frame, and is refused for the same reasons."""

import pytest
from hypothesis import given

from flotilla.codec.client.frames import decode_request, decode_response, encode_request, encode_response
from flotilla.codec.client.handover import hand_over_answer, hand_over_request
from flotilla.types.errors import InvalidArgumentError, NotLeaderError, OverloadedError
from flotilla.types.operations import Fetched, GetMetadata, Produce, Produced
from flotilla.types.operations.queue import ACK, Delivery, Extend, LeaseRange, Poll, Polled, Settle, Settled, Start
from tests.unit.codec.client_strategies import replies, requests

ORDINARY = [
    Produce("t", 1, b"batch"),
    Poll("t", "g", "m", [0, 1], 10, types=["mail"]),
    Settle("t", 0, "g", ACK, [LeaseRange(7, 3, 4)], members=["m"], topic_id=9),
    Extend("t", 0, "g", "m", [LeaseRange(7, 3, 4)], 30_000),
]


@given(requests)
def test_a_request_arrives_as_over_a_socket(request):
    frame = bytearray().join(encode_request(5, request))[4:]
    assert hand_over_request(request) == decode_request(frame)[1]


@given(replies)
def test_an_answer_arrives_as_over_a_socket(reply):
    frame = bytearray().join(encode_response(5, reply))[4:]
    assert hand_over_answer(reply) == decode_response(frame)[1]


@pytest.mark.parametrize("request_", ORDINARY)
def test_ordinary_requests_are_not_encoded(request_):
    assert hand_over_request(request_) is request_


@pytest.mark.parametrize("answer", [Produced(4), Fetched([b"batch"], 0, 1), Polled([Delivery(0, 1, 2, 1, 1, b"b")])])
def test_answers_of_the_data_path_are_not_encoded(answer):
    assert hand_over_answer(answer) is answer


@pytest.mark.parametrize(
    "request_",
    [
        Produce("t\ud800", 0, b"b"),
        Produce("t", -1, b"b"),
        Produce("t", 0, b"b" * (32 << 20)),
        Poll("t", "g", "m\ud800"),
        Poll("t", "g", "m", types=["\udfff"]),
        Poll("t", "g", "m", [-1]),
        Poll("t", "g", "m", wait_ms=2**32),
        Poll("t", "g", "m", max_messages=-1),
        Poll("t", "g", "m", start=Start(1, 2**63)),
        Settle("t", 0, "g", ACK, [LeaseRange(7, 4, 4)]),
        Settle("t", 0, "g", ACK, [LeaseRange(-1, 3, 4)]),
        Settle("t", 0, "g", ACK, [LeaseRange(7, 3, 4)], reason="\ud800"),
        Settle("t", 0, "g", ACK, [LeaseRange(7, 3, 4)], reason="x" * (1 << 20)),
        Extend("t", 0, "g", "m", [LeaseRange(7, 3, 4)], 2**32),
        Extend("t", 2**32, "g", "m", [LeaseRange(7, 3, 4)], 1),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_same_error(request_):
    with pytest.raises(InvalidArgumentError) as refused:
        encode_request(5, request_)
    with pytest.raises(InvalidArgumentError) as refused_here:
        hand_over_request(request_)
    assert str(refused_here.value) == str(refused.value)


def test_the_broker_gets_lists_of_its_own_where_it_may_keep_them():
    request = GetMetadata(["t"])
    arrived = hand_over_request(request)
    assert arrived == request
    assert arrived is not request


def test_an_error_is_a_new_one():
    error = OverloadedError("busy")
    error.retry_after_ms = 250
    arrived = hand_over_answer(error)
    assert arrived is not error
    assert (type(arrived), str(arrived), arrived.retry_after_ms) == (OverloadedError, "busy", 250)
    moved = hand_over_answer(NotLeaderError(2, "host:1"))
    assert isinstance(moved, NotLeaderError)
    assert moved.address == "host:1"


def test_a_batch_that_could_be_written_to_is_not_shared():
    batch = bytearray(b"batch")
    arrived = hand_over_request(Produce("t", 0, memoryview(batch)))
    batch[:] = b"other"
    assert bytes(arrived.batch) == b"batch"


def test_settled_passes_with_what_was_refused():
    settled = Settled([LeaseRange(1, 2, 3)])
    assert hand_over_answer(settled) is settled
