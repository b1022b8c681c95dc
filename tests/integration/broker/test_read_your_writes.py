"""Three real brokers, and a client that asks another one each time: it sees every change that it made before."""

import asyncio
import os
import sys
from random import Random

import pytest

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.seen_metadata import SeenMetadata
from flotilla.client._options import new_session
from flotilla.client.async_client import AsyncClient
from flotilla.types.address import parse_address
from flotilla.types.operations import AlterTopic, CreateTopic, DeleteTopic, GetMetadata, TopicInfo
from tests.integration.broker.cluster import ROOT, BrokerCluster, run

pytestmark = pytest.mark.slow

ROUNDS = 200
TIMEOUT_MS = 30_000


async def described(network: Network, topic: str, *, is_linearizable: bool = False) -> TopicInfo | None:
    """What the broker that this network is connected to says; None: there is no such topic."""
    found = await network.call(GetMetadata(is_linearizable=is_linearizable), TIMEOUT_MS)
    assert not found.is_stale
    return next((info for info in found.topics if info.name == topic), None)


async def change_and_look(networks: list[Network], chance: Random, topic: str, *, is_linearizable: bool) -> None:
    def any_node() -> Network:
        return chance.choice(networks)

    async def look() -> TopicInfo | None:
        return await described(any_node(), topic, is_linearizable=is_linearizable)

    await any_node().call(CreateTopic(topic, 1), TIMEOUT_MS)
    created = await look()
    assert created is not None
    await any_node().call(AlterTopic(topic, settings={"max_deliveries": "7"}), TIMEOUT_MS)
    altered = await look()
    assert altered is not None
    assert altered.settings["max_deliveries"] == "7"
    await any_node().call(DeleteTopic(topic), TIMEOUT_MS)
    assert await look() is None


def test_a_client_sees_its_changes_at_every_node(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        chance, seen = Random(7), SeenMetadata()
        # One client: each session asks its own broker, and all share what they have seen.
        networks = [Network(new_session([parse_address(at)], "test", seen=seen)) for at in cluster.addresses]
        try:
            for number in range(ROUNDS):
                await change_and_look(networks, chance, f"own-{number}", is_linearizable=False)
        finally:
            await asyncio.gather(*[network.close() for network in networks])

    run(cluster, scenario, seconds=240)


def test_clients_see_what_was_acknowledged_to_others(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        chance = Random(8)
        networks = [Network(new_session([parse_address(at)], "test")) for at in cluster.addresses]
        try:
            for number in range(ROUNDS // 4):
                await change_and_look(networks, chance, f"shared-{number}", is_linearizable=True)
        finally:
            await asyncio.gather(*[network.close() for network in networks])

    run(cluster, scenario, seconds=120)


def test_a_committed_offset_is_seen_by_every_client_also_after_a_change_of_leaders(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("committed", partitions=1)
        await client.produce_many("committed", [b"%d" % number for number in range(40)])
        for offset in range(1, 40):
            await client.commit_offset("committed", "readers", 0, offset)
            if offset % 8 == 0:
                await client.admin.transfer_leadership("committed", 0)
            address = cluster.addresses[offset % 3]
            async with AsyncClient([address], timeout_ms=TIMEOUT_MS) as other:
                assert await other.committed_offset("committed", "readers", 0) == offset
            assert await client.committed_offset("committed", "readers", 0) == offset

    run(cluster, scenario, seconds=120)


async def flotilla(address: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "flotilla.cli",
        *arguments,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "FLOTILLA_SERVERS": address},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def test_one_command_sees_what_the_last_one_did_at_another_node(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        for number in range(3):
            here, there = cluster.addresses[number], cluster.addresses[(number + 1) % 3]
            await flotilla(here, "topic", "create", f"cli-{number}", "--partitions", "1")
            assert f"cli-{number}" in await flotilla(there, "topic", "list")

    run(cluster, scenario, seconds=120)
