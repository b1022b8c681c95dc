"""Real brokers over real links, whose wall clocks are set while they run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.runtime.clock import LoopClock
from flotilla.server import Server
from flotilla.types.address import Address
from flotilla.types.operations.cluster import CLOCK_OFF
from flotilla.types.settings import NodeSettings, Peer
from tests.integration.broker.cluster import wait_for, wait_until
from tests.integration.ports import free_ports

DAY_MS = 86_400_000
RECORDS = 200

pytestmark = pytest.mark.slow


class WallClock(LoopClock):
    """A machine's clocks, of which the wall clock can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[tuple[dict[int, Server], dict[int, WallClock], list[str]]]:
    ports = [Address("127.0.0.1", port) for port in free_ports(6)]
    peers = tuple(Peer(node, ports[node - 1]) for node in (1, 2, 3))
    clocks = {node: WallClock() for node in (1, 2, 3)}
    async with AsyncExitStack() as stack:
        servers = {}
        for node in (1, 2, 3):
            settings = NodeSettings(
                node_id=node,
                data_dir=str(folder / str(node)),
                peers=peers,
                peer_listen=ports[node - 1],
                listen=ports[node + 2],
                grpc_listen=None,
                http_listen=None,
            )
            servers[node] = Server(settings, clocks[node])
            stack.push_async_callback(servers[node].stop)
            await servers[node].start()
        yield servers, clocks, [str(address) for address in ports[3:]]


def log_starts(servers: dict[int, Server], topic: str) -> list[int]:
    return [
        host.machine.log_start
        for server in servers.values()
        for host in server.membership.hosts.values()
        if host._topic.name == topic
    ]


@pytest.mark.parametrize("jump_ms", [8 * DAY_MS, -8 * DAY_MS])
def test_the_clock_of_a_leader_removes_nothing_at_any_replica(tmp_path: Path, jump_ms: int) -> None:
    """Topics with a retention of seconds show that every leader has looked, and that ages go on."""

    async def scenario() -> None:
        async with three(tmp_path) as (servers, clocks, addresses), AsyncClient(addresses, timeout_ms=30_000) as client:
            await wait_until(
                lambda: len(servers[1].catalog.brokers()), "three brokers", is_enough=lambda count: count == 3
            )
            await client.create_topic("kept", partitions=1, replication_factor=3)
            await client.create_topic("short", partitions=3, replication_factor=3, retention_ms=2_000)
            await asyncio.gather(*[client.produce("kept", b"%d" % number) for number in range(RECORDS)])
            for partition in range(3):
                await client.produce("short", b"old", partition=partition)
            # The broker that answers may have a replica that has not heard its leader yet.
            kept = await wait_for(
                lambda: client.describe_topic("kept"),
                "a leader",
                is_enough=lambda found: found.partitions[0].leader > 0,
            )
            leader = kept.partitions[0].leader
            clocks[leader].ahead_ms = jump_ms
            await wait_until(
                lambda: log_starts(servers, "short"), "short is trimmed", is_enough=lambda found: found == [1] * 9
            )
            assert log_starts(servers, "kept") == [0, 0, 0]
            clock = servers[leader]._outside.clock
            assert (clock.jump_count, clock.is_off) == (1, True)
            async with AsyncClient([addresses[leader - 1]], timeout_ms=30_000) as near:
                described = await near.admin.describe_node()
            assert CLOCK_OFF in [warning.code for warning in described.warnings]
            for server in servers.values():
                assert abs(server.broker.now_ms() - LoopClock().now_ms()) < 2_000

    asyncio.run(scenario())
