"""All nodes are restarted in order, one after the other, under load: no client notices."""

from time import monotonic

import pytest

from flotilla.client.async_client import AsyncClient
from tests.integration.broker.cluster import STOP_S_MAX, BrokerCluster, run
from tests.integration.broker.figures import allowed, report
from tests.integration.broker.ledger import Traffic

pytestmark = pytest.mark.slow

#: What is promised of a rolling restart.
STALL_S_MAX = 2.0


def test_a_rolling_restart_under_load(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("rolling", partitions=3)
        async with Traffic(cluster.addresses, "rolling", partitions=3, producers=3) as traffic:
            stops: list[float] = []
            waits: list[float] = []
            for node in cluster.running:
                await cluster.wait_led("rolling", partitions=3)
                asked_s = monotonic()
                assert await cluster[node].stop() == 0
                stopped_s = monotonic()
                assert stopped_s - asked_s < STOP_S_MAX
                await traffic.wait_acks(20)
                cluster[node].start()
                await cluster.wait_ready(client)
                await traffic.wait_acks(20)
                stops.append(stopped_s - asked_s)
                waits.append(traffic.ledger.longest_wait_s(since_s=asked_s))
        assert not traffic.ledger.refused
        assert not traffic.ledger.unsure
        report("SIGTERM to the end of the process", stops)
        report("longest wait of a record during the restart of a node", waits)
        assert max(waits) < allowed(STALL_S_MAX)
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)
