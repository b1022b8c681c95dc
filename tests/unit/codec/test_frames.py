"""Frames come out as they went in, however the stream is cut, and never over the limit."""

import tracemalloc
from itertools import cycle, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.codec.frames import DIRECT_BYTES_MIN, LENGTH_BYTES, FrameReader, frame_header
from flotilla.types.errors import InvalidArgumentError

LIMIT = 1 << 20
SCRATCH_BYTES = 80_000


def stream_of(bodies: list[bytes]) -> bytes:
    return b"".join(frame_header(len(body)) + body for body in bodies)


SIZES = st.one_of(st.integers(0, 60), st.integers(DIRECT_BYTES_MIN - 2, DIRECT_BYTES_MIN + 2))


def receive(reader: FrameReader, data: bytes, scratch: bytearray) -> int | memoryview:
    """One read of a socket, for `feed`: into the frame's own memory if it has some, else into the shared buffer."""
    room = reader.room()
    target = memoryview(scratch) if room is None else room
    count = min(len(target), len(data))
    target[:count] = data[:count]
    return target[:count] if room is None else count


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(0, 400), max_size=20))
def test_any_cut_of_the_stream_gives_the_same_frames(bodies, cuts):
    stream = stream_of(bodies)
    reader = FrameReader(LIMIT)
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
    reader = FrameReader(LIMIT)
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
            frames += [bytes(frame) for frame in reader.feed(len(piece))]
        position += len(piece)
    assert frames == bodies
    assert reader.pending_bytes == 0


def test_only_a_large_rest_is_received_directly():
    reader = FrameReader(LIMIT)
    assert reader.room() is None
    reader.feed(frame_header(DIRECT_BYTES_MIN + 1) + b"x")
    assert len(reader.room()) == DIRECT_BYTES_MIN
    reader.feed(b"x")
    assert reader.room() is None


def test_byte_by_byte():
    bodies = [b"", b"a", b"bc" * 300, b""]
    reader = FrameReader(LIMIT)
    frames = [bytes(frame) for byte in stream_of(bodies) for frame in reader.feed(bytes([byte]))]
    assert frames == bodies


def test_whole_frames_are_slices_of_what_was_fed():
    data = stream_of([b"x" * 100, b"y" * 100])
    assert all(frame.obj is data for frame in FrameReader(LIMIT).feed(data))


def test_frames_are_read_only():
    data = bytearray(stream_of([b"whole", b"spans pieces"]))
    reader = FrameReader(LIMIT)
    frames = [*reader.feed(data[:12]), *reader.feed(data[12:])]
    assert [bytes(frame) for frame in frames] == [b"whole", b"spans pieces"]
    assert all(frame.readonly for frame in frames)


def test_feeding_takes_the_bytes_even_when_the_frames_are_not_read():
    reader = FrameReader(LIMIT)
    reader.feed(frame_header(3) + b"ab")
    assert reader.pending_bytes == 2
    assert [bytes(frame) for frame in reader.feed(b"c")] == [b"abc"]


@pytest.mark.parametrize("length", [11, LIMIT, 2**32 - 1])
def test_a_length_over_the_limit_is_refused_at_its_fourth_byte(length):
    reader = FrameReader(frame_bytes_max=10)
    header = frame_header(length)
    list(reader.feed(header[:3]))
    with pytest.raises(InvalidArgumentError, match="over the limit of 10"):
        reader.feed(header[3:])


def test_refusing_reserves_nothing():
    reader = FrameReader(LIMIT)
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
    with pytest.raises(InvalidArgumentError, match="over the limit"):
        reader.feed(frame_header(1) + b"x")


def test_a_frame_at_the_limit_passes():
    (frame,) = FrameReader(frame_bytes_max=10).feed(frame_header(10) + b"0123456789")
    assert frame == b"0123456789"


def test_the_header_is_big_endian():
    assert frame_header(258) == b"\x00\x00\x01\x02"
    assert len(frame_header(0)) == LENGTH_BYTES


# Frames with memory of their own, when the caller reuses the memory of its chunks.


def test_a_refused_stream_stays_refused_when_its_chunk_is_overwritten():
    scratch = bytearray(frame_header(11))
    reader = FrameReader(10, bytes)
    with pytest.raises(InvalidArgumentError):
        reader.feed(scratch)
    scratch[:] = frame_header(0)
    with pytest.raises(InvalidArgumentError):
        reader.feed(scratch)


@given(st.lists(SIZES, max_size=8), st.sampled_from([1, 1_000, 4_099, 65_536, 10_000_000]))
@settings(max_examples=60, deadline=None)
def test_copied_frames_outlive_the_chunk(lengths, piece_bytes):
    bodies = [bytes([number]) * length for number, length in enumerate(lengths)]
    stream = stream_of(bodies)
    if piece_bytes == 1:
        stream = stream[:3_000]
    reader = FrameReader(LIMIT, bytes)
    scratch = bytearray(SCRATCH_BYTES)
    frames = []
    position = 0
    while position < len(stream):
        chunk = receive(reader, stream[position : position + piece_bytes], scratch)
        frames += reader.feed(chunk)
        position += chunk if isinstance(chunk, int) else len(chunk)
        scratch[:] = b"\xee" * len(scratch)
    assert frames == bodies[: len(frames)]
    assert piece_bytes == 1 or len(frames) == len(bodies)


def test_a_large_frame_is_received_in_place():
    reader = FrameReader(LIMIT, bytes)
    reader.feed(frame_header(500_000) + b"x")
    room = reader.room()
    assert len(room) == 499_999
    room[:] = b"y" * len(room)
    (frame,) = reader.feed(len(room))
    room[-1] = ord("z")
    assert frame[-1] == ord("z")


# Frames taken one at a time.


def next_frame(reader: FrameReader, reserve=lambda length: True) -> bytes | None:
    frame = reader.take(reserve)
    return None if frame is None else bytes(frame)


@given(st.lists(SIZES, max_size=5), st.lists(st.integers(1, 90_000), min_size=1, max_size=5), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_any_cut_and_any_pause_give_the_same_frames(lengths, reads, patience):
    bodies = [bytes([number]) * length for number, length in enumerate(lengths)]
    stream = stream_of(bodies)
    reader = FrameReader(LIMIT, bytearray)
    scratch = bytearray(SCRATCH_BYTES)
    frames = []
    position = 0
    for size in [*reads, *[50_000] * 10]:
        if position < len(stream):
            chunk = receive(reader, stream[position : position + size], scratch)
            if isinstance(chunk, int):
                reader.received(chunk)
                position += chunk
            else:
                reader.put(chunk)
                position += len(chunk)
        # The caller may stop after any number of frames.
        for _ in range(patience):
            if (frame := next_frame(reader)) is not None:
                frames.append(frame)
        reader.keep()
        scratch[:] = b"\xee" * len(scratch)
    assert position == len(stream)
    while (frame := next_frame(reader)) is not None:
        frames.append(frame)
    assert frames == bodies
    assert reader.taken_count == len(bodies)
    assert not reader.is_midway


@pytest.mark.parametrize("length", [11, 2**31, 2**32 - 1])
def test_a_length_over_the_limit_is_refused_before_it_is_reserved(length):
    reader = FrameReader(10, bytearray)
    reader.put(memoryview(frame_header(length)[:3]))
    assert next_frame(reader) is None
    reader.put(memoryview(frame_header(length)[3:]))
    with pytest.raises(InvalidArgumentError, match="over the limit of 10"):
        next_frame(reader, pytest.fail)


def test_a_frame_waits_until_it_is_reserved():
    reader = FrameReader(LIMIT, bytearray)
    reader.put(memoryview(stream_of([b"abc"])))
    assert next_frame(reader, lambda length: False) is None
    reader.keep()
    assert reader.pending_bytes == LENGTH_BYTES + 3
    assert next_frame(reader) == b"abc"


def test_an_idle_reader_holds_nothing():
    reader = FrameReader(100, bytearray)
    reader.put(memoryview(stream_of([b"abc"])))
    assert next_frame(reader) == b"abc"
    reader.keep()
    assert reader.pending_bytes == 0
