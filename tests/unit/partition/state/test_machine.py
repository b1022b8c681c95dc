"""One partition: appends, positions, trimming, snapshots."""

import pytest

from flotilla.partition.commands.partition_commands import (
    BuryDeaths,
    CancelRecords,
    CommitOffset,
    ConfigureDedup,
    DeadRun,
    DeleteGroup,
    FailedRun,
    GroupSettlement,
    OpenGroup,
    ReserveTokens,
    ResetGroup,
    SettleRuns,
    StampTime,
    TrimTo,
    encode_command,
)
from flotilla.partition.queries import (
    DescribePartition,
    GroupPosition,
    ListGroups,
    ListPositions,
    PartitionFacts,
    Position,
    PositionFound,
    StateHash,
)
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.producers import Duplicate
from flotilla.raft.messages import DATA, Entry
from flotilla.replica.ports import StateMachine
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    GroupModeError,
    InvalidArgumentError,
    NotFoundError,
    OffsetOutOfRangeError,
    OverloadedError,
    UnknownEntryError,
)
from flotilla.types.limits import CANCEL_COUNT_MAX, REASON_BYTES_MAX
from flotilla.types.topics import COMMIT_METADATA_BYTES_MAX, GROUP_COUNT_MAX
from tests.unit.partition.batches import batch, describe, new_log


def busy():
    """A partition with something in every table."""
    log = new_log(entries_max=4)
    log.append(count=3, producer=1, time_ms=50)
    log.append(count=2, keys=[b"once", b""])
    log.command(StampTime(1_000))
    for sequence in range(3):
        log.append(producer=2, epoch=1, sequence=sequence, priority=sequence, deliver_at_ms=sequence // 2 * 9_000)
    log.append(producer=2, epoch=2, time_ms=40, priority=7)
    log.append(producer=3, priority=7)
    log.command(CommitOffset("b", 4, 1_500, metadata=b"\x00\xff"))
    log.command(CommitOffset("a", 2, 1_600))
    for name in ("workers", "readers"):
        log.command(OpenGroup(name, 0, 1_600))
    settlement = GroupSettlement(
        "workers",
        acked=((0, 1), (7, 8)),
        expired=((1, 2),),
        failed=(FailedRun(4, 6, 1_800, "late"), FailedRun(9, 10, 1_900, "broken")),
        dead=(DeadRun(5, 7, "broken"),),
    )
    log.command(SettleRuns(1_650, (settlement,)))
    log.command(CancelRecords((8,), 1_650))
    log.command(BuryDeaths("workers", 1, 1_650))
    log.command(ReserveTokens("workers", 1_700_000, 1_650))
    log.command(TrimTo(3, 1_700))
    log.command(ResetGroup("readers", 5, 1_700))
    return log


def test_the_machine_has_the_interface_that_a_replica_needs():
    machine: StateMachine = PartitionMachine(describe)
    assert machine.read(DescribePartition()) == PartitionFacts(0, 0, 0, 0, 0)


def test_appends_are_dense_and_counted():
    log = new_log()
    assert [log.append(count=3, time_ms=70), log.append(count=2, time_ms=60), log.append()] == [0, 3, 5]
    size_bytes = sum(len(batch(count=count)) for count in (3, 2, 1))
    assert log.machine.read(DescribePartition()) == PartitionFacts(0, 6, 70, 3, size_bytes)


@pytest.mark.parametrize("base_offset", [0, 2, 4])
def test_a_batch_in_the_wrong_place_is_a_broken_invariant(base_offset):
    log = new_log()
    log.append(count=3)
    with pytest.raises(AssertionError):
        log.apply(batch(base_offset))


def test_no_index_is_applied_twice():
    log = new_log()
    log.append()
    with pytest.raises(AssertionError):
        log.machine.apply(Entry(log.index, 1, DATA, batch(1)))
    restored = new_log().machine
    restored.restore(log.machine.snapshot())
    with pytest.raises(AssertionError):
        restored.apply(Entry(log.index, 1, DATA, batch(1)))


# Positions.


@pytest.mark.parametrize(
    ("offset", "reset", "stands"),
    [(4, False, 4), (5, False, 5), (10, False, 10), (3, False, 4), (0, False, 4), (3, True, 3), (0, True, 0)],
)
def test_a_position_moves_back_by_reset_only(offset, reset, stands):
    log = new_log()
    log.append(count=10)
    log.command(CommitOffset("g", 4, 100, metadata=b"first"))
    reply = log.command(CommitOffset("g", offset, 200, reset, b"second"))
    is_moved = stands == offset
    assert reply == Position(stands, 200 if is_moved else 100, b"second" if is_moved else b"first")
    assert log.machine.read(GroupPosition("g")) == PositionFound(reply, log.index)


def test_groups_are_apart_listed_by_name_and_deleted():
    log = busy()
    assert list(log.machine.read(ListPositions())) == ["a", "b"]
    assert log.command(DeleteGroup("a", 9_000)) == Position(2, 1_600)
    assert log.machine.read(GroupPosition("a")).position is None
    assert log.machine.read(GroupPosition("b")).position == Position(4, 1_500, b"\x00\xff")


# Trimming.


def test_the_start_moves_forward_only():
    log = new_log()
    log.append(count=10)
    assert [log.command(TrimTo(offset, 1)) for offset in (4, 2, 4, 10)] == [4, 4, 4, 10]
    assert log.machine.read(DescribePartition()).log_start == 10


# Totality.


def settling(**runs):
    return SettleRuns(5_000, (GroupSettlement("workers", **runs),))


BAD_COMMANDS = [
    (CommitOffset("g", 11, 5_000), OffsetOutOfRangeError),
    (CommitOffset("g", 11, 5_000, True), OffsetOutOfRangeError),
    (CommitOffset("", 1, 5_000), InvalidArgumentError),
    (CommitOffset("a b", 1, 5_000), InvalidArgumentError),
    (CommitOffset("..", 1, 5_000), InvalidArgumentError),
    (CommitOffset("g", 1, 5_000, metadata=b"x" * (COMMIT_METADATA_BYTES_MAX + 1)), InvalidArgumentError),
    (CommitOffset("g", 1, 2**63), InvalidArgumentError),
    (CommitOffset("workers", 1, 5_000), GroupModeError),
    (DeleteGroup("absent", 5_000), NotFoundError),
    (OpenGroup("a", 1, 5_000), GroupModeError),
    (OpenGroup("new", 11, 5_000), OffsetOutOfRangeError),
    (OpenGroup("workers", 11, 5_000), OffsetOutOfRangeError),
    (OpenGroup("a b", 1, 5_000), InvalidArgumentError),
    (OpenGroup("new", 1, 2**63), InvalidArgumentError),
    (ResetGroup("a", 1, 5_000), GroupModeError),
    (ResetGroup("absent", 1, 5_000), NotFoundError),
    (ResetGroup("workers", 11, 5_000), OffsetOutOfRangeError),
    (BuryDeaths("a", 0, 5_000), GroupModeError),
    (BuryDeaths("absent", 0, 5_000), NotFoundError),
    (BuryDeaths("workers", 3, 5_000), InvalidArgumentError),
    (ReserveTokens("absent", 1, 5_000), NotFoundError),
    (ReserveTokens("workers", 2**63, 5_000), InvalidArgumentError),
    (CancelRecords((3, 10), 5_000), OffsetOutOfRangeError),
    (CancelRecords((3,) * (CANCEL_COUNT_MAX + 1), 5_000), InvalidArgumentError),
    (settling(acked=((9, 10), (9, 11))), OffsetOutOfRangeError),
    (settling(acked=((9, 9),)), OffsetOutOfRangeError),
    (settling(acked=((9, 8),)), OffsetOutOfRangeError),
    (settling(expired=((9, 11),)), OffsetOutOfRangeError),
    (settling(dropped=((9, 11),)), OffsetOutOfRangeError),
    (settling(acked=((9, 10),), failed=(FailedRun(9, 11, 0, ""),)), OffsetOutOfRangeError),
    (settling(failed=(FailedRun(9, 10, 2**63, ""),)), InvalidArgumentError),
    (settling(failed=(FailedRun(9, 10, 0, "x" * (REASON_BYTES_MAX + 1)),)), InvalidArgumentError),
    (settling(dead=(DeadRun(9, 11, ""),)), OffsetOutOfRangeError),
    (settling(dead=(DeadRun(9, 10, "é" * (REASON_BYTES_MAX // 2 + 1)),)), InvalidArgumentError),
    (TrimTo(11, 5_000), OffsetOutOfRangeError),
    (ConfigureDedup(999, 60_000, 5_000), InvalidArgumentError),
    (ConfigureDedup(1_000, 59_999, 5_000), InvalidArgumentError),
]


@pytest.mark.parametrize(("command", "error"), BAD_COMMANDS)
def test_invalid_commands_are_refused_and_change_nothing(command, error):
    log = busy()
    before = _without_index(log.machine)
    assert type(log.machine.check(command)) is error
    reply = log.command(command)
    assert type(reply) is error
    assert reply.__traceback__ is None
    assert _without_index(log.machine) == before


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff" * 200, bytes(64), encode_command(TrimTo(1, 1))[:-1]])
def test_garbage_is_refused_and_changes_nothing(data):
    log = busy()
    before = _without_index(log.machine)
    assert isinstance(log.apply(data), FlotillaError)
    assert _without_index(log.machine) == before


@pytest.mark.parametrize(("at", "value"), [(0, 2), (1, 200)])
def test_an_entry_of_a_later_version_is_not_skipped(at, value):
    """Other replicas give it a meaning; the driver cuts this one off."""
    log = busy()
    later = bytearray(encode_command(TrimTo(1, 1)))
    later[at] = value
    before = _without_index(log.machine)
    with pytest.raises(UnknownEntryError):
        log.apply(bytes(later))
    assert _without_index(log.machine) == before


def test_the_number_of_groups_is_bounded():
    log = new_log()
    for number in range(GROUP_COUNT_MAX):
        log.command(CommitOffset(f"g{number}", 0, 1) if number % 2 else OpenGroup(f"g{number}", 0, 1))
    assert isinstance(log.command(CommitOffset("one-more", 0, 1)), OverloadedError)
    assert isinstance(log.command(OpenGroup("one-more", 0, 1)), OverloadedError)
    assert isinstance(log.command(CommitOffset("g1", 0, 1)), Position)
    assert log.command(OpenGroup("g0", 0, 1)) == 0


def test_an_unknown_question_is_refused():
    assert isinstance(new_log().machine.read("?"), InvalidArgumentError)


def _without_index(machine: PartitionMachine) -> bytes:
    """The snapshot but for the applied index, which moves with every entry."""
    data = machine.snapshot()
    return data[:1] + data[9:]


# Time and bounds.


def test_the_clock_never_goes_back():
    log = new_log(window_ms=1_000)
    log.append(producer=1)
    log.command(StampTime(5_000))
    log.command(StampTime(100))
    assert log.machine.clock_ms == 5_000
    log.command(StampTime(6_000))
    assert len(log.machine.producers) == 0


def test_stamps_alone_move_the_clock():
    """The others carry the time of a leader that no majority may have confirmed."""
    log = new_log(window_ms=1_000)
    log.append(producer=1)
    log.command(StampTime(5_000))
    log.command(CommitOffset("g", 1, 6_000))
    assert log.machine.clock_ms == 5_000
    assert len(log.machine.producers) == 1


def test_bounds_of_the_window_come_through_the_log():
    log = new_log()
    assert log.command(ConfigureDedup(1_000, 60_000, 1)) is None
    assert (log.machine.producers.entries_max, log.machine.producers.window_ms) == (1_000, 60_000)


# Snapshots.


def test_a_snapshot_holds_everything():
    log = busy()
    data = log.machine.snapshot()
    restored = new_log(entries_max=9, window_ms=9)
    restored.index = log.index
    restored.machine.restore(data)
    assert restored.machine.snapshot() == data
    for query in (DescribePartition(), ListPositions(), ListGroups(), StateHash()):
        assert restored.machine.read(query) == log.machine.read(query)
    # Both go on alike: batches leave the window in the same order, and the same priority goes on.
    for sequence in range(1, 6):
        log.append(producer=3, sequence=sequence, priority=7)
        restored.append(producer=3, sequence=sequence, priority=7)
        assert restored.machine.snapshot() == log.machine.snapshot()
    assert restored.machine.producers.check(3, 0, 5, 1) == Duplicate(log.machine.next_offset - 1)


def test_a_snapshot_keeps_epochs_apart():
    log = new_log()
    for sequence in range(3):
        log.append(producer=1, sequence=sequence)
    log.append(producer=1, epoch=1)
    restored = new_log().machine
    restored.restore(log.machine.snapshot())
    assert restored.producers.check(1, 1, 0, 1) == Duplicate(3)


def test_batches_leave_the_window_in_their_order_also_after_a_snapshot():
    log = new_log(entries_max=3)
    for producer, sequence in ((2, 0), (1, 0), (2, 1)):
        log.append(producer=producer, sequence=sequence)
    restored = new_log().machine
    restored.restore(log.machine.snapshot())
    assert list(restored.producers.ring) == [2, 1, 2]


def test_nothing_restores_the_beginning():
    log = busy()
    log.machine.restore(b"")
    assert log.machine.snapshot() == new_log(entries_max=4).machine.snapshot()


def test_a_damaged_snapshot_is_refused_and_changes_nothing():
    log = busy()
    data = log.machine.snapshot()
    for damaged in (*(data[:cut] for cut in range(1, len(data))), data + b"x", b"\x63" + data[1:]):
        with pytest.raises(CorruptionError):
            log.machine.restore(damaged)
        assert log.machine.snapshot() == data


@pytest.mark.parametrize(("is_named", "is_known", "log_start"), [(False, False, 4), (True, False, 1), (True, True, 4)])
def test_a_trim_spares_groups_that_came_since_it_was_decided(is_named: bool, is_known: bool, log_start: int) -> None:
    log = new_log()
    for _ in range(5):
        log.append()
    before = log.machine.applied
    assert log.command(OpenGroup("g", 1, 1)) == 1
    known = log.machine.applied if is_known else before
    assert log.command(TrimTo(4, 1, known if is_named else 0)) == log_start
    assert log.machine.groups["g"].floor == log_start
