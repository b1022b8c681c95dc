"""The bytes of commands and of a snapshot never change: logs and data directories of earlier versions hold them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flotilla.partition.commands.partition_commands import (
    AckedResult,
    BuryDeaths,
    CancelRecords,
    ChangeHolders,
    ClaimPartition,
    Command,
    CommitOffset,
    ConcludeStage,
    ConfigureDedup,
    DeadRun,
    DeleteGroup,
    DeliverNow,
    DropStage,
    EndGroup,
    FailedRun,
    GroupSettlement,
    OpenGroup,
    ReserveTokens,
    ResetGroup,
    SettleRuns,
    StageBatch,
    StageSettlement,
    StampTime,
    TrimTo,
    decode_command,
    encode_command,
)
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import CorruptionError, FlotillaError
from tests.unit.partition.batches import Log, batch, describe, new_log
from tests.unit.partition.state.test_transactions import stage, store_again

FULL = GroupSettlement(
    "workers",
    acked=((1, 2), (4, 9)),
    expired=((2, 3),),
    failed=(FailedRun(10, 12, 99, "late"), FailedRun(12, 13, 98, "")),
    dead=(DeadRun(20, 21, "late"),),
    dropped=((22, 24),),
    generation=6,
)
COMMANDS: list[Command] = [
    StampTime(5),
    CommitOffset("group", 7, 5),
    CommitOffset("group", 7, 5, True, b"meta", 300),
    ClaimPartition("group", 300, 5),
    DeleteGroup("grüppe", 5),
    TrimTo(9, 5),
    TrimTo(9, 5, 8),
    ConfigureDedup(1000, 60_000, 5),
    OpenGroup("group", 7, 5, 3, 2**40 + 1),
    SettleRuns(5, (FULL, GroupSettlement("other", acked=((0, 1),)))),
    BuryDeaths("group", 3, 5),
    ResetGroup("group", 7, 5, 2**40 + 9),
    CancelRecords((3, 4, 2**40), 5),
    ReserveTokens("group", 2**41, 5),
    StageBatch("tx-1", b"any bytes", 5),
    DropStage("tx-1", 5),
    StageSettlement("tx-1", GroupSettlement("group", acked=((1, 2), (4, 9)), generation=6), 5),
    ConcludeStage("tx-1", 5),
    SettleRuns(5, (GroupSettlement("group", acked=((1, 3),), results=(AckedResult(2, 60_000, b"answer"),)),)),
    ChangeHolders("group", 6, 5, ("", "müller"), ("gone",)),
    DeliverNow((3, 2**40), 5, "group"),
    EndGroup("grüppe", 5),
    CommitOffset("group", 7, 5, True, b"meta", 300, 2**40),
]
RECORDED = Path(__file__).with_name("recorded_bytes.hex")


def recorded() -> list[bytes]:
    """The commands, then the snapshot of an earlier layout, and the present one."""
    return [bytes.fromhex(part) for part in RECORDED.read_text().split("\n\n")]


def full_log() -> Log:
    """Every table has rows."""
    log = new_log(entries_max=6, window_ms=10_000)
    for sequence in range(3):
        log.append(producer=1, epoch=2, sequence=sequence, time_ms=10 + sequence)
    log.append(count=4, producer=2, keys=[b"a", b"", b"b", b"c"], time_ms=20)
    log.append(count=5, priority=3, time_ms=21)
    log.append(count=3, deliver_at_ms=90_000, time_ms=22)
    log.append(count=2, priority=7, deliver_at_ms=80_000)
    accept(log, StampTime(1_000))
    for producer in (3, 4, 5, 6):
        log.append(count=2, producer=producer)
    log.append(producer=6, epoch=1)
    accept(log, CommitOffset("reader", 3, 1_001, metadata=b"meta"))
    accept(log, CommitOffset("alone", 2, 1_002))
    accept(log, ClaimPartition("stream", 4, 1_003))
    accept(log, OpenGroup("workers", 0, 1_010, 3, 2**40 + 1))
    accept(log, ClaimPartition("deleted", 5, 1_010))
    accept(log, DeleteGroup("deleted", 1_010))
    accept(log, OpenGroup("audit", 2, 1_011))
    accept(log, CancelRecords((5, 9), 1_012))
    settlement = GroupSettlement(
        "workers",
        acked=((0, 2), (6, 8)),
        expired=((2, 3),),
        failed=(FailedRun(3, 5, 2_000, "late"), FailedRun(10, 11, 2_100, "")),
        dead=(DeadRun(11, 13, "broken"),),
        dropped=((13, 14),),
    )
    accept(log, SettleRuns(1_020, (settlement, GroupSettlement("audit", acked=((4, 6),)))))
    results = (AckedResult(3, 9_000, b"answer"), AckedResult(8, 0, b""))
    accept(log, SettleRuns(1_021, (GroupSettlement("workers", acked=((3, 4), (8, 9)), results=results),)))
    accept(log, ReserveTokens("audit", 77_000, 1_022))
    accept(log, BuryDeaths("workers", 1, 1_023))
    accept(log, ChangeHolders("workers", log.machine.groups["workers"].generation, 1_024, ("", "one"), ("two",)))
    accept(log, TrimTo(1, 1_500, 0))
    for sequence in range(2):
        accept(log, StageBatch("done", batch(producer=9, sequence=sequence), 1_600))
    workers = log.machine.groups["workers"].generation
    acks = GroupSettlement("workers", acked=((14, 15), (16, 18)), generation=workers)
    accept(log, StageSettlement("done", acks, 1_601))
    for _ in range(2):
        store_again(log, "done")
    accept(log, DropStage("dropped", 1_602))
    stage(log, "half", 0, count=2)
    stage(log, "half", 2)
    acks = GroupSettlement("workers", acked=((19, 20),), generation=workers)
    accept(log, StageSettlement("waiting", acks, 1_603))
    store_again(log, "half", priority=2)
    return log


def accept(log: Log, command: Command) -> None:
    result = log.command(command)
    assert not isinstance(result, FlotillaError), (command, result)


@pytest.mark.parametrize("at", range(len(COMMANDS)))
def test_the_bytes_of_commands_are_recorded(at: int) -> None:
    data = recorded()[at]
    assert encode_command(COMMANDS[at]) == data
    assert decode_command(data) == COMMANDS[at]


def test_the_example_fills_every_table() -> None:
    machine = full_log().machine
    workers = machine.groups["workers"]
    for table in (
        machine.positions,
        machine.fences,
        machine._all_groups.ended_fences,
        machine.producers.producers,
        machine.producers.idle,
        machine.producers.marks,
        machine.keys,
        machine.cancelled,
        machine.index.delayed_firsts,
        machine.stored.ends,
        machine.transactions.open,
        machine.transactions.ended,
        machine.transactions.held,
        machine.results.kept,
        machine.results.unkept,
        workers.settled,
        workers.failures,
        workers.dying,
        workers.endings.runs,
        workers.holders,
    ):
        assert len(table) > 0


def log_with_ends() -> Log:
    log = full_log()
    for name in ("alone", "absent"):
        accept(log, EndGroup(name, 1_700))
    log.machine._all_groups.ends.floor = 3
    return log


@pytest.mark.parametrize(("at", "made"), [(-2, full_log), (-1, log_with_ends)])
def test_the_bytes_of_a_snapshot_are_recorded(at: int, made: Callable[[], Log]) -> None:
    data = recorded()[at]
    assert made().machine.snapshot() == data
    restored = PartitionMachine(describe)
    restored.restore(data)
    assert restored.snapshot() == data


def test_snapshots_that_were_changed_or_cut_short_are_read_or_refused() -> None:
    data = recorded()[-1]
    for at in range(1, len(data)):
        with pytest.raises(CorruptionError):
            PartitionMachine(describe).restore(data[:at])
        for value in (0x00, 0x7F, 0xFF):
            try:
                PartitionMachine(describe).restore(data[:at] + bytes((value,)) + data[at + 1 :])
            except CorruptionError:
                pass
