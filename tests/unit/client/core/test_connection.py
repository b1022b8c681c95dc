"""Frames, ids and bounds of one connection."""

import pytest

from flotilla.client._core.connection import ClientConnection
from flotilla.codec.client.frames import decode_request, encode_response
from flotilla.types.errors import InvalidArgumentError, OverloadedError, UnauthenticatedError, UnavailableError
from flotilla.types.operations import Done, GetMetadata, Hello, Produce, Produced, Welcome


def answer(correlation_id: int, value: object) -> bytes:
    return b"".join(encode_response(correlation_id, value))


def opened(*, requests_max: int = 2, frame_bytes_max: int = 1_000) -> ClientConnection[str]:
    connection: ClientConnection[str] = ClientConnection()
    connection.greet("test")
    assert connection.receive(answer(1, Welcome(1, 1, "c", frame_bytes_max, requests_max))) == []
    return connection


def test_hello_comes_first():
    connection: ClientConnection[str] = ClientConnection()
    (frame,) = connection.greet("test")
    correlation_id, hello, _ = decode_request(frame[4:])
    assert (correlation_id, hello) == (1, Hello(1, 1, "test"))
    assert not connection.is_open
    assert not connection.has_room


def test_answers_come_back_with_their_token_in_any_order_and_any_pieces():
    connection = opened()
    first, _ = connection.send(GetMetadata(), "first")
    second, _ = connection.send(GetMetadata(), "second")
    assert not connection.has_room
    data = answer(second, Done()) + answer(first, UnavailableError("no"))
    answered = [pair for byte in data for pair in connection.receive(bytes([byte]))]
    assert [token for token, _ in answered] == ["second", "first"]
    assert connection.has_room
    assert connection.request_count == 0


def test_answers_in_front_of_the_end_count():
    """Also when all come in one piece: a message that was acknowledged must not look as if it was not."""
    connection = opened()
    first, _ = connection.send(GetMetadata(), "first")
    connection.send(GetMetadata(), "second")
    answered = connection.receive(answer(first, Done()) + answer(0, UnauthenticatedError("removed")))
    assert [token for token, _ in answered] == ["first"]
    assert isinstance(connection.ended, UnauthenticatedError)
    assert connection.pending() == ["second"]


def test_a_forgotten_request_counts_until_it_is_answered():
    connection = opened(requests_max=1)
    number, _ = connection.send(GetMetadata(), "x")
    connection.forget(number)
    connection.forget(99)
    assert not connection.has_room
    assert connection.pending() == []
    assert connection.receive(answer(number, Done())) == []
    assert connection.has_room


def test_a_request_that_is_too_large_for_the_broker_is_refused_here():
    connection = opened(frame_bytes_max=100)
    with pytest.raises(InvalidArgumentError, match="over the broker's limit"):
        connection.send(Produce("t", 0, bytes(200)), "x")
    assert connection.request_count == 0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (answer(0, OverloadedError("too many clients")), OverloadedError),
        (answer(1, InvalidArgumentError("no version in common")), InvalidArgumentError),
        (answer(1, Welcome(9, 1, "c", 1_000, 2)), InvalidArgumentError),
        (answer(1, Welcome(1, 1, "c", 1_000, 0)), UnavailableError),
        (answer(1, Produced(0)), InvalidArgumentError),
        (b"HTTP/1.1 400", InvalidArgumentError),
    ],
)
def test_a_greeting_that_fails(data, error):
    connection: ClientConnection[str] = ClientConnection()
    connection.greet("test")
    with pytest.raises(error):
        connection.receive(data)


def test_one_welcome_is_enough():
    connection = opened()
    number, _ = connection.send(GetMetadata(), "x")
    with pytest.raises(InvalidArgumentError):
        connection.receive(answer(number, Welcome(1, 1, "c", 1_000, 2)))


@pytest.mark.parametrize("data", [answer(77, Done()), answer(0, UnavailableError("bye"))])
def test_an_answer_to_nothing_ends_the_connection(data):
    with pytest.raises((InvalidArgumentError, UnavailableError)):
        opened().receive(data)
