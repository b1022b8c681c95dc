"""Results of acked messages: stored with the ack, forgotten in time and by size, and what is known of them then."""

import pytest

from flotilla.partition.commands.partition_commands import (
    AckedResult,
    DeadRun,
    DeleteGroup,
    GroupSettlement,
    OpenGroup,
    ResetGroup,
    SettleRuns,
    StageSettlement,
    StampTime,
    TrimTo,
    decode_command,
    encode_command,
)
from flotilla.partition.explain.ended_message import ended_message
from flotilla.partition.state import results
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.results import OVERHEAD_BYTES, Unkept
from flotilla.types.errors import FlotillaError
from flotilla.types.limits import RESULT_BYTES_MAX
from tests.unit.partition.batches import Log, batch, describe, new_log

G = "g"


@pytest.fixture
def log() -> Log:
    log = new_log()
    log.apply(batch(0, count=10))
    log.command(OpenGroup(G, 0, 1))
    return log


def ack(log: Log, *found: AckedResult, group: str = G, generation: int = 0) -> None:
    acked = tuple([(result.offset, result.offset + 1) for result in found])
    settlement = GroupSettlement(group, acked=acked, results=found, generation=generation)
    answer = log.command(SettleRuns(1, (settlement,)))
    assert not isinstance(answer, FlotillaError), answer


def result(offset: int, payload: bytes = b"r", ttl_ms: int = 1_000) -> AckedResult:
    return AckedResult(offset, ttl_ms, payload)


def states(machine: PartitionMachine, *offsets: int) -> list[str]:
    return ["" if (found := ended_message(machine, G, each)) is None else found.state for each in offsets]


def test_the_first_result_of_a_message_stays(log: Log) -> None:
    ack(log, result(3, b"first"))
    ack(log, result(3, b"second"))
    found = ended_message(log.machine, G, 3)
    assert found is not None
    assert (found.state, found.result) == ("acked", b"first")


def test_an_ack_that_does_not_settle_stores_nothing(log: Log) -> None:
    log.command(SettleRuns(1, (GroupSettlement(G, dead=(DeadRun(2, 3, "no"),)),)))
    ack(log, result(2))
    found = ended_message(log.machine, G, 2)
    assert found is not None
    assert (found.state, found.reason, found.attempts, found.result) == ("dead", "no", 1, b"")
    assert not log.machine.results.kept


def test_a_result_of_a_message_that_is_not_acked_is_ignored(log: Log) -> None:
    settlement = GroupSettlement(G, acked=((0, 1),), results=(result(5),))
    log.command(SettleRuns(1, (settlement,)))
    assert not log.machine.results.kept
    assert states(log.machine, 5) == [""]


def test_how_messages_end(log: Log) -> None:
    ack(log, result(0))
    log.command(SettleRuns(1, (GroupSettlement(G, acked=((1, 2),), expired=((2, 3),), dropped=((3, 4),)),)))
    assert states(log.machine, 0, 1, 2, 3, 4) == ["acked", "acked", "expired", "dropped", ""]
    absent = ended_message(log.machine, G, 10)
    assert absent is not None
    assert absent.state == ""
    assert ended_message(log.machine, "unopened", 0) is None
    log.command(OpenGroup("late", 5, 1))
    found = ended_message(log.machine, "late", 4)
    assert found is not None
    assert found.state == "settled"


def test_a_result_is_kept_for_its_time_from_the_next_stamp_on(log: Log) -> None:
    log.command(StampTime(5_000))
    ack(log, result(0))
    log.command(StampTime(7_000))
    log.command(StampTime(7_999))
    assert states(log.machine, 0) == ["acked"]
    log.command(StampTime(8_000))
    assert states(log.machine, 0) == ["forgotten"]
    assert log.machine.results.size_bytes == 0


def test_a_first_stamp_forgets_nothing(log: Log) -> None:
    """Log time is 0 before it, and all that came until then would be old."""
    ack(log, result(0))
    log.command(StampTime(1_700_000_000_000))
    assert states(log.machine, 0) == ["acked"]


def test_stamps_are_wanted_for_results_only(log: Log) -> None:
    table = log.machine.results
    assert not table.wants_stamp(10**9, 0)
    log.command(StampTime(5_000))
    ack(log, result(0, ttl_ms=160_000))
    assert not table.wants_stamp(14_999, 5_000)
    assert table.wants_stamp(15_000, 5_000)
    log.command(StampTime(15_000))
    assert not table.wants_stamp(174_999, 15_000)
    assert table.wants_stamp(175_000, 15_000)


def test_many_results_want_a_stamp_at_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp looks at each of them, which must not hold up the loop."""
    monkeypatch.setattr(results, "_FRESH_MAX", 3)
    log.command(StampTime(5_000))
    ack(log, result(0, ttl_ms=160_000), result(1, ttl_ms=160_000))
    assert not log.machine.results.wants_stamp(5_001, 5_000)
    ack(log, result(2, ttl_ms=160_000))
    copy = PartitionMachine(describe)
    copy.restore(log.machine.snapshot())
    assert log.machine.results.wants_stamp(5_001, 5_000)
    assert copy.results.wants_stamp(5_001, 5_000)
    log.command(StampTime(5_001))
    assert not log.machine.results.wants_stamp(5_002, 5_001)


def test_without_a_time_to_live_nothing_is_kept_but_that_there_was_a_result(log: Log) -> None:
    ack(log, result(0, b"", ttl_ms=0))
    assert not log.machine.results.kept
    assert states(log.machine, 0, 1) == ["forgotten", ""]


def test_the_oldest_go_when_there_are_too_many(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS_BYTES_MAX", 2 * (OVERHEAD_BYTES + 10))
    ack(log, result(4, bytes(10)), result(1, bytes(10)))
    assert states(log.machine, 1, 4) == ["acked", "acked"]
    ack(log, result(2, b""))
    assert states(log.machine, 1, 2, 4) == ["acked", "acked", "forgotten"]
    assert log.machine.results.size_bytes == 2 * OVERHEAD_BYTES + 10


def test_what_is_known_of_lost_results_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "UNKEPT_RUN_COUNT_MAX", 4)
    unkept = Unkept()
    for offset in (0, 2, 4, 6, 8):
        unkept.add(offset)
    assert (unkept.known_from, list(unkept.runs)) == (4, [(4, 5), (6, 7), (8, 9)])
    unkept.add(3)
    assert list(unkept.runs) == [(4, 5), (6, 7), (8, 9)]


@pytest.mark.parametrize("command", [ResetGroup(G, 0, 2), DeleteGroup(G, 2)])
def test_a_group_that_begins_anew_has_no_results(log: Log, command: ResetGroup | DeleteGroup) -> None:
    log.command(OpenGroup("other", 0, 1))
    ack(log, result(0), result(1, ttl_ms=0))
    ack(log, result(0), group="other")
    log.command(command)
    log.command(OpenGroup(G, 0, 2))
    assert states(log.machine, 0, 1) == ["", ""]
    assert log.machine.results.find("other", 0) == b"r"
    assert log.machine.results.size_bytes == OVERHEAD_BYTES + 1


def test_an_ack_from_before_a_reset_stores_nothing(log: Log) -> None:
    generation = log.machine.groups[G].generation
    log.command(ResetGroup(G, 0, 2))
    ack(log, result(0), generation=generation)
    assert states(log.machine, 0) == [""]


def test_a_trim_leaves_results_and_forgets_the_rest(log: Log) -> None:
    ack(log, result(0), result(1, ttl_ms=0))
    log.command(TrimTo(4, 2))
    assert states(log.machine, 0, 1, 2) == ["acked", "forgotten", "trimmed"]
    assert log.machine.results.unkept == {}


def test_results_are_in_the_snapshot(log: Log) -> None:
    log.command(OpenGroup("other", 0, 1))
    ack(log, result(3, b"three"))
    log.command(StampTime(5_000))
    ack(log, result(1, b"one"), result(2, ttl_ms=0))
    ack(log, result(1, b"else"), group="other")
    copy = PartitionMachine(describe)
    copy.restore(log.machine.snapshot())
    assert copy.snapshot() == log.machine.snapshot()
    assert list(copy.results.kept.items()) == list(log.machine.results.kept.items())
    assert copy.results.size_bytes == log.machine.results.size_bytes
    assert states(copy, 1, 2, 3) == ["acked", "forgotten", "acked"]
    for machine in (copy, log.machine):
        Log(machine, log.index).command(StampTime(6_000))
    assert states(copy, 1, 3) == states(log.machine, 1, 3) == ["acked", "forgotten"]


def test_commands_carry_results() -> None:
    groups = (
        GroupSettlement("a", acked=((0, 3),), results=(result(2, b"two", 0), result(0, b""))),
        GroupSettlement("b", acked=((7, 8),)),
        GroupSettlement("c", acked=((7, 8),), results=(result(7, b"seven"),)),
    )
    command = SettleRuns(5, groups)
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize("wrong", [result(0, bytes(RESULT_BYTES_MAX + 1)), result(10), result(0, ttl_ms=2**63)])
def test_bad_results_are_refused(log: Log, wrong: AckedResult) -> None:
    settlement = GroupSettlement(G, acked=((0, 1),), results=(wrong,))
    assert isinstance(log.command(SettleRuns(1, (settlement,))), FlotillaError)
    assert states(log.machine, 0) == [""]


def test_a_transaction_carries_no_results(log: Log) -> None:
    settlement = GroupSettlement(G, acked=((0, 1),), results=(result(0),))
    assert isinstance(log.command(StageSettlement("t", settlement, 1)), FlotillaError)
