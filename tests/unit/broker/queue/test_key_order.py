"""Order by key at a broker: a poll that waits gets past any number of messages of a stuck key."""

import pytest

from flotilla.partition.leader import key_order
from flotilla.types.errors import UnavailableError
from flotilla.types.operations.queue import AlterGroup, GroupReply, LeaveQueue
from tests.unit.broker.fleet import Node, single_node
from tests.unit.broker.queue_driver import GROUP, TOPIC, ack, deliveries, poll, polled, store, values


def test_a_waiting_poll_gets_past_a_stuck_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "BLOCKED_COUNT_MAX", 200)
    node = single_node()
    node.fleet.create(TOPIC, partitions=1)
    node.fleet.leader(TOPIC)
    store(node, *[b"stuck"] * 3_000, key=b"stuck")
    assert values(polled(node, poll(1, is_ordered_by_key=True))) == [b"stuck"]
    waiting = node.ask(poll(member="b", wait_ms=60_000, is_ordered_by_key=True))
    store(node, b"free", key=b"free")
    node.fleet.wait(lambda: not waiting.is_waiting)
    assert values(deliveries(waiting)) == [b"free"]


# A setting of the group.


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC, partitions=1)
    node.fleet.leader(TOPIC)
    return node


def settings(node: Node) -> dict[str, str]:
    reply = node.call(AlterGroup(TOPIC, GROUP, {})).result
    assert isinstance(reply, GroupReply)
    return reply.settings


def test_a_member_that_asks_for_order_sets_it_for_all(node: Node) -> None:
    store(node, b"1", b"2", key=b"k")
    # A poll that waits since before gets nothing out of order either.
    polled(node, poll(2, member="early"))
    waiting = node.ask(poll(member="early", wait_ms=60_000))
    node.call(LeaveQueue(TOPIC, GROUP, "early", 0))
    assert deliveries(waiting) == []
    waiting = node.ask(poll(member="without", wait_ms=60_000, group="others"))
    first = polled(node, poll(1, member="asks", is_ordered_by_key=True))
    assert values(first) == [b"1"]
    assert settings(node) == {"ordered": "1"}
    assert polled(node, poll(member="without")) == []
    ack(node, first)
    assert values(polled(node, poll(member="without"))) == [b"2"]
    # Other groups are not concerned.
    assert values(deliveries(waiting)) == [b"1", b"2"]


def test_a_poll_that_waits_since_before_keeps_to_the_order(node: Node) -> None:
    store(node, b"0", key=b"k")
    first = polled(node, poll(1, member="asks", is_ordered_by_key=True))
    node.call(AlterGroup(TOPIC, GROUP, {"ordered": ""}))
    node.fleet.advance(200)
    waiting = node.ask(poll(member="without", wait_ms=60_000))
    node.call(AlterGroup(TOPIC, GROUP, {"ordered": "1"}))
    node.fleet.advance(200)
    store(node, b"1", b"2", key=b"k")
    node.fleet.advance(200)
    assert deliveries(waiting) == []
    ack(node, first)
    node.fleet.wait(lambda: not waiting.is_waiting)
    assert values(deliveries(waiting)) == [b"1"]


def test_a_group_that_is_set_to_have_no_order_refuses_who_asks_for_it(node: Node) -> None:
    node.call(AlterGroup(TOPIC, GROUP, {"ordered": "0"}))
    node.fleet.advance(200)
    store(node, b"1", b"2", key=b"k")
    assert node.call(poll(is_ordered_by_key=True)).code == "GROUP_MODE"
    assert values(polled(node)) == [b"1", b"2"]
    assert settings(node) == {"ordered": "0"}


def test_an_ordered_group_refuses_members_with_filters(node: Node) -> None:
    node.call(AlterGroup(TOPIC, GROUP, {"ordered": "1"}))
    node.fleet.advance(200)
    store(node, b"1", key=b"k")
    assert node.call(poll(types=["mail"])).code == "INVALID_ARGUMENT"
    assert values(polled(node)) == [b"1"]


def test_a_group_that_cannot_be_set_is_told_so_and_nothing_is_delivered(node: Node) -> None:
    store(node, b"1", key=b"k")
    node.elsewhere.ask = lambda request, done: done(UnavailableError("no metadata"))  # type: ignore[method-assign]
    assert node.call(poll(is_ordered_by_key=True)).code == "UNAVAILABLE"
    assert settings(node) == {}
