"""Endings of messages are replicated: the same under any leader, and bounded."""

from flotilla.partition.commands.byte_reader import ByteReader, pack_count
from flotilla.partition.commands.partition_commands import BuryDeaths, CancelRecords, TrimTo
from flotilla.partition.explain import delivery_states as states
from flotilla.partition.state import endings
from flotilla.partition.state.endings import ACKED, DEAD, ENDING_RUNS_MAX, TRIMMED_RUNS_MAX, End, Endings
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.group_snapshot import encode_queue, freeze_queue, read_queues
from flotilla.types.operations.queue import ACK, FAIL, REJECT
from tests.unit.partition.leading import GROUP, Leading


def explained(here: Leading, offset: int) -> tuple[str, int, str]:
    found = here.explain(offset)
    return found.state, found.attempts, found.reason


def test_the_next_leader_distinguishes_endings_too() -> None:
    here = Leading()
    here.append(5)
    acked, failing, dead = here.poll(1), here.poll(1), here.poll(1)
    here.settle(acked, kind=ACK)
    here.settle(failing, kind=FAIL, reason="once", delay_ms=0)
    here.settle(dead, kind=REJECT, reason="no good")
    here.flush()
    here.settle(here.poll(1), kind=ACK)
    here.flush()
    here.log.command(CancelRecords((3,), here.now_ms))
    assert here.state(2) == states.DYING
    here.log.command(BuryDeaths(GROUP, 1, here.now_ms))
    for _ in range(2):
        assert explained(here, 0) == (states.ACKED, 0, "")
        assert explained(here, 1) == (states.ACKED, 1, "once")
        assert explained(here, 2) == (states.DEAD, 1, "no good")
        assert explained(here, 3) == (states.CANCELLED, 0, "")
        assert explained(here, 4) == (states.READY, 0, "")
        here.change_leader()


def test_an_acked_message_stays_acked_when_it_is_cancelled() -> None:
    here = Leading()
    here.append(1)
    here.settle(here.poll(1), kind=ACK)
    here.flush()
    here.log.command(CancelRecords((0,), here.now_ms))
    assert here.state(0) == states.ACKED


def test_endings_of_trimmed_messages_are_dropped() -> None:
    here = Leading()
    here.append(3)
    here.settle(here.poll(3), kind=REJECT)
    here.flush()
    here.log.command(BuryDeaths(GROUP, 3, here.now_ms))
    here.log.command(TrimTo(2, here.now_ms))
    assert [here.state(offset) for offset in range(3)] == [states.SETTLED, states.SETTLED, states.DEAD]
    here.reset(2)
    assert here.state(2) == states.READY


def test_only_what_was_not_settled_is_trimmed() -> None:
    here = Leading()
    here.append(4)
    here.settle(here.poll(1), kind=ACK)
    here.flush()
    here.log.command(CancelRecords((2,), here.now_ms))
    here.log.command(TrimTo(4, here.now_ms))
    for _ in range(2):
        assert [here.state(offset) for offset in range(4)] == [
            states.SETTLED,
            states.TRIMMED,
            states.SETTLED,
            states.TRIMMED,
        ]
        here.change_leader()
    assert read_back(here.log.machine.groups[GROUP]).endings.trimmed == here.log.machine.groups[GROUP].endings.trimmed


def read_back(state: GroupState) -> GroupState:
    data = pack_count(1) + b"".join(encode_queue(GROUP, freeze_queue(state)))
    return read_queues(ByteReader(data))[GROUP]


def test_the_newest_runs_of_trimmed_messages_are_remembered() -> None:
    kept = Endings()
    kept.trim(2 * TRIMMED_RUNS_MAX + 2, [(2 * number, 2 * number + 1) for number in range(TRIMMED_RUNS_MAX + 1)])
    assert len(kept.trimmed) == TRIMMED_RUNS_MAX
    assert not kept.trimmed.contains(0)
    assert kept.trimmed.contains(2)
    assert kept.trimmed.contains(2 * TRIMMED_RUNS_MAX)


def test_scattered_ends_are_bounded_and_the_oldest_are_forgotten() -> None:
    kept = Endings()
    for number in range(ENDING_RUNS_MAX + 1):
        kept.note(2 * number, 2 * number + 1, End(DEAD, 1, "x"))
    assert len(kept.runs) == ENDING_RUNS_MAX // 2 + 1
    assert kept.known_from == ENDING_RUNS_MAX
    kept.note(0, 1, End(DEAD))
    assert kept.runs.get(0) is None
    assert kept.runs.get(2 * ENDING_RUNS_MAX) == End(DEAD, 1, "x")


def test_neighbours_of_one_kind_are_one() -> None:
    kept = Endings()
    for offset in range(1_000):
        kept.note(offset, offset + 1, End(endings.CANCELLED))
    assert len(kept.runs) == 1


def test_a_snapshot_holds_them() -> None:
    group = GroupState(0, 1)
    group.fail(2, 3, 0, "late")
    group.end(2, 3, ACKED)
    group.end(5, 7, endings.EXPIRED)
    group.die(8, 9, "dead", 77)
    group.endings.known_from = 1
    read = read_back(group)
    assert list(read.endings.runs) == list(group.endings.runs)
    assert read.endings.known_from == 1
    assert read.endings.runs.get(2) == End(ACKED, 1, "late")
    assert read.endings.runs.get(8) == End(DEAD, 1, "dead", 77)
