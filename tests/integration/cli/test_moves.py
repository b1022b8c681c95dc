"""A node joins, gets replicas, is drained and leaves, through the command."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.integration.broker.cluster import Broker
from tests.integration.ports import LOOPBACK, free_ports

pytestmark = pytest.mark.slow

WAIT_S_MAX = 60


@pytest.fixture
def newcomer(tmp_path) -> Iterator[Broker]:
    """A node that waits."""
    broker = Broker(4, tmp_path, LOOPBACK, free_ports(2), {"await_init": "true", "zone": "north"})
    broker.start()
    try:
        yield broker
    finally:
        broker.end()


def wait_factor(flotilla, topic: str, factor: int) -> None:
    until = time.monotonic() + WAIT_S_MAX
    while True:
        found = json.loads(flotilla("topic", "describe", topic, "--json").stdout)["partitions"]
        if all(len(part["replicas"]) == factor and not part["target"] for part in found):
            return
        assert time.monotonic() < until, found
        time.sleep(0.1)


def test_the_leadership_of_a_partition_is_transferred(flotilla):
    flotilla("topic", "create", "led", "--partitions", "1", "-r", "3")

    def leader() -> int:
        return json.loads(flotilla("topic", "describe", "led", "--json").stdout)["partitions"][0]["leader"]

    old = leader()
    new = old % 3 + 1
    given = flotilla("topic", "transfer", "led", "0", "--to", str(new))
    assert given.stdout == f"led/0 gets node {new} as its leader\n"
    until = time.monotonic() + WAIT_S_MAX
    while leader() != new:
        assert time.monotonic() < until
    flotilla("topic", "transfer", "led", "0", "--json")
    flotilla("topic", "transfer", "led", "7", code=3)
    flotilla("topic", "transfer", "led", "0", "--to", "9", code=2)


def test_a_node_joins_and_leaves(flotilla, newcomer: Broker):
    flotilla("topic", "create", "spread", "--partitions", "4")
    assert (
        flotilla("topic", "rebalance", "spread").stderr.strip() == "nothing to move: replicas and leaders are balanced"
    )
    added = flotilla("cluster", "add", newcomer.client_address, "--timeout", "60s")
    assert added.stdout == f"node 4 at {newcomer.client_address} has joined\n"
    # Again is as good as once.
    again = flotilla("cluster", "add", newcomer.client_address, "--timeout", "60s", "--json")
    assert json.loads(again.stdout) == {"nodes": [{"node": 4, "address": newcomer.client_address}]}

    planned = json.loads(flotilla("topic", "rebalance", "spread", "--dry-run", "--json").stdout)
    assert sum(4 in move["target"] for move in planned) == 3
    moved = flotilla("topic", "rebalance", "spread")
    assert moved.stdout.splitlines()[0].split() == ["partition", "from", "to"]
    assert moved.stderr.strip() == f"{len(planned)} partition(s) moved"
    assert json.loads(flotilla("topic", "rebalance", "spread", "--cancel", "--json").stdout) == []
    flotilla("topic", "rebalance", "--cancel", "--dry-run", code=2)

    status = json.loads(flotilla("cluster", "status", "--wait", "--json").stdout)
    assert status["moves"] == []
    (fourth,) = [broker for broker in status["brokers"] if broker["node"] == 4]
    assert (fourth["state"], fourth["machine"], fourth["zone"]) == ("active", "", "north")
    flotilla("topic", "alter", "spread", "-r", "2")
    wait_factor(flotilla, "spread", 2)
    refused = flotilla("topic", "alter", "spread", "-r", "5", code=5)
    assert "4 brokers can take them" in refused.stderr

    assert flotilla("cluster", "drain", "4", "--wait").stdout == "node 4 is empty\n"
    assert flotilla("cluster", "undrain", "4").stdout == "node 4 stays\n"
    drained = {"node": 4, "state": "draining", "is_empty": None}
    assert json.loads(flotilla("cluster", "drain", "4", "--json").stdout) == drained
    waited = flotilla("cluster", "drain", "4", "--wait", "--json")
    assert json.loads(waited.stdout) == drained | {"is_empty": True}
    assert json.loads(flotilla("cluster", "undrain", "4", "--json").stdout) == {"node": 4, "state": "active"}
    left = flotilla("cluster", "remove", "4", "--wait")
    assert left.stdout == "node 4 has left; its process ends by itself\n"
    assert json.loads(flotilla("cluster", "remove", "4", "--json").stdout) == {"node": 4, "is_gone": True}
    for flags in ((), ("--json",)):
        refused = flotilla("cluster", "drain", "9", *flags, code=3)
        assert (refused.stdout, refused.stderr.count("\n")) == ("", 1)

    flotilla("topic", "create", "full", "-r", "3")
    refused = flotilla("cluster", "remove", "1", code=5)
    assert "add a broker or lower the topic's replication factor" in refused.stderr
