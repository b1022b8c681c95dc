"""Frames come out as they went in, however the stream is cut, and never over the limit."""

import tracemalloc
from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.frames import DIRECT_BYTES_MIN, LENGTH_BYTES, FrameReader, frame_header
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import PEER_FRAME_BYTES_MAX


def stream_of(bodies: list[bytes]) -> bytes:
    return b"".join(frame_header(len(body)) + body for body in bodies)


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(0, 400), max_size=20))
def test_any_cut_of_the_stream_gives_the_same_frames(bodies, cuts):
    stream = stream_of(bodies)
    reader = FrameReader()
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = []
    for start, end in pairwise(edges):
        frames += [bytes(frame) for frame in reader.feed(stream[start:end])]
    assert frames == bodies
    assert reader.pending_bytes == 0


@given(
    st.lists(st.sampled_from([0, 3, DIRECT_BYTES_MIN - 1, DIRECT_BYTES_MIN, 2 * DIRECT_BYTES_MIN + 5]), max_size=5),
    st.lists(st.integers(5_000, DIRECT_BYTES_MIN), min_size=1, max_size=8),
)
def test_large_frames_can_be_received_into_their_own_memory(sizes, steps):
    bodies = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    stream = memoryview(stream_of(bodies))
    reader = FrameReader()
    frames = []
    position = 0
    for step in cycle(steps):
        if position == len(stream):
            break
        room = reader.room()
        piece = stream[position : position + step]
        if room is None:
            frames += [bytes(frame) for frame in reader.feed(piece)]
        else:
            piece = piece[: len(room)]
            room[: len(piece)] = piece
            frames += [bytes(frame) for frame in reader.received(len(piece))]
        position += len(piece)
    assert frames == bodies
    assert reader.pending_bytes == 0


def test_only_a_large_rest_is_received_directly():
    reader = FrameReader()
    assert reader.room() is None
    reader.feed(frame_header(DIRECT_BYTES_MIN + 1) + b"x")
    assert len(reader.room()) == DIRECT_BYTES_MIN
    reader.feed(b"x")
    assert reader.room() is None


def test_byte_by_byte():
    bodies = [b"", b"a", b"bc" * 300, b""]
    reader = FrameReader()
    frames = [bytes(frame) for byte in stream_of(bodies) for frame in reader.feed(bytes([byte]))]
    assert frames == bodies


def test_whole_frames_are_slices_of_what_was_fed():
    data = stream_of([b"x" * 100, b"y" * 100])
    assert all(frame.obj is data for frame in FrameReader().feed(data))


def test_frames_are_read_only():
    data = bytearray(stream_of([b"whole", b"spans pieces"]))
    reader = FrameReader()
    frames = [*reader.feed(data[:12]), *reader.feed(data[12:])]
    assert [bytes(frame) for frame in frames] == [b"whole", b"spans pieces"]
    assert all(frame.readonly for frame in frames)


def test_feeding_takes_the_bytes_even_when_nobody_looks_at_the_frames():
    reader = FrameReader()
    reader.feed(frame_header(3) + b"ab")
    assert reader.pending_bytes == 2
    assert [bytes(frame) for frame in reader.feed(b"c")] == [b"abc"]


@pytest.mark.parametrize("length", [11, PEER_FRAME_BYTES_MAX, 2**32 - 1])
def test_a_length_over_the_limit_is_refused_at_its_fourth_byte(length):
    reader = FrameReader(frame_bytes_max=10)
    header = frame_header(length)
    list(reader.feed(header[:3]))
    with pytest.raises(InvalidArgumentError, match="over the limit of 10"):
        reader.feed(header[3:])


def test_refusing_reserves_nothing():
    reader = FrameReader()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError):
            reader.feed(frame_header(2**32 - 1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_refused_stream_stays_refused():
    reader = FrameReader(frame_bytes_max=10)
    with pytest.raises(InvalidArgumentError):
        reader.feed(frame_header(11))
    with pytest.raises(InvalidArgumentError, match="lost its place"):
        reader.feed(frame_header(1) + b"x")


def test_a_frame_at_the_limit_passes():
    (frame,) = FrameReader(frame_bytes_max=10).feed(frame_header(10) + b"0123456789")
    assert frame == b"0123456789"


def test_the_header_is_big_endian():
    assert frame_header(258) == b"\x00\x00\x01\x02"
    assert len(frame_header(0)) == LENGTH_BYTES
