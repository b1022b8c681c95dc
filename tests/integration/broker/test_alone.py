"""A node that is a cluster by itself stays one, whatever flags it is given later, and says so."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.server import Server
from flotilla.types.address import Address, Peer
from flotilla.types.errors import AlreadyExistsError
from flotilla.types.settings import NodeSettings
from tests.integration.broker.cluster import wait_for
from tests.integration.ports import free_ports

ANY_PORT = Address("127.0.0.1", 0)


@asynccontextmanager
async def serving(folder: Path, node: int, **settings: Any) -> AsyncIterator[Server]:
    given: dict[str, Any] = {"listen": ANY_PORT, "peer_listen": ANY_PORT, "grpc_listen": None, "http_listen": None}
    server = Server(NodeSettings(node_id=node, data_dir=str(folder / str(node)), **{**given, **settings}))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def members(server: Server, count: int) -> list[int]:
    async with AsyncClient(server.client_address, timeout_ms=20_000) as client:
        found = await wait_for(client.admin.metadata, "members", is_enough=lambda each: len(each.brokers) == count)
    return [broker.node for broker in found.brokers]


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [
        record.fields  # type: ignore[attr-defined]
        for record in caplog.records
        if "alone" in record.message and record.levelno == logging.WARNING
    ]


def test_a_node_alone_says_what_it_ignores_and_stays_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        closed = Address("127.0.0.1", port)
        peers = (Peer(1, Address("127.0.0.1", 7601)), Peer(2, closed))
        async with serving(tmp_path, 1) as server:
            assert await members(server, 1) == [1]
        async with serving(tmp_path, 1):
            assert warnings(caplog) == []
        for flags, ignored in (({"join": (closed,)}, "--join"), ({"peers": peers}, "--peers")):
            caplog.clear()
            async with serving(tmp_path, 1, **flags) as server:
                assert await members(server, 1) == [1]
                assert server.node.network.health() == [], "no node of another cluster is dialled"
            [fields] = warnings(caplog)
            assert (fields["ignored"], fields["cluster"], fields["node"]) == ([ignored], "flotilla", 1)
            assert fields["data_dir"] == str(tmp_path / "1")
            assert "empty data directory" in fields["advice"]

    asyncio.run(scenario())


def test_a_node_that_joined_starts_again_with_the_same_flags(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ports = [Address("127.0.0.1", port) for port in free_ports(4)]
        async with serving(tmp_path, 1, listen=ports[0], peer_listen=ports[1]) as first:
            for _ in range(2):
                async with serving(tmp_path, 2, listen=ports[2], peer_listen=ports[3], join=(ports[0],)) as second:
                    assert await members(second, 2) == [1, 2]
                    assert await members(first, 2) == [1, 2]
        assert warnings(caplog) == []

    asyncio.run(scenario())


def test_a_node_of_another_cluster_refuses_to_come_in(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, 1) as one, serving(tmp_path, 2) as two:
            await members(one, 1)
            await members(two, 1)
            async with AsyncClient(two.client_address, timeout_ms=20_000) as client:
                with pytest.raises(
                    AlreadyExistsError, match="node 2 is part of another cluster named 'flotilla', alone"
                ):
                    await client.admin.enter_cluster([one.client_address])

    asyncio.run(scenario())


def test_all_listeners_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        caplog.set_level(logging.INFO, "flotilla")
        async with serving(tmp_path, 1, http_listen=ANY_PORT, grpc_listen=ANY_PORT) as server:
            await members(server, 1)
        async with serving(tmp_path, 1):
            pass
        open_, closed = [
            record.fields  # type: ignore[attr-defined]
            for record in caplog.records
            if record.message == "listening"
        ]
        assert open_["grpc"] == server.grpc_address
        for endpoint in ("clients", "peers", "http", "grpc"):
            assert Address("127.0.0.1", int(open_[endpoint].rpartition(":")[2])).port > 0
        assert (closed["http"], closed["grpc"]) == ("off", "off")
        events = [record.message for record in caplog.records]
        for event in ("leads", "the cluster is known"):
            assert event in events

    asyncio.run(scenario())
