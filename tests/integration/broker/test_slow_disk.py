"""A slow disk beside quick ones: leaders on it hand over, and no request waits for it."""

from time import monotonic

import pytest

from flotilla.client.async_client import AsyncClient
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.broker.faults import slow_disk
from tests.integration.broker.figures import allowed, report
from tests.integration.broker.ledger import Traffic

pytestmark = pytest.mark.slow

TAKEN_OVER_S_MAX = 8.0


@pytest.mark.parametrize("delay_ms", [300, 60_000])
def test_the_leader_has_a_slow_disk(cluster: BrokerCluster, delay_ms: int) -> None:
    """Slow for good, or as good as hung: a write lasts longer than the test."""
    topic = f"slow-{delay_ms}"

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic(topic, partitions=1)
        async with Traffic(cluster.addresses, topic) as traffic:
            leader = await cluster.leader(topic)
            with slow_disk(leader.pid, delay_ms):
                slow_s = monotonic()
                await cluster.wait_led(topic, excluded=leader.node)
                await traffic.wait_acks(200)
                taken_s = monotonic() - slow_s
            report(f"a disk that takes {delay_ms} ms, to 200 acks behind another leader", [taken_s])
            assert taken_s < allowed(TAKEN_OVER_S_MAX)
            await cluster.wait_ready(client)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)
