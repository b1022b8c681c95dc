"""Commands of stream groups survive their bytes, and what the machine makes of them."""

from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.metadata.commands import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    InitCluster,
    RegisterBroker,
    decode_command,
    encode_command,
)
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.stream_commands import (
    FenceStreamGroup,
    ForgetStreamGroup,
    JoinStreamGroup,
    ReleasePartitions,
    RemoveStreamMembers,
)
from flotilla.types.errors import CorruptionError, GroupInUseError, InvalidArgumentError, NotFoundError
from flotilla.types.operations.stream import Owned

U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
COMMANDS = st.one_of(
    st.builds(JoinStreamGroup, U64, TEXT, TEXT, TEXT, TEXT, U64, U64),
    st.builds(RemoveStreamMembers, U64, TEXT, st.lists(TEXT, max_size=4).map(tuple), st.booleans(), U64),
    st.builds(ReleasePartitions, U64, TEXT, TEXT, U64, st.lists(U64, max_size=4).map(tuple), U64),
    st.builds(FenceStreamGroup, U64, TEXT, U64),
    st.builds(ForgetStreamGroup, U64, TEXT, st.booleans(), U64),
)
EXAMPLES = [
    (20, JoinStreamGroup(3, "g", "m", "c", "sticky", 300, 5), "030167016d016306737469636b79ac02"),
    (21, RemoveStreamMembers(3, "g", ("m", "n"), True, 5), "03016702016d016e01"),
    (22, ReleasePartitions(3, "g", "m", 300, (1, 2), 5), "030167016dac02020102"),
    (23, FenceStreamGroup(3, "g", 5), "030167"),
    (24, ForgetStreamGroup(3, "g", True, 5), "03016701"),
]


@pytest.mark.parametrize(("kind", "command", "fields"), EXAMPLES)
def test_the_bytes_are_recorded(kind, command, fields):
    """Written by an older version, read by a newer one: these bytes never change."""
    head = f"01{kind:02x}" + "00" * 6 + "0500000000000000" + "00" * 14 + "4d44"
    assert encode_command(command).hex() == head + fields
    assert decode_command(bytes.fromhex(head + fields)) == command


@given(COMMANDS)
def test_commands_come_out_as_they_went_in(command):
    assert decode_command(encode_command(command)) == command


@given(COMMANDS, st.data())
def test_truncated_bytes_are_refused(command, data):
    encoded = encode_command(command)
    with pytest.raises(InvalidArgumentError):
        decode_command(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


class Log:
    def __init__(self):
        self.machine = MetadataMachine()
        self.index = 0
        self.apply(InitCluster("c", "c", (1,), 1))
        self.apply(RegisterBroker("c", 1, "a:1", "a:2", "", "", "1", 0, 0, 1))
        self.topic = self.apply(CreateTopic("t", 4, 1, (), 1))

    def apply(self, command):
        self.index += 1
        return self.machine.apply(SimpleNamespace(index=self.index, data=encode_command(command)))

    def join(self, member):
        return self.apply(JoinStreamGroup(self.topic.topic_id, "g", member, "c", "", 0, self.index))

    @property
    def group(self):
        return self.machine.state.streams.find(self.topic.topic_id, "g")


def test_members_share_the_partitions_of_a_topic():
    log = Log()
    log.join("a")
    log.join("b")
    released = log.apply(ReleasePartitions(log.topic.topic_id, "g", "a", 2, (2, 3), 9))
    assert released.assignments() == {"a": [Owned(0, 1), Owned(1, 1)], "b": [Owned(2, 3), Owned(3, 3)]}
    log.apply(RemoveStreamMembers(log.topic.topic_id, "g", ("a",), True, 9))
    assert log.group.cause == "a fell silent"
    log.apply(RemoveStreamMembers(log.topic.topic_id, "g", ("b",), False, 9))
    assert log.group.cause == "b left"


def test_a_topic_that_grows_shares_out_more():
    log = Log()
    log.join("a")
    log.apply(AlterTopic("t", (), (), 6, 9))
    assert [owned.partition for owned in log.group.assignments()["a"]] == [0, 1, 2, 3, 4, 5]


def test_a_topic_that_is_deleted_takes_its_groups_along():
    log = Log()
    log.join("a")
    log.apply(DeleteTopic("t", 0, 9))
    assert log.group is None
    assert isinstance(log.join("a"), NotFoundError)


@pytest.mark.parametrize(
    "command",
    [
        JoinStreamGroup(1, "g", "", "c", "", 0, 5),
        JoinStreamGroup(1, "g", "m", "c", "best", 0, 5),
        JoinStreamGroup(1, "g", "m", "c", "", 5, 5),
        JoinStreamGroup(1, "a b", "m", "c", "", 0, 5),
    ],
)
def test_invalid_commands_are_refused_and_change_nothing(command):
    log = Log()
    before = log.machine.state.streams.topics.copy()
    assert isinstance(log.machine.check(command), InvalidArgumentError)
    assert isinstance(log.apply(command), InvalidArgumentError)
    assert log.machine.state.streams.topics == before


def test_a_snapshot_holds_the_groups():
    log = Log()
    for member in ("a", "b", "c"):
        log.join(member)
    restored = MetadataMachine()
    restored.restore(log.machine.snapshot())
    assert restored.state.streams.topics == log.machine.state.streams.topics
    assert restored.snapshot() == log.machine.snapshot()


def test_a_snapshot_that_is_cut_short_is_not_read():
    log = Log()
    log.join("a")
    snapshot = log.machine.snapshot()
    for size in range(1, len(snapshot)):
        with pytest.raises(CorruptionError):
            MetadataMachine().restore(snapshot[:size])


@pytest.mark.parametrize("kind", [FenceStreamGroup, partial(ForgetStreamGroup, is_forced=False)])
def test_only_a_group_without_members_is_fenced_or_forgotten(kind):
    log = Log()
    command = kind(log.topic.topic_id, "g", now_ms=5)
    assert isinstance(log.apply(command), NotFoundError)
    for name in "abcde":
        log.join(name)
    before = log.group
    assert isinstance(log.machine.check(command), GroupInUseError)
    assert str(log.apply(command)) == "group 'g' has 5 live members, to leave first: a, b, c and 2 more"
    assert log.group is before


def test_a_fence_is_a_generation_that_no_member_ever_has():
    log = Log()
    log.join("a")
    log.apply(RemoveStreamMembers(log.topic.topic_id, "g", ("a",), False, 9))
    fenced = log.apply(FenceStreamGroup(log.topic.topic_id, "g", 9))
    assert (fenced.generation, fenced.members) == (3, ())
    assert log.join("b").assignments() == {"b": [Owned(number, 4) for number in range(4)]}


def test_a_group_that_was_forgotten_and_is_founded_again_never_repeats_an_epoch():
    log = Log()
    log.join("a")
    log.apply(RemoveStreamMembers(log.topic.topic_id, "g", ("a",), False, 9))
    assert log.apply(ForgetStreamGroup(log.topic.topic_id, "g", False, 9)) is None
    assert log.group is None
    assert log.join("a").assignments() == {"a": [Owned(number, 3) for number in range(4)]}


def test_a_group_with_members_is_forgotten_by_force_and_never_repeats_an_epoch():
    log = Log()
    assert isinstance(log.apply(ForgetStreamGroup(log.topic.topic_id, "g", True, 9)), NotFoundError)
    log.join("a")
    generation = log.join("b").generation
    assert log.apply(ForgetStreamGroup(log.topic.topic_id, "g", True, 9)) is None
    assert log.group is None
    assert log.join("a").assignments() == {"a": [Owned(number, generation + 1) for number in range(4)]}
