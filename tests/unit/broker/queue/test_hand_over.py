"""Queue groups when leadership is transferred as planned: the leases go with it."""

import pytest

from flotilla.types.operations.queue import Poll
from tests.unit.broker.fleet import Fleet, Node, three
from tests.unit.broker.queue.test_partitions import fail_over
from tests.unit.broker.queue_driver import GROUP, TOPIC, ack, describe, poll, polled, settle, store, values


@pytest.fixture
def fleet() -> Fleet:
    fleet = three()
    fleet.create(TOPIC)
    return fleet


def hand_over(fleet: Fleet) -> Node:
    """Transfers leadership as planned. Returns the new leader."""
    old = fleet.leader(TOPIC)
    heir = next(node for node in fleet.nodes.values() if node is not old)
    group = old.partition(TOPIC).group
    fleet.wait(lambda: heir.node in old.partition(TOPIC).replica.heirs())
    old.transfer(group, heir.node)
    fleet.wait(lambda: heir.partition(TOPIC).replica.is_serving())
    return heir


def test_a_planned_transfer_hands_the_leases_over_and_nothing_waits(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"held")
    store(old, b"free")
    found = polled(old, poll(1, "a"))
    new = hand_over(fleet)
    assert values(polled(new, poll(member="b"))) == [b"free"]
    assert describe(new).leased == 2
    ack(new, found)


def test_an_ack_that_waits_for_its_turn_is_logged_before_the_hand_over(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"a")
    answer = old.ask(settle(polled(old)))
    new = hand_over(fleet)
    fleet.wait(lambda: not answer.is_waiting)
    assert polled(new) == []
    assert describe(new).leased == 0


def test_the_bounds_of_messages_are_known_after_a_hand_over(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"once", max_deliveries=1)
    polled(old, Poll(TOPIC, GROUP, "a", visibility_ms=1_000))
    new = hand_over(fleet)
    assert describe(new).leased == 1
    fleet.wait(lambda: describe(new).dead_total == 1)


def test_after_a_transfer_that_fails_the_leases_are_taken_back_first(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"held")
    store(old, b"free")
    found = polled(old, poll(1, "a"))
    host = old.partition(TOPIC)
    host.replica.last_word()
    assert old.call(poll(member="b")).code == "UNAVAILABLE"
    fleet.wait(lambda: not host._queue.leader.is_handed_over)  # type: ignore[union-attr]
    assert values(polled(old, poll(member="b"))) == [b"free"]
    ack(old, found)
    new = fail_over(fleet)
    assert polled(new, poll(member="c")) == [], "the hand-over is not the last word any more"
