"""Nodes of the last release and of this one side by side, one replaced after the other, under load.

Until the cluster version moves, a node can go back. No client notices anything: nothing that was acknowledged is lost,
nothing is refused, and no message is missed by the workers.
"""

import asyncio
from collections import Counter
from pathlib import Path
from time import monotonic

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.types.version import CLUSTER_VERSION_MAX
from tests.integration.broker.cluster import ROOT, STOP_S_MAX, Broker, BrokerCluster, run, wait_for, wait_until
from tests.integration.broker.figures import allowed, report
from tests.integration.broker.ledger import Traffic
from tests.upgrade.earlier_program import LAST_RELEASE, earlier_source

pytestmark = pytest.mark.slow

PARTITIONS = 2
#: What is promised of a rolling restart.
STALL_S_MAX = 2.0
#: About twenty on two processors with nothing else to do.
SECONDS_MAX = 240
NOW = ROOT / "src"


class Workers:
    """A worker of a queue group, and its book."""

    def __init__(self, client: AsyncClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        #: How often each payload was delivered.
        self.delivered: Counter[bytes] = Counter()

    async def work(self) -> None:
        async with self._client.queue(self._topic, group="workers") as queue:
            while True:
                messages = await queue.poll(100, wait_ms=500)
                self.delivered.update(message.payload for message in messages)
                await asyncio.gather(*[message.ack() for message in messages])

    async def lag(self) -> int:
        return (await self._client.describe_group(self._topic, "workers")).lag


class Replacement:
    """Replaces the program of one node after the other, while everything runs."""

    def __init__(self, cluster: BrokerCluster, client: AsyncClient, traffic: Traffic, topic: str) -> None:
        self._cluster = cluster
        self._client = client
        self._traffic = traffic
        self._topic = topic
        self.stops: list[float] = []
        self.waits: list[float] = []

    async def replace(self, node: int, source: Path) -> None:
        cluster, traffic = self._cluster, self._traffic
        await cluster.wait_led(self._topic, partitions=PARTITIONS)
        asked_s = monotonic()
        assert await cluster[node].stop() == 0
        self.stops.append(monotonic() - asked_s)
        await traffic.wait_acks(10)
        cluster[node].source = source
        cluster[node].start()
        await cluster.wait_ready(self._client)
        await traffic.wait_acks(10)
        self.waits.append(traffic.ledger.longest_wait_s(since_s=asked_s))


def test_nodes_are_upgraded_and_go_back_one_by_one_under_load(tmp_path: Path) -> None:
    earlier = earlier_source(tmp_path / "earlier")

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("upgraded", partitions=PARTITIONS)
        workers = Workers(client, "upgraded")
        working = asyncio.create_task(workers.work())
        async with Traffic(cluster.addresses, "upgraded", partitions=PARTITIONS, producers=1, pause_s=0.05) as traffic:
            replacement = Replacement(cluster, client, traffic, "upgraded")
            for node, source in ((1, NOW), (2, NOW), (1, earlier or NOW), (1, NOW), (3, NOW)):
                await replacement.replace(node, source)
            if earlier is not None:
                await raise_version(cluster, client)
                await traffic.wait_acks(10)
        assert not traffic.ledger.refused
        assert not traffic.ledger.unsure
        report("SIGTERM to the end of the process", replacement.stops)
        report("longest wait of a record while a node is replaced", replacement.waits)
        assert max(replacement.stops) < STOP_S_MAX
        assert max(replacement.waits) < allowed(STALL_S_MAX)
        await wait_for(workers.lag, "the workers to be done", is_enough=lambda lag: lag == 0)
        working.cancel()
        assert set(traffic.ledger.acked.values()) == set(workers.delivered)
        await traffic.ledger.check_every_replica(cluster, client)
        if earlier is not None:
            await no_return(cluster[3], earlier)

    cluster = BrokerCluster(tmp_path)
    for broker in cluster.brokers.values():
        broker.source = earlier or NOW
    try:
        start(cluster)
        run(cluster, scenario, seconds=SECONDS_MAX)
    finally:
        cluster.end()
    if earlier is None:
        pytest.skip(f"nodes were restarted, not upgraded: the history of this repository has no commit {LAST_RELEASE}")


def start(cluster: BrokerCluster) -> None:
    """One node first, which compiles the program for the others."""
    cluster[1].start()
    is_listening = wait_until(lambda: "listening" in cluster[1].logged(), "the first node", SECONDS_MAX)
    asyncio.run(is_listening)
    cluster.start()


async def raise_version(cluster: BrokerCluster, client: AsyncClient) -> None:
    assert (await client.admin.metadata()).cluster_version == 1
    raised = await client.admin.upgrade_cluster()
    assert (raised.before, raised.version) == (1, CLUSTER_VERSION_MAX)
    await wait_for(
        cluster.views,
        "all nodes to know the new version",
        is_enough=lambda found: {view.cluster_version for view in found.values()} == {CLUSTER_VERSION_MAX},
    )


async def no_return(node: Broker, earlier: Path) -> None:
    """The earlier program refuses the directory, and says why."""
    assert await node.stop() == 0
    node.source = earlier
    node.start()
    assert await node.wait_exit() == 2
    assert "identity.json is of version 2, and this version of flotilla reads up to 1" in node.logged()
