"""The disks of a majority are lost: the node that is left becomes a cluster of its own, and the others join it."""

import asyncio
import json
import shutil

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.terminal.exit_codes import FAILED, OK
from flotilla.client.async_client import AsyncClient
from flotilla.types.operations.cluster import LEARNER, ReplicasDescribed
from tests.integration.broker.cluster import BrokerCluster, run, wait_for, wait_until
from tests.integration.broker.ledger import read_all

PARTITIONS = 3


async def flotilla(*arguments: object) -> tuple[int, str]:
    result = await asyncio.to_thread(CliRunner().invoke, app, [*map(str, arguments)])
    return result.exit_code, result.output


def are_all_voters(described: ReplicasDescribed) -> bool:
    """Three of them, and none lacks an entry."""
    return len(described.replicas) == 3 and all(
        replica.role != LEARNER and replica.behind_entries == 0 for replica in described.replicas
    )


async def wait_replicated(client: AsyncClient) -> None:
    for partition in range(PARTITIONS):
        await wait_for(
            lambda partition=partition: client.admin.describe_replicas("orders", partition),
            f"all replicas of orders/{partition}",
            is_enough=are_all_voters,
        )


@pytest.mark.slow
def test_two_lost_disks_of_three_are_survived_by_command(own_cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        for number in range(60):
            await client.produce("orders", b"%d" % number, partition=number % PARTITIONS)
        await wait_replicated(client)
        survivor = cluster[1]
        before = (await client.admin.metadata()).cluster_id
        await cluster.kill_all()
        old = cluster.folder / "old disk of node 3"
        cluster[3].data.rename(old)
        shutil.rmtree(cluster[2].data)

        code, output = await flotilla("node", "recover", survivor.data, "--json")
        assert code == FAILED.code, "it only says what it would do"
        said = json.loads(output)
        assert (said["is_recovered"], said["cluster_id"], said["gone"]) == (False, "", [])
        assert {kept["name"] for kept in said["kept"]} >= {f"orders/{number}" for number in range(PARTITIONS)}
        code, output = await flotilla("node", "recover", survivor.data, "--accept-data-loss")
        assert code == OK.code, output

        survivor.start()
        expected = sorted(b"%d" % number for number in range(60))

        async def payloads() -> list[bytes]:
            return sorted(message.payload for message in await read_all(client, "orders"))

        await wait_for(payloads, "all records", is_enough=lambda found: found == expected)
        await client.produce("orders", b"alone")
        after = await client.admin.metadata()
        assert before != after.cluster_id != ""

        # A node with its old disk is a stranger.
        old.rename(cluster[3].data)
        cluster[3].start()
        await wait_until(lambda: "another cluster of the same name" in cluster[3].logged(), "the refusal")
        await cluster[3].kill()
        shutil.rmtree(cluster[3].data)

        for node in (2, 3):
            del cluster[node].flags["peers"]
            cluster[node].flags["join"] = survivor.client_address
            cluster[node].start()
        await cluster.wait_ready(client)
        await wait_replicated(client)
        # They are members like any other: the cluster goes on without the survivor.
        await survivor.kill()
        await client.produce("orders", b"without it")
        assert sorted([*expected, b"alone", b"without it"]) == await payloads()

    run(own_cluster, scenario, seconds=240)
