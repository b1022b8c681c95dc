"""The end of a run: a replica that stays behind is found."""

import asyncio

from flotilla.sim.whole.convergence import Convergence
from flotilla.testing import SimulatedCluster, simulate


def test_a_replica_that_lags_is_waited_for() -> None:
    looks: list[bool] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        async with cluster.client() as client:
            await client.create_topic("orders", partitions=1)
            await client.produce("orders", b"first")
            leader = (await client.describe_topic("orders")).partitions[0].leader
            lagging = next(node for node in cluster.brokers if node != leader)
            cluster.isolate(lagging)
            for _ in range(3):
                await client.produce("orders", b"later")
            convergence = Convergence(list(cluster.brokers.values()))
            looks.append(convergence.is_reached())
            assert any(f"orders/0: broker {lagging} has applied" in text for text in convergence.missing)
            others = [broker for node, broker in cluster.brokers.items() if node != lagging]
            while not Convergence(others).is_reached():
                await asyncio.sleep(0.1)
            cluster.brokers[lagging].kill()
            assert not convergence.is_reached()
            assert f"orders/0: a replica at broker {lagging}" in convergence.missing
            cluster.heal()
            while not convergence.is_reached():
                await asyncio.sleep(0.1)
            looks.append(True)

    simulate(1, scenario, faults=())
    assert looks == [False, True]


def test_a_move_that_has_not_ended_is_waited_for() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with cluster.client() as client:
            await client.create_topic("orders", partitions=1, replication_factor=3)
            convergence = Convergence(list(cluster.brokers.values()))
            while not convergence.is_reached():
                await asyncio.sleep(0.1)
            hosts = (await client.describe_topic("orders")).partitions[0].replicas
            await client.admin.drain_node(hosts[0])
            while not any("become" in text for text in convergence.missing):
                await asyncio.sleep(0.01)
                convergence.is_reached()
            while not convergence.is_reached():
                await asyncio.sleep(0.1)
            assert hosts[0] not in (await client.describe_topic("orders")).partitions[0].replicas

    simulate(1, scenario, brokers=4, faults=())
