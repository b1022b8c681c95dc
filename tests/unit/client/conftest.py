"""Clusters and clients that are gone without a trace when a test ends."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
import uvloop

from flotilla import AsyncClient, Client
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers
from tests.unit.client.shells import Shell, TcpServers, run_at_once, runner_on


@pytest.fixture
def servers() -> Iterator[TcpServers]:
    with broker_servers(Brokers(2)) as opened:
        yield opened


@pytest.fixture(params=["sync", "asyncio", "uvloop"])
def connect(request: pytest.FixtureRequest, servers: TcpServers) -> Iterator[Callable[..., Shell]]:
    """Opens clients of one shell. Afterwards there is no thread, task or connection of theirs."""
    if request.param == "sync":
        clients: list[Shell] = []

        def connect_sync(**options: object) -> Shell:
            clients.append(Shell(Client(servers.addresses, **options), run_at_once))
            return clients[-1]

        yield connect_sync
        for client in clients:
            client.close(timeout_ms=100)
    else:
        yield from _connect_async(servers, uvloop if request.param == "uvloop" else asyncio)
    assert "flotilla-client" not in [thread.name for thread in threading.enumerate()]
    servers.run(_settled(servers))
    assert servers.connections() == 0


def _connect_async(servers: TcpServers, library) -> Iterator[Callable[..., Shell]]:
    loop = library.new_event_loop()
    clients: list[Shell] = []

    def connect(**options: object) -> Shell:
        clients.append(Shell(AsyncClient(servers.addresses, **options), runner_on(loop)))
        return clients[-1]

    yield connect
    for client in clients:
        client.close(timeout_ms=100)
    tasks = asyncio.all_tasks(loop)
    loop.close()
    assert not tasks


async def _settled(servers: TcpServers) -> None:
    """Brokers see the end of a connection a little later than the client does."""
    for _ in range(5_000):
        if not servers.connections():
            return
        await asyncio.sleep(0.002)
