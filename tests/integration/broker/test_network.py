"""Cables are pulled and put back: the majority goes on, the minority refuses, and everybody agrees afterwards."""

import os
from pathlib import Path
from time import monotonic

import pytest

from flotilla.client.aio import AsyncClient
from flotilla.types.errors import FlotillaError
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.broker.faults import Namespaces
from tests.integration.broker.ledger import Traffic

pytestmark = pytest.mark.slow

FAILOVER_S_MAX = 8.0


def test_a_leader_is_cut_off_and_comes_back(tmp_path: Path) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("cut", partitions=3)
        async with Traffic(cluster.addresses, "cut", partitions=3) as traffic:
            for _ in range(2):
                leader = await cluster.leader("cut")
                spaces.cut(leader.node)
                cut_s = monotonic()
                gaps = [await traffic.wait_failover(cut_s, partition) for partition in range(3)]
                print(f"\ncut off: {gaps}; load {os.getloadavg()[0]:.1f}")
                assert max(gaps) < FAILOVER_S_MAX
                await traffic.wait_acks(50)
                spaces.heal(leader.node)
                await cluster.wait_ready(client)
                await traffic.wait_acks(50)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

    def cut_everybody() -> None:
        for number in cluster.running:
            spaces.cut(number)

    async def without_majority(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("torn", partitions=1)
        async with Traffic(cluster.addresses, "torn") as traffic:
            await traffic.wait_acks(50)
            cut_everybody()
            with pytest.raises(FlotillaError):
                await client.produce("torn", b"lonely/0", timeout_ms=3_000)
            for number in cluster.running:
                spaces.heal(number)
            await cluster.wait_ready(client)
            await traffic.wait_acks(50)

    with Namespaces.made(f"fl{os.getpid() % 100_000}", 3) as spaces:
        cluster = BrokerCluster(tmp_path, hosts=spaces.hosts)
        for node, broker in cluster.brokers.items():
            broker.prefix = spaces.prefix(node)
        cluster.start()
        try:
            run(cluster, scenario)
        finally:
            cluster.end()
