"""Reads of results at the leader: answered when a message ends, when the time is over, or when the term is."""

import pytest

from flotilla.types.errors import InvalidArgumentError, NotLeaderError
from flotilla.types.limits import RESULT_ANSWER_BYTES_MAX, RESULT_BYTES_MAX, RESULT_WAIT_COUNT_MAX
from flotilla.types.operations.queue import (
    ACK,
    FAIL,
    REJECT,
    CancelRecords,
    EndedMessage,
    LeaseRange,
    MessageResult,
    ReadResults,
    ResultsRead,
    Settle,
    Settled,
)
from tests.unit.broker.fleet import Node, single_node, three
from tests.unit.broker.queue_driver import GROUP, TOPIC, poll, polled, store


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    return node


def read(*offsets: int, wait_ms: int = 0, group: str = GROUP) -> ReadResults:
    return ReadResults(TOPIC, 0, group, list(offsets), wait_ms)


def ack(node: Node, *results: MessageResult, count: int = 1) -> None:
    (delivery,) = polled(node, poll(count))
    leases = [LeaseRange(delivery.lease_id, delivery.first, delivery.first + delivery.count)]
    settled = node.call(Settle(TOPIC, 0, GROUP, ACK, leases, results=list(results))).result
    assert settled == Settled()


def test_a_result_is_read_as_often_as_you_like(node: Node) -> None:
    store(node, b"a")
    ack(node, MessageResult(0, b"4"))
    for _ in range(2):
        assert node.call(read(0)).result == ResultsRead([EndedMessage(0, "acked", b"4")])


def test_a_read_waits_for_the_first_message_that_ends(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    waiting = node.ask(read(2, 1, 0, wait_ms=60_000))
    assert waiting.is_waiting
    ack(node, MessageResult(1, b"one"), count=2)
    node.fleet.settle()
    assert waiting.result == ResultsRead([EndedMessage(1, "acked", b"one"), EndedMessage(0, "acked")])


def test_a_read_may_come_before_the_group(node: Node) -> None:
    store(node, b"a")
    waiting = node.ask(read(0, wait_ms=60_000))
    ack(node, MessageResult(0, b"4"))
    node.fleet.settle()
    assert waiting.result == ResultsRead([EndedMessage(0, "acked", b"4")])


def test_a_wait_is_over_without_an_end(node: Node) -> None:
    store(node, b"a")
    assert node.call(read(0)).result == ResultsRead([])
    waiting = node.ask(read(0, wait_ms=1_000))
    node.fleet.advance(1_000)
    assert waiting.result == ResultsRead([])


def test_a_death_and_a_cancellation_answer(node: Node) -> None:
    store(node, b"a", b"b")
    first, second = node.ask(read(0, wait_ms=60_000)), node.ask(read(1, wait_ms=60_000))
    (delivery,) = polled(node, poll(1))
    node.call(Settle(TOPIC, 0, GROUP, REJECT, [LeaseRange(delivery.lease_id, 0, 1)], "bad"))
    node.call(CancelRecords(TOPIC, 0, [1]))
    node.fleet.settle()
    assert first.result == ResultsRead([EndedMessage(0, "dead", reason="bad", attempts=1)])
    assert second.result == ResultsRead([EndedMessage(1, "cancelled")])


def test_a_new_leader_has_the_result_and_the_old_one_sends_its_callers_there() -> None:
    fleet = three()
    old = fleet.create(TOPIC)
    store(old, b"a", b"b")
    waiting = old.ask(read(1, wait_ms=60_000))
    ack(old, MessageResult(0, b"4"))
    fleet.isolate(old.node)
    fleet.wait(lambda: not waiting.is_waiting)
    assert isinstance(waiting.result, NotLeaderError)
    new = fleet.leader(TOPIC)
    assert new is not old
    assert new.call(read(0)).result == ResultsRead([EndedMessage(0, "acked", b"4")])


def test_an_answer_is_bounded(node: Node) -> None:
    """The rest comes with the next read."""
    count = RESULT_ANSWER_BYTES_MAX // RESULT_BYTES_MAX + 2
    store(node, *[b"x"] * count)
    for offset in range(count):
        ack(node, MessageResult(offset, bytes(RESULT_BYTES_MAX)))
    found = node.call(read(*range(count))).result
    assert isinstance(found, ResultsRead)
    assert [ended.offset for ended in found.ended] == list(range(count - 2))


def test_bad_requests_change_nothing(node: Node) -> None:
    store(node, b"a", b"b")
    (delivery,) = polled(node, poll(1))
    leases = [LeaseRange(delivery.lease_id, 0, 1)]
    bad = (
        Settle(TOPIC, 0, GROUP, FAIL, leases, results=[MessageResult(0)]),
        Settle(TOPIC, 0, GROUP, ACK, leases, results=[MessageResult(1)]),
        Settle(TOPIC, 0, GROUP, ACK, leases, results=[MessageResult(0), MessageResult(0)]),
        Settle(TOPIC, 0, GROUP, ACK, leases, results=[MessageResult(0, bytes(RESULT_BYTES_MAX + 1))]),
        read(),
        read(*range(RESULT_WAIT_COUNT_MAX + 1)),
        read(0, group="a/b"),
    )
    for request in bad:
        assert isinstance(node.call(request).result, InvalidArgumentError)
    assert node.call(read(0)).result == ResultsRead([])
