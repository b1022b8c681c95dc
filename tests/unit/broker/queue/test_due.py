"""Many messages are due at once: waiters get them, although each turn of the loop processes a small part."""

import pytest

from flotilla.partition.leader import delays, due_cursor
from flotilla.types.operations.queue import Subscribe
from tests.unit.broker.fleet import Node, single_node
from tests.unit.broker.queue_driver import GROUP, TOPIC, deliveries, describe, poll, polled, store, values


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(delays, "_DUE_LIMIT", 3)
    monkeypatch.setattr(due_cursor, "_LOOKS_MAX", 5)
    monkeypatch.setattr(due_cursor, "_SKIPS_MAX", 1)
    node = single_node()
    node.fleet.create(TOPIC)
    return node


def test_a_waiting_poll_gets_what_the_node_finds_later(node: Node) -> None:
    """The first part that it looks at is for another time."""
    for number in range(30):
        store(node, b"later", deliver_at_ms=node.now_ms() + 60_000 + number)
    store(node, b"due", deliver_at_ms=node.now_ms())
    answer = node.call(poll(wait_ms=10_000))
    assert answer.is_waiting
    node.fleet.wait(lambda: not answer.is_waiting, 5_000)
    assert values(deliveries(answer)) == [b"due"]


def test_a_subscription_gets_all_that_comes_due_together(node: Node) -> None:
    due_ms = node.now_ms() + 1_000
    expected = [b"%d" % number for number in range(40)]
    for number, value in enumerate(expected):
        store(node, value, deliver_at_ms=due_ms - number)
    answer = node.call(Subscribe(TOPIC, GROUP, "a", 100))
    node.fleet.advance(500)
    assert deliveries(answer) == []
    node.fleet.advance(1_000)
    assert sorted(values(deliveries(answer))) == sorted(expected)


def test_catch_up_returns_whether_everything_is_processed(node: Node) -> None:
    for number in range(10):
        store(node, b"due", deliver_at_ms=node.now_ms() + 500 + number)
    queue = node.partition(TOPIC).queue()
    assert queue.catch_up()
    node.fleet.clock.now_ms += 1_000
    assert [queue.catch_up() for _ in range(5)] == [False, False, False, True, True]


def test_counts_follow_and_polls_that_do_not_wait_get_all(node: Node) -> None:
    for number in range(40):
        store(node, b"%d" % number, deliver_at_ms=node.now_ms() + 500 - number)
    node.fleet.advance(2_000)
    found = polled(node, poll(5))
    assert len(values(found)) == 5
    described = describe(node)
    assert (described.ready + described.delayed, described.leased) == (35, 5)
    node.fleet.advance(5_000)
    described = describe(node)
    assert (described.ready, described.delayed, described.leased) == (35, 0, 5)
    while brought := polled(node, poll(5)):
        found += brought
    assert sorted(map(int, values(found))) == list(range(40))
