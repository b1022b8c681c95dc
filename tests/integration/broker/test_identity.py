"""Who a node is: which cluster it belongs to, whether its data are its own, and what it may found."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.cluster.founding import AWAITS_PEERS, CLUSTER_EXISTS
from flotilla.cli.app import app
from flotilla.cli.terminal.exit_codes import EXPELLED, OK
from flotilla.client.async_client import AsyncClient
from flotilla.runtime.data_dir_identity import read_identity, set_aside
from flotilla.runtime.path_folder import PathFolder
from flotilla.server import Server
from flotilla.types.address import Address, Peer
from flotilla.types.errors import CorruptionError, DeadlineError, InvalidArgumentError
from flotilla.types.settings import NodeSettings
from tests.integration.broker.cluster import BrokerCluster, run, wait_for, wait_until
from tests.integration.broker.ledger import read_all
from tests.integration.ports import LOOPBACK, free_ports


class Trio:
    """Three nodes with the same list of peers, as objects of this process; each keeps its data and addresses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = [Address("127.0.0.1", port) for port in free_ports(6)]
        self.peers = tuple(Peer(node, ports[node - 1]) for node in (1, 2, 3))
        self._listen = {node: ports[node + 2] for node in (1, 2, 3)}
        self.clients = [str(address) for address in self._listen.values()]
        #: Flags of node 3 when it joins the others.
        self.joining: dict[str, Any] = {"peers": (), "join": (self._listen[1], self._listen[2])}

    def data(self, node: int) -> Path:
        return self.folder / str(node)

    def server(self, node: int, **settings: Any) -> Server:
        given: dict[str, Any] = {
            "peers": self.peers,
            "peer_listen": dict(self.peers)[node],
            "listen": self._listen[node],
            "grpc_listen": None,
            "http_listen": None,
        }
        return Server(NodeSettings(node_id=node, data_dir=str(self.data(node)), **{**given, **settings}))

    @asynccontextmanager
    async def serving(self, *nodes: int, **settings: Any) -> AsyncIterator[dict[int, Server]]:
        async with AsyncExitStack() as stack:
            servers = {}
            for node in nodes:
                server = servers[node] = self.server(node, **settings)
                stack.push_async_callback(server.stop)
                await server.start()
            yield servers

    async def members(self, count: int = 3) -> list[int]:
        async with AsyncClient(self.clients, timeout_ms=30_000) as client:
            found = await wait_for(client.admin.metadata, "members", is_enough=lambda each: len(each.brokers) == count)
        return [broker.node for broker in found.brokers]


def codes(server: Server) -> list[str]:
    return [reason.code for reason in server.status.reasons()]


@pytest.fixture
def trio(tmp_path: Path) -> Trio:
    return Trio(tmp_path)


def test_all_nodes_agree_on_one_cluster_id_and_keep_it(trio: Trio) -> None:
    async def scenario() -> None:
        async with trio.serving(1, 2, 3) as servers:
            await trio.members()
            await wait_until(
                lambda: {server.catalog.cluster_id for server in servers.values()},
                "one id everywhere",
                is_enough=lambda found: len(found) == 1 and "" not in found,
            )
            cluster_id = servers[1].catalog.cluster_id
            await wait_until(
                lambda: [read_identity(PathFolder(trio.data(node))).cluster_id for node in (1, 2, 3)],
                "the id in every data directory",
                is_enough=lambda found: found == [cluster_id] * 3,
            )
            async with AsyncClient(trio.clients, timeout_ms=30_000) as client:
                metadata = await client.admin.metadata()
            assert (metadata.cluster_id, metadata.cluster_name) == (cluster_id, "flotilla")
        async with trio.serving(1, 2, 3) as servers:
            await trio.members()
            assert {server.node.network.own.cluster_id.hex() for server in servers.values()} == {cluster_id}

    asyncio.run(scenario())


def test_two_lost_disks_of_three_found_no_second_cluster(trio: Trio, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with trio.serving(1, 2, 3):
            await trio.members()
            async with AsyncClient(trio.clients, timeout_ms=30_000) as client:
                await client.create_topic("paid", partitions=1)
        for node in (2, 3):
            shutil.rmtree(trio.data(node))
        async with trio.serving(1, 2, 3) as servers:
            await wait_until(
                lambda: [codes(servers[node]) for node in (2, 3)],
                "the wiped nodes to learn of the cluster",
                is_enough=lambda found: found == [[CLUSTER_EXISTS]] * 2,
            )
            async with AsyncClient(trio.clients[1:], timeout_ms=1_000) as client:
                with pytest.raises(DeadlineError):
                    await client.create_topic("orders", partitions=1)
            assert all(METADATA_GROUP not in servers[node].node.store.groups for node in (2, 3))
            assert codes(servers[1]) != []
        said = [record.fields["reason"] for record in caplog.records if record.message == "founds no cluster"]  # type: ignore[attr-defined]
        assert any("node 1 is part of cluster" in reason and "--join" in reason for reason in said)

    asyncio.run(scenario())


def test_a_node_that_was_wiped_comes_back_as_its_log_says(trio: Trio) -> None:
    """Started with its old flags first, and then with --join, on the same directory."""

    async def scenario() -> None:
        async with trio.serving(1, 2):
            async with trio.serving(3):
                await trio.members()
            shutil.rmtree(trio.data(3))
            async with trio.serving(3) as servers:
                await wait_until(lambda: CLUSTER_EXISTS in codes(servers[3]), "the cluster to be found")
            async with trio.serving(3, **trio.joining) as servers:
                await wait_until(lambda: codes(servers[3]), "node 3 to be ready", is_enough=lambda found: not found)
                assert read_identity(PathFolder(trio.data(3))).cluster_id == servers[3].catalog.cluster_id != ""

    asyncio.run(scenario())


def test_a_cluster_is_not_founded_while_a_named_node_is_silent(trio: Trio, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with trio.serving(1, 2) as servers:
            await wait_until(
                lambda: [record.message for record in caplog.records],
                "a log line",
                is_enough=lambda lines: lines.count("founds no cluster") >= 2,
            )
            assert [codes(server) for server in servers.values()] == [[AWAITS_PEERS]] * 2
            async with trio.serving(3):
                assert await trio.members() == [1, 2, 3]

    caplog.set_level(logging.WARNING)
    asyncio.run(scenario())


def test_a_cluster_is_founded_without_a_node_by_request(trio: Trio) -> None:
    async def scenario() -> None:
        async with trio.serving(1, 2, found_without=(3,)) as servers:
            assert await trio.members(2) == [1, 2]
            async with trio.serving(3, **trio.joining):
                assert await trio.members(3) == [1, 2, 3]
        with pytest.raises(InvalidArgumentError, match="founded without this node"):
            servers[1].settings.__class__(node_id=3, peers=trio.peers, found_without=(3,)).validate()

    asyncio.run(scenario())


def test_a_founder_that_ends_at_the_wrong_moment_founds_with_the_others_later(trio: Trio) -> None:
    """Nodes 1 and 2 have founded with node 3, which stops before it has: the same data directory may still do so."""

    async def scenario() -> None:
        async with trio.serving(3):
            identity = read_identity(PathFolder(trio.data(3)))
        async with AsyncExitStack() as stack:
            # It answers that it is empty, and never founds.
            patient = trio.server(3)
            patient.entry._try_founding = lambda: None  # type: ignore[method-assign]
            await patient.start()
            servers = await stack.enter_async_context(trio.serving(1, 2))
            await wait_until(
                lambda: all(server.catalog.cluster_id for server in servers.values()), "a cluster of two of three"
            )
            assert METADATA_GROUP not in patient.node.store.groups
            await patient.stop()
            assert read_identity(PathFolder(trio.data(3))).incarnation == identity.incarnation
            async with trio.serving(3):
                assert await trio.members() == [1, 2, 3]

    asyncio.run(scenario())


def test_an_identity_without_its_store_does_not_start(trio: Trio) -> None:
    async def scenario() -> None:
        async with trio.serving(1, 2, 3):
            await trio.members()
        for part in ("journal", "groups"):
            shutil.rmtree(trio.data(2) / part)
        (trio.data(2) / "format").unlink()
        with pytest.raises(CorruptionError, match=r"flotilla node repair .*2`.*--join"):
            trio.server(2)
        assert not (trio.data(2) / "journal").exists(), "a refused directory is not touched"

    asyncio.run(scenario())


def test_a_data_directory_that_was_put_back_is_refused(trio: Trio) -> None:
    async def scenario() -> None:
        async with trio.serving(1, 2) as others:

            def is_registered() -> bool:
                """Whether both others know the newest start of node 3."""
                rows = [server.catalog.brokers().get(3) for server in others.values()]
                own = read_identity(PathFolder(trio.data(3)))
                return all(row and (row.incarnation, row.starts) == (own.incarnation, own.starts) for row in rows)

            async with trio.serving(3):
                await wait_until(is_registered, "the first start to be registered")
            shutil.copytree(trio.data(3), trio.folder / "image")
            async with trio.serving(3):
                await wait_until(is_registered, "the second start to be registered")
            shutil.rmtree(trio.data(3))
            (trio.folder / "image").rename(trio.data(3))
            async with trio.serving(3) as servers:
                await wait_until(lambda: servers[3].entry.expulsion, "the refusal")
                assert codes(servers[3]) == ["OLDER_DATA"]
                assert "flotilla node repair" in servers[3].status.reasons()[0].message
            set_aside(trio.data(3))
            async with trio.serving(3, **trio.joining) as servers:
                await wait_until(lambda: codes(servers[3]), "node 3 to be ready", is_enough=lambda found: not found)

    asyncio.run(scenario())


def test_a_node_that_was_removed_knows_it_and_ends(trio: Trio) -> None:
    """While it runs, and when it was down at the time."""

    async def scenario() -> None:
        async with trio.serving(1, 2, 3) as servers:
            await trio.members()
            shutil.copytree(trio.data(3), trio.folder / "image", ignore=shutil.ignore_patterns("lock"))
            async with AsyncClient(trio.clients[:2], timeout_ms=30_000) as client:
                await client.admin.remove_node(3)
            await wait_until(lambda: servers[3].entry.expulsion, "node 3 to know")
            assert codes(servers[3]) == ["REMOVED"]
            # It learned that from the log, not only from a refused handshake.
            assert servers[3].membership.is_removed
            await servers[3].stop()
            shutil.rmtree(trio.data(3))
            (trio.folder / "image").rename(trio.data(3))
            async with trio.serving(3) as again:
                await wait_until(lambda: again[3].entry.expulsion, "node 3 to be told")
                assert codes(again[3]) == ["REMOVED"]

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_lost_disk_and_a_restored_one_come_back_as_the_log_says(own_cluster: BrokerCluster) -> None:
    """Real processes: killed and wiped, started with the old flags, then with --join; later with an old image."""

    async def start_known(cluster: BrokerCluster, client: AsyncClient, host: str) -> None:
        """Starts node 3 with an address by which the others show that they know this start of it."""
        address = f"{host}:{cluster[3].client_address.rpartition(':')[2]}"
        cluster[3].flags["advertise"] = address
        cluster[3].start()
        await wait_for(
            lambda: cluster.views(excluded=3),
            f"node 3 to be known by {address}",
            is_enough=lambda views: all(
                (3, address) in [(broker.node, broker.client) for broker in view.brokers] for view in views.values()
            ),
        )
        await cluster.wait_ready(client)

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        node = cluster[3]
        await client.create_topic("orders", partitions=1, replication_factor=3)
        await client.produce("orders", b"before")
        await node.kill()
        shutil.rmtree(node.data)
        node.start()
        await wait_until(lambda: "founds no cluster" in node.logged() and "--join" in node.logged(), "the advice")
        assert await node.stop() == OK.code
        del node.flags["peers"]
        node.flags["join"] = ",".join(cluster.addresses[:2])
        await start_known(cluster, client, "localhost")
        # It is a member again, and then the others know two more starts of its new directory.
        image = cluster.folder / "image"
        assert await node.stop() == OK.code
        shutil.copytree(node.data, image)
        for host in (LOOPBACK, "localhost"):
            await start_known(cluster, client, host)
            assert await node.stop() == OK.code
        shutil.rmtree(node.data)
        image.rename(node.data)
        node.start()
        assert await node.wait_exit() == EXPELLED.code
        assert "flotilla node repair" in node.logged()
        result = await asyncio.to_thread(CliRunner().invoke, app, ["node", "repair", str(node.data), "--force"])
        assert result.exit_code == OK.code, result.output
        node.start()
        await cluster.wait_ready(client)
        await client.produce("orders", b"after")
        assert [message.payload for message in await read_all(client, "orders")] == [b"before", b"after"]

    run(own_cluster, scenario, seconds=240)
