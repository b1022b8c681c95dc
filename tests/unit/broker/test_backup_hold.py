"""The hold of a backup: what waits for it, what does not, and how it ends."""

import pytest

from flotilla.broker.backup_hold import HOLD_MS_MAX
from flotilla.codec.batch.records import encode_batch
from flotilla.types.dead_letters import dead_letter_topic
from flotilla.types.operations import CommitOffset, HoldSettlements, Produce, ReadLog
from flotilla.types.operations.backup import LogRead, SettlementsHeld
from flotilla.types.operations.queue import REJECT, Settled
from flotilla.types.operations.transactions import CommitTransaction, Stage, Staged
from flotilla.types.records import Record
from tests.unit.broker.fleet import Node, single_node
from tests.unit.broker.queue_driver import GROUP, TOPIC, poll, polled, settle, store


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    return node


def hold(node: Node, hold_ms: int = 1_000, hold_id: str = "backup") -> str:
    answer = node.call(HoldSettlements(hold_id, hold_ms))
    return "held" if answer.result == SettlementsHeld(1, True) else answer.code


def last_index(node: Node, topic: str = TOPIC) -> int:
    read = node.call(ReadLog(topic, 0)).result
    assert isinstance(read, LogRead)
    return read.last_index


def test_settlements_wait_and_messages_flow(node: Node) -> None:
    store(node, b"one")
    message = polled(node, poll(1))
    assert hold(node) == "held"
    before = last_index(node)
    acked = node.call(settle(message))
    committed = node.call(CommitOffset("readers", TOPIC, 0, 1))
    assert acked.is_waiting
    assert committed.is_waiting
    assert last_index(node) == before
    assert node.call(Produce(TOPIC, 0, encode_batch([Record(b"two")]))).code == "Produced"
    assert len(polled(node, poll(1))) == 1
    assert node.call(HoldSettlements("backup", 0)).result == SettlementsHeld(1, True)
    node.fleet.settle()
    assert acked.result == Settled([])
    assert committed.code == "OffsetCommitted"


def test_transactions_are_not_decided(node: Node) -> None:
    staged = node.call(Stage(TOPIC, 0, "t", encode_batch([Record(b"staged")], producer_id=9))).result
    assert isinstance(staged, Staged)
    assert hold(node) == "held"
    before = last_index(node, "")
    committed = node.call(CommitTransaction("t", [(TOPIC, 0)], begun_ms=staged.begun_ms))
    assert committed.is_waiting
    assert last_index(node, "") == before
    node.call(HoldSettlements("backup", 0))
    node.fleet.settle()
    assert committed.code == "TransactionDecided"


def test_a_dead_letter_is_not_marked_as_buried(node: Node) -> None:
    store(node, b"poison")
    message = polled(node, poll(1))
    node.call(settle(message, REJECT, "bad"))
    assert hold(node, 2_000) == "held"
    group = node.partition(TOPIC).machine.groups[GROUP]
    node.fleet.advance(1_500)
    assert node.partition(dead_letter_topic(GROUP, TOPIC)).machine.next_offset == 1, "the letter is there"
    assert group.dying
    node.fleet.advance(1_000)
    assert not group.dying


def test_a_hold_ends_by_itself(node: Node) -> None:
    store(node, b"one")
    message = polled(node, poll(1))
    assert hold(node, 1_000) == "held"
    acked = node.call(settle(message))
    node.fleet.advance(999)
    assert acked.is_waiting
    node.fleet.advance(10)
    assert acked.result == Settled([])
    assert node.call(HoldSettlements("backup", 0)).result == SettlementsHeld(1, False), "it did not last"


def test_one_backup_holds_at_a_time(node: Node) -> None:
    assert hold(node) == "held"
    assert hold(node) == "held", "it may be repeated"
    assert hold(node, hold_id="another") == "UNAVAILABLE"
    assert node.call(HoldSettlements("another", 0)).result == SettlementsHeld(1, False)
    assert hold(node, HOLD_MS_MAX + 1) == "INVALID_ARGUMENT"


def test_a_node_that_stops_answers_what_it_held(node: Node) -> None:
    store(node, b"one")
    message = polled(node, poll(1))
    assert hold(node) == "held"
    acked = node.ask(settle(message))
    node.broker.close()
    assert acked.code == "UNAVAILABLE"
