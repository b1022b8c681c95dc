"""Frames come out of the inbox as they went in, one at a time, whatever way the bytes came."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.codec.frames import frame_header
from flotilla.frontends.tcp.inbox import LARGE_BYTES_MIN, Inbox
from flotilla.types.errors import InvalidArgumentError


def next_frame(inbox, reserve=lambda length: True):
    frame = inbox.take(reserve)
    return None if frame is None else bytes(frame)


def receive(inbox, data, scratch):
    """One read of a socket: into the frame's own memory if it has some, else through the shared buffer."""
    room = inbox.room()
    if room is not None:
        count = min(len(room), len(data))
        room[:count] = data[:count]
        inbox.received(count)
    else:
        count = min(len(scratch), len(data))
        scratch[:count] = data[:count]
        inbox.put(memoryview(scratch)[:count])
    return count


sizes = st.one_of(st.integers(0, 60), st.integers(LARGE_BYTES_MIN - 2, LARGE_BYTES_MIN + 2))


@given(st.lists(sizes, max_size=5), st.lists(st.integers(1, 90_000), min_size=1, max_size=5), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_any_cut_and_any_pause_give_the_same_frames(lengths, reads, patience):
    bodies = [bytes([number]) * length for number, length in enumerate(lengths)]
    stream = b"".join(frame_header(len(body)) + body for body in bodies)
    inbox = Inbox(1 << 20)
    scratch = bytearray(80_000)
    frames = []
    position = 0
    for size in [*reads, *[50_000] * 10]:
        if position < len(stream):
            position += receive(inbox, stream[position : position + size], scratch)
        # Whoever takes frames may stop after any number of them.
        for _ in range(patience):
            if (frame := next_frame(inbox)) is not None:
                frames.append(frame)
        inbox.keep()
        scratch[:] = b"\xee" * len(scratch)
    assert position == len(stream)
    while (frame := next_frame(inbox)) is not None:
        frames.append(frame)
    assert frames == bodies
    assert inbox.taken_count == len(bodies)
    assert not inbox.is_midway


def test_a_large_frame_is_received_into_its_own_memory():
    inbox = Inbox(1 << 20)
    length = LARGE_BYTES_MIN + 10
    inbox.put(memoryview(frame_header(length) + b"ab"))
    assert next_frame(inbox) is None
    room = inbox.room()
    assert len(room) == length - 2
    room[:] = b"x" * len(room)
    inbox.received(len(room))
    assert next_frame(inbox) == b"ab" + b"x" * (length - 2)
    assert inbox.room() is None


@pytest.mark.parametrize("length", [11, 2**31, 2**32 - 1])
def test_a_length_over_the_limit_is_refused_and_reserves_nothing(length):
    inbox = Inbox(10)
    tracemalloc.start()
    try:
        inbox.put(memoryview(frame_header(length)[:3]))
        assert next_frame(inbox) is None
        inbox.put(memoryview(frame_header(length)[3:]))
        with pytest.raises(InvalidArgumentError, match="over the limit of 10"):
            next_frame(inbox, pytest.fail)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_an_idle_inbox_holds_nothing():
    inbox = Inbox(100)
    inbox.put(memoryview(frame_header(3) + b"abc"))
    assert next_frame(inbox) == b"abc"
    inbox.keep()
    assert inbox.waiting_bytes == 0
