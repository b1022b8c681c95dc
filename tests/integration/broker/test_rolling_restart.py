"""All nodes are restarted in order, one after the other, under load: nobody notices."""

import os
from time import monotonic

import pytest

from flotilla.client.aio import AsyncClient
from tests.integration.broker.cluster import STOP_S_MAX, BrokerCluster, run
from tests.integration.broker.ledger import Traffic

pytestmark = pytest.mark.slow

#: What is promised of a rolling restart.
STALL_S_MAX = 2.0


def test_a_rolling_restart_under_load(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("rolling", partitions=3)
        async with Traffic(cluster.addresses, "rolling", partitions=3, producers=3) as traffic:
            begun_s = monotonic()
            for node in cluster.running:
                await cluster.wait_led("rolling", partitions=3)
                asked_s = monotonic()
                assert await cluster[node].stop() == 0
                stopped_s = monotonic()
                assert stopped_s - asked_s < STOP_S_MAX
                await traffic.wait_acks(20)
                waits = [traffic.ledger.longest_wait_s(since_s=asked_s)]
                cluster[node].start()
                await cluster.wait_ready(client)
                await traffic.wait_acks(20)
                waits.append(traffic.ledger.longest_wait_s(since_s=stopped_s))
                print(f"\nnode {node}: {stopped_s - asked_s:.2f} s to stop; longest waits {waits}")
        assert not traffic.ledger.refused
        assert not traffic.ledger.unsure
        stall_s = traffic.ledger.longest_wait_s(begun_s)
        print(f"longest producer stall {stall_s:.3f} s; load {os.getloadavg()[0]:.1f}")
        assert stall_s < STALL_S_MAX
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)
