"""Metadata commands survive their bytes, and are never taken for a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch.facts import span_of
from flotilla.metadata.commands import (
    AlterGroup,
    AlterTopic,
    CommitTogether,
    ConfirmRemoved,
    ConfirmTransaction,
    CreateOwnedTopic,
    CreateTopic,
    DecideTransaction,
    DeleteTopic,
    ForgetTransaction,
    InitCluster,
    LabelNode,
    RegisterBroker,
    RemoveBroker,
    SetBrokerState,
    SetClusterVersion,
    decode_command,
    encode_command,
)
from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.scheduling.commands import PauseSchedule, PutSchedule, RemoveSchedule, RunSchedule
from flotilla.metadata.scheduling.schedules import Plan
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import InvalidArgumentError

U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
IDS = st.lists(U64, max_size=5).map(tuple)
PAIRS = st.lists(st.tuples(TEXT, U64), max_size=4).map(tuple)

BYTES = st.binary(max_size=20)
PLANS = st.builds(
    Plan, TEXT, TEXT, U64, TEXT, U64, TEXT, U64, BYTES, BYTES,
    st.lists(st.tuples(TEXT, BYTES), max_size=2).map(tuple), U64, U64,
)  # fmt: skip

COMMANDS = st.one_of(
    st.builds(InitCluster, TEXT, TEXT, IDS, U64),
    st.builds(SetClusterVersion, U64, IDS, U64),
    st.builds(RegisterBroker, TEXT, U64, TEXT, TEXT, TEXT, TEXT, TEXT, U64, U64, U64),
    st.builds(SetBrokerState, U64, U64, U64),
    st.builds(RemoveBroker, U64, U64),
    st.builds(CreateTopic, TEXT, U64, U64, PAIRS, U64),
    st.builds(CreateOwnedTopic, TEXT, U64, U64, PAIRS, TEXT, U64),
    st.builds(AlterGroup, TEXT, TEXT, PAIRS, st.lists(TEXT, max_size=3).map(tuple), U64),
    st.builds(DecideTransaction, TEXT, TEXT, U64, st.lists(U64, max_size=3).map(tuple), st.booleans(), U64, TEXT, U64),
    st.builds(ConfirmTransaction, PAIRS, U64),
    st.builds(ForgetTransaction, TEXT, TEXT, U64),
    st.builds(CommitTogether, TEXT, TEXT, U64, st.lists(st.tuples(TEXT, IDS), max_size=3).map(tuple), U64, TEXT, U64),
    st.builds(AlterTopic, TEXT, PAIRS, st.lists(TEXT, max_size=3).map(tuple), U64, U64),
    st.builds(DeleteTopic, TEXT, U64, U64),
    st.builds(ConfirmRemoved, U64, IDS, U64),
    st.builds(PlanMoves, st.lists(st.tuples(U64, IDS), max_size=3).map(tuple), U64),
    st.builds(FinishMove, U64, U64, U64),
    st.builds(LabelNode, U64, TEXT, TEXT, U64),
    st.builds(SetIncarnation, U64, U64, st.booleans(), U64),
    st.builds(ConfirmLost, U64, U64, U64, U64),
    st.builds(ResizeTopic, TEXT, U64, U64),
    st.builds(PutSchedule, TEXT, U64, PLANS, U64, U64),
    st.builds(PauseSchedule, U64, st.booleans(), U64, U64),
    st.builds(RemoveSchedule, U64, U64),
    st.builds(RunSchedule, U64, U64, U64, st.booleans(), U64, TEXT, U64, U64, U64),
)

#: By kind.
EXAMPLES = {
    1: (InitCluster("c", "n", (1, 300), 5), "0163016e0201ac02"),
    2: (RegisterBroker("c", 1, "a:1", "a:2", "", "", "1", 7, 300, 5), "01630103613a3103613a320000013107ac02"),
    3: (SetBrokerState(1, 2, 5), "0102"),
    4: (RemoveBroker(1, 5), "01"),
    5: (CreateTopic("t", 3, 2, (("n", 7),), 5), "0174030201016e07"),
    6: (AlterTopic("t", (("n", 7),), ("m",), 4, 5), "017401016e0701016d04"),
    7: (DeleteTopic("t", 9, 5), "017409"),
    8: (ConfirmRemoved(1, (16, 17), 5), "01021011"),
    15: (DecideTransaction("x", "app", 3, (16, 17), True, 4, "u", 5), "0178036170700302101101040175"),
    12: (ConfirmTransaction((("x", 16),), 5), "01017810"),
    14: (ForgetTransaction("x", "app", 5), "017803617070"),
    16: (
        CommitTogether("x", "app", 3, (("y", (16, 17)), ("z", ())), 4, "u", 5),
        "01780361707003020179021011017a00040175",
    ),
    17: (CreateOwnedTopic("t", 3, 2, (("n", 7),), "u", 5), "0174030201016e070175"),
    25: (PlanMoves(((16, (1, 2)), (17, (3,))), 5), "0210020102110103"),
    26: (FinishMove(16, 7, 5), "1007"),
    27: (SetIncarnation(1, 300, True, 5), "01ac0201"),
    28: (ConfirmLost(16, 1, 300, 5), "1001ac02"),
    29: (ResizeTopic("t", 2, 5), "017402"),
    31: (SetClusterVersion(2, (1, 300), 5), "020201ac02"),
    32: (LabelNode(1, "m", "zz", 5), "01016d027a7a"),
    30: (AlterGroup("t", "g", (("n", 7), ("t", "x")), ("m",), 5), "0174016702016e0007017401017801016d"),
    40: (
        PutSchedule("n", 0, Plan("t", "c", 0, "z", 7, "one", 9, b"p", b"k", (("h", b"v"),), 1, 2), 300, 5),
        "016e00017401630" + "0017a07036f6e650901700" + "16b010168017601" + "02ac02",
    ),
    41: (PauseSchedule(1, True, 300, 5), "0101ac02"),
    42: (RemoveSchedule(1, 5), "01"),
    43: (RunSchedule(1, 2, 300, False, 301, "x", 16, 4, 5), "0102ac0200ad0201781004"),
}


@pytest.mark.parametrize(("kind", "example"), EXAMPLES.items())
def test_the_bytes_are_recorded(kind, example):
    """Written by an older version, read by a newer one: these bytes never change."""
    command, fields = example
    head = f"01{kind:02x}" + "00" * 6 + "0500000000000000" + "00" * 14 + "4d44"
    assert encode_command(command).hex() == head + fields
    assert decode_command(bytes.fromhex(head + fields)) == command


@given(COMMANDS)
def test_commands_survive_encoding(command):
    data = encode_command(command)
    assert decode_command(data) == command
    assert decode_command(memoryview(data)) == command


@given(COMMANDS)
def test_no_command_looks_like_a_batch(command):
    assert span_of(Entry(1, 1, DATA, encode_command(command))) is None


@pytest.mark.parametrize("command", [command for command, _ in EXAMPLES.values()])
def test_damaged_bytes_are_refused(command):
    data = encode_command(command)
    for bad in (*(data[:cut] for cut in range(len(data))), data + b"\x00"):
        with pytest.raises(InvalidArgumentError):
            decode_command(bad)
    for at, value in ((0, 99), (1, 99), (30, 0), (31, 0)):
        damaged = bytearray(data)
        damaged[at] = value
        with pytest.raises(InvalidArgumentError):
            decode_command(bytes(damaged))


@given(st.binary(max_size=80), st.integers(0, 10))
def test_any_bytes_give_a_command_or_an_error(data, kind):
    head = bytearray(encode_command(RemoveBroker(1, 5))[:32])
    head[1] = kind
    for body in (data, bytes(head) + data):
        try:
            decode_command(body)
        except InvalidArgumentError:
            pass


@pytest.mark.parametrize(
    "fields",
    [
        "80" * 10 + "01",  # An integer that does not end in time.
        "ff" * 9 + "7f",  # More than 64 bits.
        "ffffffff0f",  # A text longer than the entry.
        "0180",  # A text that is not UTF-8.
    ],
)
def test_lengths_and_integers_are_not_believed(fields):
    head = encode_command(DeleteTopic("t", 9, 5))[:32]
    with pytest.raises(InvalidArgumentError):
        decode_command(head + bytes.fromhex(fields))
