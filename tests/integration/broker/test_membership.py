"""How nodes become a cluster, join one, leave one, and refuse what is not theirs."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.cluster.registration import Membership
from flotilla.cli.terminal.exit_codes import EXPELLED
from flotilla.client.async_client import AsyncClient
from flotilla.server import Server
from flotilla.types.address import Address
from flotilla.types.errors import AlreadyExistsError, ConfigurationChangeError, DeadlineError, InvalidArgumentError
from flotilla.types.settings import NodeSettings
from tests.integration.broker.cluster import BrokerCluster, run, wait_for, wait_until
from tests.integration.broker.ledger import Traffic, read_all
from tests.integration.ports import LOOPBACK, free_ports

pytestmark = pytest.mark.slow


def test_a_fourth_node_joins_under_load_works_and_leaves(own_cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("old", partitions=3)
        async with Traffic(cluster.addresses, "old", partitions=3) as traffic:
            newcomer = cluster.add(4, join=",".join(cluster.addresses))
            newcomer.start()
            found = await cluster.wait_ready(client)
            assert [broker.node for broker in found.brokers] == [1, 2, 3, 4]

            # The one with the least to do gets what is new.
            topic = await client.create_topic("new", partitions=3, replication_factor=3)
            assert all(4 in partition.replicas for partition in topic.partitions)
            async with Traffic(cluster.addresses, "new", partitions=3, producers=1) as second:
                await second.wait_acks(50)
            await second.ledger.check_every_replica(cluster, client)

            # It is a member like any other, also after a crash.
            await newcomer.kill()
            newcomer.start()
            await cluster.wait_ready(client)
            await second.ledger.check_every_replica(cluster, client)

            # What it holds moves elsewhere, and then it is gone.
            await client.admin.remove_node(4)
            await wait_gone(client, 4)
            # Doing it again changes nothing.
            await client.admin.remove_node(4)
            assert [broker.node for broker in (await client.admin.metadata()).brokers] == [1, 2, 3]
            await second.ledger.check_every_replica(cluster, client)
            with pytest.raises(ConfigurationChangeError, match="lower the topic's replication factor"):
                await client.admin.remove_node(3)
            # Its process ends by itself, and says why.
            assert await newcomer.wait_exit() == EXPELLED.code
            assert "the cluster has removed this node" in newcomer.logged()
            await traffic.wait_acks(50)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

        # The majority is one of three again.
        await cluster[1].kill()
        await client.create_topic("after", partitions=1)
        await client.produce("after", b"x")

    run(own_cluster, scenario)


async def wait_gone(client: AsyncClient, node: int) -> None:
    await wait_for(
        client.admin.metadata,
        f"node {node} to leave",
        is_enough=lambda found: all(broker.node != node for broker in found.brokers),
    )


def test_waiting_nodes_become_a_cluster_by_init_and_repeating_it_is_harmless(tmp_path: Path) -> None:
    cluster = BrokerCluster(tmp_path, flags={"await_init": "true"})
    for broker in cluster.brokers.values():
        del broker.flags["peers"]
    nodes = {broker.node: broker.peer_address for broker in cluster.brokers.values()}

    async def init_all() -> None:
        for broker in cluster.brokers.values():
            async with AsyncClient(broker.client_address, timeout_ms=10_000) as client:
                await client.admin.init_cluster(nodes)

    async def form() -> None:
        async with cluster.client() as client:
            await wait_for(
                lambda: client.admin.init_cluster({}), "nodes that wait", is_enough=lambda found: not found.cluster_id
            )
            with pytest.raises(DeadlineError, match="not part of a cluster yet"):
                await client.admin.metadata(timeout_ms=1_000)
        await init_all()
        await init_all()

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("first", partitions=1)
        await client.produce("first", b"x")
        await init_all()
        with pytest.raises((AlreadyExistsError, InvalidArgumentError)):
            await client.admin.init_cluster({**nodes, 4: "127.0.0.1:9"})
        # What they are part of stands in their data from now on.
        await cluster.kill_all()
        cluster.start()
        await cluster.wait_ready(client)
        await init_all()
        assert [message.payload for message in await read_all(client, "first")] == [b"x"]

    cluster.start()
    try:
        asyncio.run(form())
        run(cluster, scenario)
    finally:
        cluster.end()


def test_founders_find_each_other_although_the_metadata_name_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when all are killed right after their founding, before they have learned of the others' registration."""
    ports = dict(enumerate(zip(free_ports(3), free_ports(3), strict=True), 1))
    addresses = {node: f"{LOOPBACK}:{peer}" for node, (_, peer) in ports.items()}

    def servers() -> list[Server]:
        return [
            Server(
                NodeSettings(
                    node_id=node,
                    data_dir=str(tmp_path / str(node)),
                    listen=Address(LOOPBACK, client),
                    peer_listen=Address(LOOPBACK, peer),
                    http_listen=None,
                    grpc_listen=None,
                    await_init=True,
                )
            )
            for node, (client, peer) in ports.items()
        ]

    async def run_until(found: list[Server], is_enough: Callable[[], bool], what: str) -> None:
        try:
            for server in found:
                await server.start()
            for server in found:
                server.entry.found({node: at for node, at in addresses.items() if node != server.settings.node_id})
            await wait_until(is_enough, what)
        finally:
            for server in found:
                await server.stop()

    with monkeypatch.context() as patch:
        patch.setattr(Membership, "start", lambda *_: None)
        first = servers()
        asyncio.run(
            run_until(first, lambda: all(METADATA_GROUP in each.node.store.groups for each in first), "a group")
        )
    again = servers()
    asyncio.run(run_until(again, lambda: all(len(each.catalog.brokers()) == 3 for each in again), "all three"))


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"node_id": "2"}, "belongs to node 1"),
        ({"cluster_name": "another"}, "belongs to cluster 'flotilla'"),
    ],
)
def test_a_node_refuses_data_that_is_not_its_own(
    cluster: BrokerCluster, tmp_path: Path, flags: dict[str, str], complaint: str
) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        owner = cluster[1]
        stranger = cluster.stranger(tmp_path, data_dir=str(owner.data), **flags)
        stranger.start()
        assert await stranger.wait_exit() not in (0, None)
        assert complaint in stranger.logged()
        # The owner does not even notice.
        assert owner.is_running

    run(cluster, scenario)


def test_a_second_process_on_the_same_data_is_refused(cluster: BrokerCluster, tmp_path: Path) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        twin = cluster.stranger(tmp_path, data_dir=str(cluster[1].data), node_id="1")
        twin.start()
        assert await twin.wait_exit() not in (0, None)
        assert "in use by another process" in twin.logged()

    run(cluster, scenario)


def test_a_node_of_another_cluster_does_not_get_in(cluster: BrokerCluster, tmp_path: Path) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        stranger = cluster.stranger(tmp_path, node_id="9", cluster_name="another", join=",".join(cluster.addresses))
        stranger.start()
        try:
            await wait_until(lambda: "that is cluster 'flotilla', not 'another'" in stranger.logged(), "a complaint")
        finally:
            stranger.end()
        assert 9 not in [broker.node for broker in (await client.admin.metadata()).brokers]
        # It left no trace in the majority either.
        await client.create_topic("undisturbed", partitions=1)

    run(cluster, scenario)
