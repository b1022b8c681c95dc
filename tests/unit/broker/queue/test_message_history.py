"""The history of a message from the log: every step in order, read in pieces, within bounds, at any leader."""

from collections.abc import Callable

import pytest

from flotilla.broker.queue import history as history_reading
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.broker.queue.history import moment
from flotilla.broker.queue.requests import HISTORIES_MAX
from flotilla.broker.retention import LOOK_MS, RELEASE_MS
from flotilla.partition.explain.history import MessageHistory
from flotilla.storage.group_log import SegmentedLog
from flotilla.types.errors import CorruptionError, OverloadedError, UnavailableError
from flotilla.types.operations import AlterTopic
from flotilla.types.operations.queue import (
    FAIL,
    REJECT,
    AlterGroup,
    CancelRecords,
    DeleteGroup,
    ExplainMessage,
    Explanation,
    ResetGroup,
    Start,
)
from tests.unit.broker.fleet import Answer, Node, single_node, three
from tests.unit.broker.queue_driver import GROUP, TOPIC, ack, poll, polled, settle, store

WHY = ExplainMessage(TOPIC, 0, 0, GROUP, has_history=True)


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    return node


def explained(answer: Answer) -> Explanation:
    result = answer.result
    assert isinstance(result, Explanation), result
    return result


def why(node: Node, offset: int = 0) -> list[str]:
    return explained(node.call(ExplainMessage(TOPIC, 0, offset, GROUP, has_history=True))).history


def texts(lines: list[str]) -> list[str]:
    """Without the times, which are in order."""
    times = [line.partition("Z ")[0] for line in lines]
    assert times == sorted(times)
    assert all(len(time) == len("1970-01-01T00:16:40.000") for time in times)
    return [line.partition("Z ")[2] for line in lines]


def fail_thrice(node: Node) -> None:
    """Two nacks, and a lease that runs out."""
    for reason in ("no stock", "no money"):
        node.call(settle(polled(node), FAIL, reason, delay_ms=0))
        node.fleet.advance(1_000)
    assert polled(node, poll(visibility_ms=5_000))
    node.fleet.advance(70_000)


THRICE = [
    "stored (by its own timestamp)",
    "the group was opened at offset 0",
    "attempt 1 of 5 failed: no stock",
    "attempt 2 of 5 failed: no money",
    "attempt 3 of 5 failed: lease expired",
]


def test_every_step_up_to_the_ack(node: Node) -> None:
    stored_ms = node.now_ms()
    store(node, b"a")
    fail_thrice(node)
    ack(node, polled(node))
    lines = why(node)
    assert lines[0] == f"{moment(stored_ms)} stored (by its own timestamp)"
    lines[4] = lines[4].partition("; not again before ")[0]
    assert texts(lines) == [*THRICE, "acknowledged"]


def test_every_step_up_to_the_dead_letters(node: Node) -> None:
    store(node, b"a")
    fail_thrice(node)
    node.call(settle(polled(node), REJECT, "never"))
    node.fleet.advance(5_000)
    assert texts(why(node))[-2:] == ["attempt 4 was the last: never", "copied to the dead-letter topic"]


def test_a_delay_a_reset_and_a_cancellation(node: Node) -> None:
    store(node, b"now")
    due_ms = node.now_ms() + 60_000
    store(node, b"later", deliver_at_ms=due_ms)
    ack(node, polled(node))
    assert why(node, 1)[0].endswith(f"stored (by its own timestamp), to be delivered at {moment(due_ms)}")
    node.fleet.advance(1_000)
    node.call(ResetGroup(TOPIC, 0, GROUP, Start()))
    node.fleet.advance(1_000)
    node.call(CancelRecords(TOPIC, 0, [0]))
    assert texts(why(node))[2:] == [
        "acknowledged",
        "the group was reset to offset 0: the message is unsettled, and attempts count from 0",
        "cancelled",
    ]


def test_the_next_leader_returns_the_same_history() -> None:
    fleet = three()
    fleet.create(TOPIC)
    old = fleet.leader(TOPIC)
    store(old, b"a")
    fail_thrice(old)
    first = why(old)
    fleet.kill(old.node)
    fleet.wait(lambda: any(box is not old and is_serving(box) for box in fleet.nodes.values()))
    (new,) = [box for box in fleet.nodes.values() if box is not old and is_serving(box)]
    assert why(new) == first


def is_serving(box: Node) -> bool:
    return box.partition(TOPIC).replica.is_serving()


def test_a_restart_forgets_nothing(node: Node) -> None:
    store(node, b"a")
    fail_thrice(node)
    first = why(node)
    node.fleet.kill(1)
    node.fleet.restart(1)
    assert why(node.fleet.leader(TOPIC)) == first


# Pieces and bounds.


@pytest.fixture
def long(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A message with much behind it, and a log that is read one entry in a turn."""
    monkeypatch.setattr(history_reading, "PIECE_BYTES", 1)
    store(node, b"a")
    fail_thrice(node)
    for _ in range(20):
        store(node, b"b")
    return node


def test_pieces_make_one_story(long: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = long.ask(WHY)
    assert answer.is_waiting
    assert answer.cancel is not None
    long.fleet.settle()
    in_pieces = explained(answer).history
    answer.cancel()
    assert texts(in_pieces)[: len(THRICE) - 1] == THRICE[:-1]
    assert len(in_pieces) == len(THRICE)
    monkeypatch.setattr(history_reading, "PIECE_BYTES", 1 << 20)
    at_once = long.ask(WHY)
    assert explained(at_once).history == in_pieces
    assert at_once.cancel is None


def ask_and_hold(node: Node, monkeypatch: pytest.MonkeyPatch) -> tuple[Answer, Callable[[], None]]:
    """The first piece is read; what is returned lets the others be read."""
    held: list[Callable[[], None]] = []

    def hold(_: PartitionQueue, action: Callable[[], None]) -> Callable[[], None]:
        held.append(action)
        return held.clear

    def let_go() -> None:
        monkeypatch.undo()
        held.pop()()
        node.fleet.settle()

    monkeypatch.setattr(history_reading, "PIECE_BYTES", 1)
    monkeypatch.setattr(PartitionQueue, "next_turn", hold)
    answer = node.ask(WHY)
    assert answer.is_waiting
    return answer, let_go


def test_the_history_includes_events_during_the_read(long: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, let_go = ask_and_hold(long, monkeypatch)
    long.call(CancelRecords(TOPIC, 0, [0]))
    let_go()
    assert explained(answer).state == "cancelled"
    assert explained(answer).history[-1].endswith(" cancelled")


@pytest.mark.parametrize(("bound", "value"), [("READ_ENTRIES_MAX", 4), ("READ_BYTES_MAX", 300)])
def test_the_history_names_its_bound_and_ends_with_the_state(
    long: Node, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(history_reading, bound, value)
    lines = why(long)
    assert texts(lines[:2]) == THRICE[:2]
    assert "entries of the log were read: later steps are known from the present state only" in lines[-2]
    assert lines[-1] == "attempt 3 of 5 failed: lease expired"


def test_nothing_is_left_of_a_cancelled_fetch(long: Node) -> None:
    armed = long.fleet.clock.armed_count
    answer = long.ask(WHY)
    assert long.fleet.clock.armed_count == armed + 1
    assert answer.cancel is not None
    answer.cancel()
    assert long.fleet.clock.armed_count == armed
    answer.cancel()
    long.fleet.advance(1_000)
    assert answer.is_waiting


def test_a_group_that_is_deleted_meanwhile(long: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, let_go = ask_and_hold(long, monkeypatch)
    long.call(DeleteGroup(TOPIC, 0, GROUP))
    let_go()
    assert answer.code == "NOT_FOUND"


def test_a_log_that_is_shortened_meanwhile(long: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, let_go = ask_and_hold(long, monkeypatch)
    replica = long.partition(TOPIC).replica
    replica.log.compact(replica.applied, replica.raft.log.term(replica.applied - 1))
    let_go()
    assert "the log was trimmed while it was read" in explained(answer).history[-2]


def test_a_leader_that_is_replaced_meanwhile_returns_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = three()
    fleet.create(TOPIC)
    leader = fleet.leader(TOPIC)
    store(leader, b"a")
    fail_thrice(leader)
    answer, let_go = ask_and_hold(leader, monkeypatch)
    leader.transfer(leader.partition(TOPIC).group, leader.node % 3 + 1)
    fleet.wait(lambda: not is_serving(leader))
    let_go()
    assert answer.code == "NOT_LEADER"


def test_another_term_of_the_same_leader_has_nothing_to_answer(long: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader that was asked is no more, and with it everything that it remembered."""
    answer, let_go = ask_and_hold(long, monkeypatch)
    host = long.partition(TOPIC)
    host.close(UnavailableError("moved away"))
    assert host.queue() is not None
    let_go()
    assert answer.code == "NOT_LEADER"


# What cannot be read.


def damaged(*_: object) -> list[object]:
    raise CorruptionError("a bad sector")


def test_damage_after_the_message_is_reported(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    store(node, b"a")
    fail_thrice(node)
    monkeypatch.setattr(SegmentedLog, "entries", damaged)
    lines = explained(node.ask(WHY)).history
    assert "bad sector" in lines[1]
    assert lines[2:] == ["attempt 3 of 5 failed: lease expired"]


def test_damage_at_the_message_is_reported(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    store(node, b"a")
    fail_thrice(node)
    monkeypatch.setattr(SegmentedLog, "read_from_offset", damaged)
    lines = explained(node.ask(WHY)).history
    assert "bad sector" in lines[0]
    assert lines[1:] == ["attempt 3 of 5 failed: lease expired"]


def test_a_message_whose_time_cannot_be_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    store(node, b"a")
    polled(node)
    monkeypatch.setattr(type(node.partition(TOPIC).queue().reader), "time_ms", damaged)
    assert explained(node.ask(WHY)).history[0] == "stored"


def test_a_message_that_was_trimmed(node: Node) -> None:
    store(node, b"a")
    node.call(settle(polled(node), FAIL, "first", delay_ms=0))
    store(node, b"b")
    node.call(settle(polled(node), FAIL, "second", delay_ms=0))
    node.call(AlterGroup(TOPIC, GROUP, {"holds_retention": "0"}))
    node.call(AlterTopic(TOPIC, settings={"retention_messages": "1"}))
    node.fleet.advance(2 * LOOK_MS)
    assert texts(why(node))[-1] == "retention removed it"
    node.fleet.advance(2 * RELEASE_MS)
    assert node.partition(TOPIC).replica.log.first_index() > 3
    found = explained(node.call(WHY))
    assert found.state == "trimmed"
    assert found.history[0] == "the log begins after it: earlier steps are unknown"
    assert "an attempt failed: second" in found.history[1]
    assert found.history[-1] == "retention or a trim removed it before the group had settled it"


def test_few_histories_are_read_at_once(long: Node) -> None:
    answers = [long.ask(WHY) for _ in range(HISTORIES_MAX)]
    assert all(answer.is_waiting for answer in answers)
    assert isinstance(long.ask(WHY).result, OverloadedError)
    # A cancelled one leaves its place to another.
    assert answers[0].cancel is not None
    answers[0].cancel()
    last = long.ask(WHY)
    assert last.is_waiting
    long.fleet.settle()
    assert all(explained(answer) for answer in (*answers[1:], last))
    assert long.ask(WHY).is_waiting


def test_without_history_the_log_is_not_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    store(node, b"a", max_deliveries=2)
    node.call(settle(polled(node), FAIL, "why", delay_ms=60_000))
    monkeypatch.delattr(MessageHistory, "add")
    found = explained(node.ask(ExplainMessage(TOPIC, 0, 0, GROUP, has_record=True)))
    assert found.batch
    assert found.history == explained(node.ask(ExplainMessage(TOPIC, 0, 0, GROUP))).history
    assert found.history == ["attempt 1 of 2 failed: why"]


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_790_000_000_007, "2026-09-21T14:13:20.007Z"), (2**62, f"{2**62} ms")],
)
def test_moments(time_ms: int, text: str) -> None:
    assert moment(time_ms) == text
