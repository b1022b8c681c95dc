"""Clock readings between nodes: they come back as they were sent, and are told from all other frames."""

import pytest

from flotilla.codec.peer.clock_frames import decode_clock, encode_clock, is_clock
from flotilla.codec.peer.frames import encode_frame
from flotilla.raft.messages import Append, AppendReply, Entry, Heartbeat
from flotilla.types.errors import InvalidArgumentError


@pytest.mark.parametrize("wall_ms", [0, -1, 1_700_000_000_000, 2**62])
def test_a_reading_comes_back_as_it_was_sent(wall_ms: int) -> None:
    frame = encode_clock(1, 2**40, wall_ms)
    assert is_clock(frame)
    assert decode_clock(memoryview(frame)) == (1, 2**40, wall_ms)


def test_damage_is_noticed() -> None:
    frame = bytearray(encode_clock(1, 2, 5))
    frame[-1] ^= 1
    with pytest.raises(InvalidArgumentError):
        decode_clock(frame)


def test_messages_are_no_readings() -> None:
    messages = [
        Heartbeat(sender=1, to=2, term=3, commit=4),
        AppendReply(sender=1, to=2, term=3, index=4, accepted=True, hint_index=0, hint_term=0),
        *(Append(1, 2, 3, 0, 0, 0, [Entry(1, 3, 0, b"x" * size)]) for size in range(40)),
    ]
    assert not any(is_clock(b"".join(encode_frame([(1, message)]))) for message in messages)
