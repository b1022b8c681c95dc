"""Frames come out as they went in, however the stream is cut; too long a length is refused unread."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.codec.frames import frame_header
from flotilla.peers.frame_buffer import (
    OWN_BUFFER_BYTES_MIN,
    PING,
    SHARED_BUFFER_BYTES,
    FrameBuffer,
    FrameTooLongError,
)

LIMIT = 1_000_000


def feed(buffer: FrameBuffer, data: bytes, piece_bytes: int) -> list[bytes]:
    """Gives the data as a socket would: as much as there is room for, in pieces of at most `piece_bytes`."""
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        room = buffer.room()
        assert len(room) > 0
        piece = data[position : position + min(piece_bytes, len(room))]
        room[: len(piece)] = piece
        position += len(piece)
        frames += (bytes(frame) for frame in buffer.received(len(piece)))
    return frames


SIZES = st.sampled_from(
    [0, 1, 3, 4, 5, 1000, OWN_BUFFER_BYTES_MIN - 1, OWN_BUFFER_BYTES_MIN, SHARED_BUFFER_BYTES - 4, SHARED_BUFFER_BYTES]
)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(SIZES, max_size=8),
    piece_bytes=st.sampled_from([1_000, 4_099, 65_536, 10_000_000]),
)
def test_any_stream_in_any_pieces(sizes: list[int], piece_bytes: int) -> None:
    frames = [bytes([number % 251]) * size for number, size in enumerate(sizes, 1)]
    stream = b"".join(frame_header(len(frame)) + frame for frame in frames)
    assert feed(FrameBuffer(LIMIT), stream, piece_bytes) == frames


def test_byte_by_byte() -> None:
    stream = frame_header(2) + b"ab" + PING + frame_header(1) + b"c"
    assert feed(FrameBuffer(LIMIT), stream, 1) == [b"ab", b"", b"c"]


def test_a_large_frame_is_received_in_place() -> None:
    buffer = FrameBuffer(LIMIT)
    feed(buffer, frame_header(500_000) + b"x", 10)
    room = buffer.room()
    assert len(room) == 499_999
    room[:] = b"y" * len(room)
    (frame,) = buffer.received(len(room))
    room[-1] = ord("z")
    assert frame[-1] == ord("z")


def test_a_small_frame_does_not_change_with_the_next_read() -> None:
    buffer = FrameBuffer(LIMIT)
    room = buffer.room()
    room[:6] = frame_header(2) + b"ab"
    (frame,) = buffer.received(6)
    buffer.room()[:6] = frame_header(2) + b"cd"
    assert frame == b"ab"


@pytest.mark.parametrize("length", [LIMIT + 1, 0xFFFFFFFF])
def test_too_long_is_refused_at_its_header(length: int) -> None:
    with pytest.raises(FrameTooLongError):
        feed(FrameBuffer(LIMIT), frame_header(length), 4)
