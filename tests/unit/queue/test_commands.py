"""Commands of a partition survive their bytes, and are never taken for a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch import span_of
from flotilla.queue.commands import (
    CommitOffset,
    ConfigureDedup,
    DeleteGroup,
    StampTime,
    TrimTo,
    decode_command,
    encode_command,
)
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import InvalidArgumentError
from tests.unit.queue.batches import describe

U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(max_size=200).filter(lambda text: text.isascii())

COMMANDS = st.one_of(
    st.builds(StampTime, U64),
    st.builds(CommitOffset, NAMES, U64, U64, st.booleans(), st.binary(max_size=200)),
    st.builds(DeleteGroup, NAMES, U64),
    st.builds(TrimTo, U64, U64),
    st.builds(ConfigureDedup, U64, U64, U64),
)


@given(COMMANDS)
def test_what_was_encoded_is_decoded(command):
    data = encode_command(command)
    assert decode_command(data) == command
    assert decode_command(memoryview(data)) == command


@given(COMMANDS)
def test_no_command_looks_like_a_batch(command):
    data = encode_command(command)
    assert describe(data) is None
    assert span_of(Entry(1, 1, DATA, data)) is None


def test_a_commit_forged_to_be_a_batch_is_still_a_command():
    """Metadata is the consumer's to choose: the fields of a batch header behind the head change nothing."""
    length = 32 + 1 + 95
    forged = length.to_bytes(4, "little") * 23 + b"FLF"
    data = encode_command(CommitOffset("g", length, 1, metadata=forged))
    assert len(data) == length
    assert describe(data) is None
    assert isinstance(decode_command(data), CommitOffset)


@pytest.mark.parametrize(
    "command",
    [
        StampTime(5),
        CommitOffset("group", 7, 5, True, b"meta"),
        DeleteGroup("group", 5),
        TrimTo(9, 5),
        ConfigureDedup(1000, 60000, 5),
    ],
)
def test_damaged_bytes_are_refused(command):
    data = encode_command(command)
    for cut in range(len(data)):
        with pytest.raises(InvalidArgumentError):
            decode_command(data[:cut])
    for at, value in ((0, 99), (1, 99), (30, 0), (31, 0)):
        damaged = bytearray(data)
        damaged[at] = value
        with pytest.raises(InvalidArgumentError):
            decode_command(bytes(damaged))
    with pytest.raises(InvalidArgumentError):
        decode_command(data + b"x")


@given(st.binary(max_size=100))
def test_any_bytes_give_a_command_or_an_error(data):
    for body in (data, b"\x01\x02" + data, encode_command(TrimTo(1, 1))[:30] + data):
        try:
            decode_command(body)
        except InvalidArgumentError:
            pass


def test_the_bytes_are_recorded():
    """Written by an older version, read by a newer one: these bytes never change."""
    command = CommitOffset("workers", 42, 1_700_000_000_000, True, b"m")
    assert encode_command(command).hex() == (
        "01020700010001000068e5cf8b0100002a000000000000000000000000005143776f726b6572736d"
    )
