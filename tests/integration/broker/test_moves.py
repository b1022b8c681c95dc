"""Nodes are lost for good, come back without their disks, and partitions move: under load, and nothing is lost."""

import shutil
from pathlib import Path

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.metadata.values import FIRST_PARTITION_GROUP
from flotilla.types.errors import ConfigurationChangeError
from flotilla.types.operations import Metadata, TopicInfo
from tests.integration.broker.cluster import BrokerCluster, run, wait_for, wait_until
from tests.integration.broker.ledger import Traffic

pytestmark = pytest.mark.slow


def is_still(found: Metadata) -> bool:
    """Nothing moves."""
    return not any(part.target for topic in found.topics for part in topic.partitions)


async def wait_still(cluster: BrokerCluster) -> None:
    """Waits until no broker knows of a move: one that lags may not have heard of it yet."""
    await wait_for(
        cluster.views, "the moves to end", is_enough=lambda views: all(is_still(view) for view in views.values())
    )


async def wait_voting(client: AsyncClient, topic: str, partitions: int, replicas: int) -> None:
    """Every partition has `replicas` voters, and each has all of the log."""

    async def look() -> bool:
        for number in range(partitions):
            described = await client.admin.describe_replicas(topic, number)
            if [replica.role for replica in described.replicas].count("voter") != replicas - 1:
                return False
            if any(replica.role == "learner" or not replica.is_alive for replica in described.replicas):
                return False
        return True

    await wait_for(look, f"{replicas} voters in every partition of {topic}", is_enough=bool)


def test_a_node_that_lost_its_disk_comes_back_under_its_id_and_nothing_is_lost(own_cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("t", partitions=3)
        async with Traffic(cluster.addresses, "t", partitions=3) as traffic:
            for victim in (1, 2):
                broker = cluster[victim]
                await broker.kill()
                shutil.rmtree(broker.data)
                await traffic.wait_acks(30)
                broker.flags.pop("peers", None)
                broker.flags["join"] = ",".join(cluster.addresses)
                broker.start()
                await cluster.wait_ready(client)
                await wait_voting(client, "t", 3, 3)
                await traffic.wait_acks(30)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)
        # The brokers that came back carry the cluster together.
        await cluster[3].kill()
        await cluster.wait_led("t", 3)
        await traffic.ledger.check(client)
        await client.produce("t", b"after", partition=0)

    run(own_cluster, scenario, seconds=150)


def test_an_empty_disk_with_the_flags_of_a_founder_gets_no_vote(own_cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("t", partitions=1)
        async with Traffic(cluster.addresses, "t") as traffic:
            await cluster[3].kill()
            shutil.rmtree(cluster[3].data)
            cluster[3].start()
            await wait_until(lambda: cluster[3].logged().count('"listening"') == 2, "the node to be there again")
            # No other broker speaks with it, and it cannot do anything alone.
            await traffic.wait_acks(50)
            alive = {broker.node: broker.is_alive for broker in (await client.admin.metadata()).brokers}
            assert not alive[3]
            await cluster[3].kill()
            shutil.rmtree(cluster[3].data)
            del cluster[3].flags["peers"]
            cluster[3].flags["join"] = ",".join(cluster.addresses)
            cluster[3].start()
            await cluster.wait_ready(client)
            await wait_voting(client, "t", 1, 3)
        await traffic.ledger.check_every_replica(cluster, client)

    run(own_cluster, scenario, seconds=120)


def test_a_node_that_is_lost_for_good_is_replaced_by_another_and_nothing_is_lost(own_cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("t", partitions=3)
        async with Traffic(cluster.addresses, "t", partitions=3) as traffic:
            lost = await cluster.leader("t", 0)
            await lost.kill()
            shutil.rmtree(lost.data)
            with pytest.raises(ConfigurationChangeError, match="add a broker"):
                await client.admin.remove_node(lost.node)
            del cluster.brokers[lost.node]
            cluster.add(4, join=",".join(cluster.addresses)).start()
            await cluster.wait_ready(client)
            await client.admin.remove_node(lost.node)
            await wait_for(
                client.admin.metadata,
                "the lost node to be replaced",
                is_enough=lambda found: all(broker.node != lost.node for broker in found.brokers),
            )
            await wait_voting(client, "t", 3, 3)
            await traffic.wait_acks(50)
        assert not traffic.ledger.refused
        for partition in (await client.describe_topic("t")).partitions:
            assert sorted(partition.replicas) == sorted(cluster.brokers)
        await traffic.ledger.check_every_replica(cluster, client)
        # The majority is one of the present three.
        other = next(node for node in cluster.brokers if node != 4)
        await cluster[other].kill()
        await cluster.wait_led("t", 3)
        await traffic.ledger.check(client)

    run(own_cluster, scenario, seconds=150)


def test_partitions_spread_over_a_new_node_while_leaders_die(own_cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("t", partitions=4)
        # A waiting broker is admitted.
        newcomer = cluster.add(4, await_init="true")
        newcomer.start()
        async with Traffic(cluster.addresses[:3], "t", partitions=4) as traffic:
            async with AsyncClient(newcomer.client_address, timeout_ms=20_000) as direct:
                await direct.admin.enter_cluster(cluster.addresses[:3])
            await cluster.wait_ready(client)
            planned = await client.admin.rebalance(dry_run=True)
            assert sum(4 in move.target for move in planned) == 3
            assert is_still(await client.admin.metadata())
            assert await client.admin.rebalance() == planned
            # The leader of the metadata and the leader of a partition may stop meanwhile.
            controller = cluster[(await client.admin.metadata()).controller]
            await controller.kill()
            await wait_for(
                client.admin.metadata, "another controller", is_enough=lambda found: found.controller in cluster.running
            )
            controller.start()
            await cluster.wait_ready(client)
            leader = await cluster.leader("t", planned[0].partition)
            await leader.kill()
            await cluster.wait_led("t", 4)
            leader.start()
            await cluster.wait_ready(client)
            await wait_still(cluster)
            await wait_voting(client, "t", 4, 3)
            # Fewer replicas, and more again.
            for factor in (1, 3):
                await client.alter_topic("t", replication_factor=factor)
                found = await wait_for(
                    lambda: client.describe_topic("t"),
                    f"{factor} replicas",
                    is_enough=lambda topic, factor=factor: all(  # type: ignore[misc]
                        len(part.replicas) == factor and not part.target for part in topic.partitions
                    ),
                )
                assert found.settings["replication_factor"] == str(factor)
                await traffic.wait_acks(20)
            # Replicas were added one partition after the other; a rebalance evens out the whole. What
            # a node has not removed yet cannot come back to it: then some of it is planned when it is asked for again.
            await wait_for(client.admin.rebalance, "nothing left to be planned", is_enough=lambda planned: not planned)
            await wait_still(cluster)
            assert await client.admin.rebalance() == []
            assert await client.admin.cancel_moves() == []
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)
        held = [node for part in (await client.describe_topic("t")).partitions for node in part.replicas]
        assert max(held.count(node) for node in cluster.brokers) - min(map(held.count, cluster.brokers)) <= 1
        # What moved away is gone from the disks.
        topic = await client.describe_topic("t")
        await wait_until(
            lambda: left_behind(cluster, topic), "what moved to be removed", is_enough=lambda left: not left
        )

    run(own_cluster, scenario, seconds=180)


def left_behind(cluster: BrokerCluster, topic: TopicInfo) -> list[Path]:
    """Folders with data of partitions that the node does not hold; it is the only topic, and was created first."""
    holders = {FIRST_PARTITION_GROUP + part.number: part.replicas for part in topic.partitions}
    return [
        folder
        for node, broker in cluster.brokers.items()
        for folder in (broker.data / "groups").iterdir()
        if node not in holders.get(int(folder.name), [node]) and any(folder.iterdir())
    ]
