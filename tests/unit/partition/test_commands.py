"""Commands of a partition survive their bytes, and are never taken for a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch.facts import span_of
from flotilla.partition.commands.partition_commands import (
    BuryDeaths,
    CancelRecords,
    CommitOffset,
    ConfigureDedup,
    DeadRun,
    DeleteGroup,
    DeliverNow,
    EndGroup,
    FailedRun,
    GroupSettlement,
    OpenGroup,
    ReserveTokens,
    ResetGroup,
    SettleRuns,
    StampTime,
    TrimTo,
    decode_command,
    encode_command,
)
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import InvalidArgumentError
from tests.unit.partition.batches import describe

U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(max_size=200).filter(lambda text: text.isascii())

RUNS = st.lists(st.tuples(U64, U64), max_size=5).map(tuple)
REASONS = st.text(st.characters(codec="utf-8"), max_size=20)

SETTLEMENTS = st.builds(
    GroupSettlement,
    group=NAMES,
    acked=RUNS,
    expired=RUNS,
    dropped=RUNS,
    failed=st.lists(st.builds(FailedRun, U64, U64, U64, REASONS), max_size=3).map(tuple),
    dead=st.lists(st.builds(DeadRun, U64, U64, REASONS), max_size=3).map(tuple),
    generation=U64,
)

COMMANDS = st.one_of(
    st.builds(OpenGroup, NAMES, U64, U64, U64, U64),
    st.builds(ResetGroup, NAMES, U64, U64, U64),
    st.builds(BuryDeaths, NAMES, U64, U64),
    st.builds(ReserveTokens, NAMES, U64, U64),
    st.builds(CancelRecords, st.lists(U64, max_size=9).map(tuple), U64),
    st.builds(DeliverNow, st.lists(U64, max_size=9).map(tuple), U64, NAMES),
    st.builds(SettleRuns, U64, st.lists(SETTLEMENTS, max_size=3).map(tuple)),
    st.builds(StampTime, U64),
    st.builds(CommitOffset, NAMES, U64, U64, st.booleans(), st.binary(max_size=200), U64, U64),
    st.builds(DeleteGroup, NAMES, U64),
    st.builds(EndGroup, NAMES, U64),
    st.builds(TrimTo, U64, U64),
    st.builds(ConfigureDedup, U64, U64, U64),
)


@given(COMMANDS)
def test_commands_survive_encoding(command):
    data = encode_command(command)
    assert decode_command(data) == command
    assert decode_command(memoryview(data)) == command


@given(COMMANDS)
def test_no_command_looks_like_a_batch(command):
    data = encode_command(command)
    assert describe(data) is None
    assert span_of(Entry(1, 1, DATA, data)) is None


def test_a_commit_forged_to_be_a_batch_is_still_a_command():
    """The consumer chooses the metadata: the fields of a batch header after the head change nothing."""
    length = 32 + 1 + 95
    forged = length.to_bytes(4, "little") * 23 + b"FLF"
    data = encode_command(CommitOffset("g", length, 1, metadata=forged))
    assert len(data) == length
    assert describe(data) is None
    assert isinstance(decode_command(data), CommitOffset)


FULL = GroupSettlement(
    "workers",
    acked=((1, 2), (4, 9)),
    expired=((2, 3),),
    failed=(FailedRun(10, 12, 99, "late"), FailedRun(12, 13, 98, "")),
    dead=(DeadRun(20, 21, "late"),),
    dropped=((22, 24),),
    generation=6,
)


@pytest.mark.parametrize(
    "command",
    [
        StampTime(5),
        CommitOffset("group", 7, 5, True, b"meta"),
        CommitOffset("group", 7, 5, as_of=3),
        DeleteGroup("group", 5),
        EndGroup("group", 5),
        TrimTo(9, 5),
        ConfigureDedup(1000, 60000, 5),
        OpenGroup("group", 7, 5),
        CancelRecords((3, 4), 5),
        SettleRuns(5, (FULL, GroupSettlement("other", acked=((0, 1),)))),
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


@pytest.mark.parametrize("at", range(16, 24))
def test_a_count_that_lies_is_refused(at):
    """How many groups or offsets there are stands in the head, and is no reason to work for long."""
    for command in (SettleRuns(5, (FULL,)), CancelRecords((3, 4), 5)):
        damaged = bytearray(encode_command(command))
        damaged[at] ^= 0x7F
        with pytest.raises(InvalidArgumentError):
            decode_command(bytes(damaged))


@given(st.data())
def test_a_garbled_body_gives_a_command_or_an_error(data):
    body = bytearray(encode_command(SettleRuns(5, (FULL, GroupSettlement("other", acked=((0, 1),))))))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(32, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_command(bytes(body))
    except InvalidArgumentError:
        pass


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
    assert encode_command(SettleRuns(1_700_000_000_000, (FULL,))).hex() == (
        "01070000000000000068e5cf8b0100000100000000000000c900000000005143060000000000000002000000010000000100"
        "00000200000001000000020000000700776f726b65727304006c617465000001000000000000000200000000000000040000"
        "0000000000090000000000000002000000000000000300000000000000160000000000000018000000000000000a00000000"
        "0000000c00000000000000630000000000000000000000000000000c000000000000000d0000000000000062000000000000"
        "000100000000000000140000000000000015000000000000000000000000000000"
    )
