"""Readings between nodes: they come back as they were sent, and are told from all other frames."""

import pytest

from flotilla.codec.peer.frames import encode_frame
from flotilla.codec.peer.reading_frames import CLOCK, ROOM, decode_reading, encode_reading, is_reading
from flotilla.raft.messages import Append, AppendReply, Entry, Heartbeat
from flotilla.types.errors import InvalidArgumentError


@pytest.mark.parametrize("kind", [CLOCK, ROOM])
@pytest.mark.parametrize("number", [0, -1, 1_700_000_000_000, 2**62])
def test_a_reading_comes_back_as_it_was_sent(kind: int, number: int) -> None:
    frame = encode_reading(kind, 1, 2**40, number)
    assert is_reading(frame)
    assert decode_reading(memoryview(frame)) == (kind, 1, 2**40, number)


def test_damage_is_noticed() -> None:
    frame = bytearray(encode_reading(CLOCK, 1, 2, 5))
    frame[-1] ^= 1
    with pytest.raises(InvalidArgumentError):
        decode_reading(frame)


def test_messages_are_no_readings() -> None:
    messages = [
        Heartbeat(sender=1, to=2, term=3, commit=4),
        AppendReply(sender=1, to=2, term=3, index=4, accepted=True, hint_index=0, hint_term=0),
        *(Append(1, 2, 3, 0, 0, 0, [Entry(1, 3, 0, b"x" * size)]) for size in range(40)),
    ]
    assert not any(is_reading(b"".join(encode_frame([(1, message)]))) for message in messages)
