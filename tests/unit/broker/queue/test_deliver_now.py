"""Delayed messages that operators list and make due; earlier programs never meet the command."""

from flotilla.types.errors import ConfigurationChangeError
from flotilla.types.operations.cluster import UpgradeCluster
from flotilla.types.operations.queue import FAIL
from flotilla.types.operations.waiting import DelayedMessages, DeliveredNow, DeliverNow, ListDelayed
from flotilla.types.version import DELAYS_ENDED
from tests.unit.broker.cluster.test_upgrades import founded, versions
from tests.unit.broker.fleet import Node, single_node
from tests.unit.broker.queue_driver import GROUP, TOPIC, deliveries, poll, polled, settle, store, values

DAY_MS = 86_400_000


def listed(node: Node, group: str = "") -> list[int]:
    found = node.call(ListDelayed(TOPIC, 0, group)).result
    assert isinstance(found, DelayedMessages), found
    return [each.offset for each in found.messages]


def test_a_poll_that_waits_gets_a_message_that_is_made_due() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    store(node, b"a", b"b", deliver_at_ms=node.now_ms() + DAY_MS)
    waiting = node.ask(poll(wait_ms=60_000))
    node.fleet.settle()
    assert waiting.is_waiting
    assert listed(node) == listed(node, GROUP) == [0, 1]
    assert node.call(DeliverNow(TOPIC, 0, [1])).result == DeliveredNow([1])
    node.fleet.advance(100)
    assert values(deliveries(waiting)) == [b"b"]
    assert listed(node, GROUP) == [0]


def test_a_retry_is_made_due_and_survives_a_restart() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    store(node, b"a")
    node.call(settle(polled(node), FAIL, "no", delay_ms=DAY_MS))
    assert (listed(node), listed(node, GROUP)) == ([], [0])
    assert node.call(DeliverNow(TOPIC, 0, [0], GROUP)).result == DeliveredNow([0])
    node.fleet.kill(1)
    node = node.fleet.restart(1)
    node.fleet.wait(lambda: node.call(ListDelayed(TOPIC, 0, GROUP)).result == DelayedMessages([]))
    # Until then a member may present leases of the leader before.
    node.fleet.advance(70_000)
    (delivery,) = polled(node)
    assert (delivery.first, delivery.attempt) == (0, 2)


def test_a_cluster_of_an_earlier_version_refuses_until_it_is_upgraded() -> None:
    fleet = founded(DELAYS_ENDED - 1)
    fleet.create(TOPIC)
    leader = fleet.leader(TOPIC)
    store(leader, b"a", deliver_at_ms=leader.now_ms() + DAY_MS)
    refused = leader.call(DeliverNow(TOPIC, 0, [0])).result
    assert isinstance(refused, ConfigurationChangeError)
    assert f"needs cluster version {DELAYS_ENDED}" in str(refused)
    assert listed(leader) == [0]
    fleet.controller().call(UpgradeCluster())
    fleet.wait(lambda: min(versions(fleet)) >= DELAYS_ENDED)
    assert leader.call(DeliverNow(TOPIC, 0, [0])).result == DeliveredNow([0])
