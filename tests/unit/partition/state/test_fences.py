"""The fence of a stream group: a member that lost its partition cannot commit there any more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.partition.commands.partition_commands import (
    ClaimPartition,
    CommitOffset,
    DeleteGroup,
    OpenGroup,
    TrimTo,
    decode_command,
    encode_command,
)
from flotilla.partition.queries import GroupPosition, ListGroups, Position
from flotilla.partition.state import group_table
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import (
    GroupModeError,
    InvalidArgumentError,
    NotFoundError,
    OffsetOutOfRangeError,
    OverloadedError,
    StaleGenerationError,
)
from flotilla.types.operations.stream import NO_OFFSET
from flotilla.types.topics import GROUP_COUNT_MAX
from tests.unit.partition.batches import Log, describe, new_log


@pytest.fixture
def log():
    log = new_log()
    log.append(count=10)
    return log


def offset(log, group="g"):
    position = log.machine.read(GroupPosition(group)).position
    return None if position is None else position.offset


def test_a_claim_returns_the_position(log):
    assert log.command(ClaimPartition("g", 3, 1)) == NO_OFFSET
    log.command(CommitOffset("g", 4, 2, epoch=3))
    assert log.command(ClaimPartition("g", 5, 3)) == 4
    assert log.command(ClaimPartition("g", 5, 4)) == 4


@pytest.mark.parametrize(
    ("epoch", "reset", "is_taken"),
    [
        (5, False, True),
        (6, False, True),
        (4, False, False),
        (0, False, False),
        (4, True, False),
        (5, True, True),
        (0, True, True),
    ],
)
def test_only_the_owner_commits(log, epoch, reset, is_taken):
    log.command(CommitOffset("g", 4, 1, epoch=2))
    log.command(ClaimPartition("g", 5, 2))
    command = CommitOffset("g", 6, 3, reset, epoch=epoch)
    refused = log.machine.check(command)
    reply = log.command(command)
    assert (refused is None) == is_taken
    assert isinstance(reply, Position if is_taken else StaleGenerationError)
    assert offset(log) == (6 if is_taken else 4)


def test_a_commit_raises_the_fence_too(log):
    log.command(CommitOffset("g", 4, 1, epoch=7))
    assert isinstance(log.command(CommitOffset("g", 5, 1, epoch=6)), StaleGenerationError)
    assert isinstance(log.command(ClaimPartition("g", 6, 1)), StaleGenerationError)
    # Also one below the committed offset: its sender owns the partition.
    log.command(CommitOffset("g", 1, 1, epoch=8))
    assert (offset(log), log.machine.fences) == (4, {"g": 8})


def test_a_reset_by_hand_leaves_the_fence(log):
    log.command(CommitOffset("g", 4, 1, epoch=7))
    log.command(CommitOffset("g", 1, 1, True))
    assert (offset(log), log.machine.fences) == (1, {"g": 7})
    assert isinstance(log.command(CommitOffset("g", 5, 1, epoch=6)), StaleGenerationError)


def test_groups_are_fenced_apart(log):
    log.command(ClaimPartition("g", 5, 1))
    assert isinstance(log.command(CommitOffset("h", 5, 1, epoch=1)), Position)
    assert isinstance(log.command(CommitOffset("manual", 5, 1)), Position)
    assert log.machine.fences == {"g": 5, "h": 1}


def test_a_deleted_group_is_forgotten_with_its_fence(log):
    log.command(ClaimPartition("g", 5, 1))
    assert log.command(DeleteGroup("g", 1)) is None
    assert isinstance(log.command(DeleteGroup("g", 1)), NotFoundError)
    log.command(CommitOffset("g", 5, 1, epoch=9))
    assert isinstance(log.command(DeleteGroup("g", 1)), Position)
    assert log.machine.fences == {}


def test_a_member_of_a_deleted_group_does_not_move_the_next_one(log):
    log.command(CommitOffset("g", 4, 1, epoch=5))
    log.command(DeleteGroup("g", 1))
    restored = Log(PartitionMachine(describe), log.index)
    restored.machine.restore(log.machine.snapshot())
    for each in (log, restored):
        for late in (
            CommitOffset("g", 5, 1, epoch=5),
            CommitOffset("g", 5, 1, True, epoch=4),
            ClaimPartition("g", 5, 1),
        ):
            refused = each.command(late)
            assert isinstance(refused, StaleGenerationError)
            assert "was deleted" in str(refused)
        assert each.machine.read(ListGroups()) == {}
        assert each.command(ClaimPartition("g", 6, 1)) == NO_OFFSET
        assert isinstance(each.command(CommitOffset("g", 2, 1, epoch=6)), Position)
        # Others are not concerned, and neither is who commits without an epoch.
        assert isinstance(each.command(CommitOffset("h", 2, 1, epoch=1)), Position)
    assert log.machine.snapshot() == restored.machine.snapshot()


def test_as_many_deleted_groups_are_remembered_as_a_partition_may_have(log, monkeypatch):
    monkeypatch.setattr(group_table, "GROUP_COUNT_MAX", 3)
    for epoch, name in enumerate(("a", "b", "a", "c", "d"), 1):
        log.command(ClaimPartition(name, epoch, 1))
        log.command(DeleteGroup(name, 1))
    late = {name: log.machine.check(ClaimPartition(name, 1, 1)) for name in "abcd"}
    assert [name for name, refused in late.items() if refused is None] == ["b"]


def test_a_name_belongs_to_one_kind_of_group(log):
    log.command(OpenGroup("queue", 0, 1))
    log.command(ClaimPartition("stream", 1, 1))
    assert isinstance(log.command(ClaimPartition("queue", 1, 1)), GroupModeError)
    assert isinstance(log.command(OpenGroup("stream", 0, 1)), GroupModeError)
    assert log.machine.read(ListGroups()) == {"queue": "queue", "stream": "offset"}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (ClaimPartition("g", 0, 1), InvalidArgumentError),
        (ClaimPartition("g", 2**63, 1), InvalidArgumentError),
        (ClaimPartition("a b", 1, 1), InvalidArgumentError),
        (CommitOffset("g", 1, 1, epoch=2**63), InvalidArgumentError),
        (CommitOffset("g", 11, 1, epoch=1), OffsetOutOfRangeError),
    ],
)
def test_invalid_commands_change_nothing(log, command, error):
    before = log.machine.fences.copy()
    assert isinstance(log.command(command), error)
    assert (log.machine.fences, offset(log)) == (before, None)


def test_fences_count_as_groups(log):
    for number in range(GROUP_COUNT_MAX):
        log.machine.fences[f"g{number}"] = 1
    assert isinstance(log.command(ClaimPartition("one-more", 1, 1)), OverloadedError)
    assert isinstance(log.command(CommitOffset("one-more", 1, 1)), OverloadedError)
    assert log.command(ClaimPartition("g7", 2, 1)) == NO_OFFSET


def test_a_snapshot_holds_the_fences(log):
    log.command(ClaimPartition("b", 5, 1))
    log.command(CommitOffset("a", 3, 1, epoch=4))
    log.command(TrimTo(2, 1))
    restored = PartitionMachine(describe)
    restored.restore(log.machine.snapshot())
    assert restored.fences == {"a": 4, "b": 5}
    assert restored.snapshot() == log.machine.snapshot()
    assert isinstance(restored.check(CommitOffset("b", 1, 1, epoch=4)), StaleGenerationError)


@given(st.text("abc", min_size=1, max_size=5), st.integers(1, 2**64 - 1), st.integers(0, 2**63), st.binary(max_size=9))
def test_commands_come_out_as_they_went_in(name, epoch, place, metadata):
    for command in (ClaimPartition(name, epoch, 7), CommitOffset(name, place, 7, True, metadata, epoch)):
        assert decode_command(encode_command(command)) == command


def test_a_commit_without_an_epoch_has_its_old_bytes():
    data = encode_command(CommitOffset("g", 1, 7, metadata=b"m"))
    assert len(data) == 32 + 1 + 1
    forged = bytearray(data + b"\0" * 4)
    forged[24] = 4
    with pytest.raises(InvalidArgumentError):
        decode_command(bytes(forged))
