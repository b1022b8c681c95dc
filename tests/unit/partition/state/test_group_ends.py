"""Ends of groups: a reader that knew a group before its deletion commits nothing for the next one of its name."""

import pytest

from flotilla.partition.commands.partition_commands import (
    ClaimPartition,
    CommitOffset,
    DeleteGroup,
    EndGroup,
    OpenGroup,
)
from flotilla.partition.queries import GroupPosition, Position
from flotilla.partition.state import group_ends
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import FlotillaError, InvalidArgumentError, StaleGenerationError
from tests.unit.partition.batches import Log, describe, new_log


@pytest.fixture
def log() -> Log:
    log = new_log()
    log.append(count=10)
    return log


def commit(log: Log, as_of: int, group: str = "g", offset: int = 5, *, reset: bool = False) -> object:
    return log.command(CommitOffset(group, offset, 1, reset, as_of=as_of))


def refused(log: Log, as_of: int, group: str = "g") -> FlotillaError | None:
    return log.machine.check(CommitOffset(group, 5, 1, as_of=as_of))


def restored(log: Log) -> Log:
    machine = PartitionMachine(describe)
    machine.restore(log.machine.snapshot())
    assert machine.snapshot() == log.machine.snapshot()
    return Log(machine, log.index)


def test_only_positions_from_before_the_end_are_refused(log: Log) -> None:
    before = log.machine.read(GroupPosition("g"))
    commit(log, 0, offset=4)
    assert log.command(EndGroup("g", 1)) is True
    end = log.index
    for each in (log, restored(log)):
        for reset in (False, True):
            late = commit(each, before.as_of, reset=reset)  # type: ignore[attr-defined]
            assert isinstance(late, StaleGenerationError)
            assert "'g' was deleted" in str(late)
        assert each.machine.positions == {}
        assert isinstance(commit(each, end - 1), StaleGenerationError)
        assert isinstance(commit(each, end, offset=2), Position)
        # It stays refused after the group was made anew.
        assert isinstance(commit(each, end - 1), StaleGenerationError)
        assert each.machine.positions["g"].offset == 2


@pytest.mark.parametrize(
    "command", [CommitOffset("g", 4, 1), ClaimPartition("g", 3, 1), OpenGroup("g", 0, 1), CommitOffset("other", 4, 1)]
)
def test_the_end_of_a_group_of_any_kind_is_remembered(log: Log, command: CommitOffset) -> None:
    log.command(command)
    assert log.command(EndGroup("g", 1)) is (command.group == "g")
    assert isinstance(refused(log, log.index - 1), StaleGenerationError)
    assert refused(log, log.index) is None


def test_others_and_commits_that_say_nothing_are_not_concerned(log: Log) -> None:
    commit(log, 0)
    log.command(EndGroup("g", 1))
    assert refused(log, 1, "h") is None
    assert refused(log, 0) is None


def test_an_invalid_name_is_not_remembered(log: Log) -> None:
    assert isinstance(log.command(EndGroup("a b", 1)), InvalidArgumentError)
    assert not log.machine._all_groups.ends


def test_behind_the_names_that_are_remembered_no_position_of_before_counts(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_ends, "GROUP_COUNT_MAX", 2)
    at = {}
    for name in ("a", "b", "a", "c"):
        log.command(EndGroup(name, 1))
        at[name] = log.index
    for each in (log, restored(log)):
        # The end of b is forgotten: whoever read before it is refused, whatever the group.
        for name in ("a", "b", "other"):
            assert isinstance(refused(each, at["b"] - 1, name), StaleGenerationError)
        assert refused(each, at["b"], "b") is None
        assert refused(each, at["b"], "other") is None
        assert isinstance(refused(each, at["a"] - 1, "a"), StaleGenerationError)


def test_without_ends_a_snapshot_has_the_layout_of_earlier_programs(log: Log) -> None:
    commit(log, 0)
    log.command(DeleteGroup("g", 1))
    assert log.machine.snapshot()[0] == 6
    log.command(EndGroup("g", 1))
    assert log.machine.snapshot()[0] == 7
