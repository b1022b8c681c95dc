"""Requests as bytes and bytes as answers, for tests that play a client by hand."""

from typing import Any

from flotilla.codec.client.frames import Answer, decode_response, encode_request
from flotilla.codec.frames import FrameReader
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX
from flotilla.types.operations import Hello

HELLO = Hello(1, 1, "test")


def asked(correlation_id: int, request: Any) -> bytes:
    return b"".join(encode_request(correlation_id, request))


def answers_in(data: bytes) -> list[tuple[int, Answer]]:
    reader = FrameReader(CLIENT_FRAME_BYTES_MAX)
    answers = [decode_response(bytes(frame))[:2] for frame in reader.feed(data)]
    assert not reader.pending_bytes
    return answers
