"""Order by key at a broker: a poll that waits gets past any number of messages of a stuck key."""

import pytest

from flotilla.partition.leader import key_order
from tests.unit.broker.fleet import single_node
from tests.unit.broker.queue_driver import TOPIC, deliveries, poll, polled, store, values


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
