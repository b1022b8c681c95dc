"""A backup of a running broker, and the cluster that is made of it: nothing that it holds is lost or changed."""

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.local_cluster import LocalCluster
from flotilla.cli.recovery.manifest import read_manifest
from flotilla.cli.recovery.places import open_place
from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.testing import LocalBroker
from flotilla.types.errors import NotFoundError
from tests.integration.lake.object_store import object_store  # noqa: F401
from tests.upgrade.node_here import node_here, records


def flotilla(*args: object, code: int = 0, servers: str = "") -> Any:
    """The JSON that the command prints."""
    result = CliRunner(env={"FLOTILLA_SERVERS": servers}).invoke(app, [*map(str, args), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if result.stdout else result.output


@pytest.fixture
def source() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def produce(client: Client, topic: str, first: int, end: int) -> None:
    for number in range(first, end):
        client.produce(topic, b"%d" % number, key=b"k%d" % (number % 3), headers={"n": b"%d" % number})


def fill(client: Client) -> None:
    """Everything that a cluster remembers: settled, failed, dead and leased messages, positions, schedules, users."""
    client.create_topic("orders", partitions=2)
    client.create_topic("audit")
    produce(client, "trimmed", 0, 9)
    produce(client, "orders", 0, 20)
    with client.queue("orders", group="workers", prefetch=20) as consumer:
        leased = {}
        while len(leased) < 20:
            leased |= {message.payload: message for message in consumer.poll(20)}
        for number in range(10):
            leased[b"%d" % number].ack()
        leased[b"10"].reject(reason="broken")
        # The rest stays leased: its leases are not in any log.
        consumer.flush()
        with client.stream("orders", group="readers") as stream:
            seen = 0
            while seen < 20:
                seen += len(stream.poll())
            stream.commit()
        client.schedules.create("nightly", topic="audit", cron="0 3 * * *", payload=b"run")
        client.admin.users.create("ann", "a long password")
        client.admin.grants.add("ann", "consume", "orders")
        wait_dead(client)


def wait_dead(client: Client) -> None:
    dead = client.dead_letters("orders", "workers").topic
    while True:
        try:
            if records(client, dead):
                return
        except NotFoundError:
            continue


def take_snapshots(broker: LocalBroker) -> None:
    """Of all groups: then their logs begin where retention says."""
    server = broker._server
    (trimmed,) = (topic.partitions[0].group for topic in server.catalog.topics() if topic.name == "trimmed")

    async def take() -> None:
        groups = server.node.store.groups
        for group in groups:
            server.node.runtime.snapshot(group)
        while any(log.snapshot() is None for log in groups.values()) or groups[trimmed].first_index() == 1:
            await server.node.runtime.turned()

    broker._loop.run(take())


def test_a_restored_cluster_is_the_one_that_was_copied(source: LocalBroker, tmp_path: Path) -> None:
    place, data = tmp_path / "backups", tmp_path / "data"
    with source.client() as client:
        fill(client)
        first = flotilla("cluster", "backup", place, servers=source.address)
        client.trim("trimmed", {0: 6})
        take_snapshots(source)
        produce(client, "orders", 20, 24)
        second = flotilla("cluster", "backup", place, servers=source.address)
        before = {topic: records(client, topic) for topic in ("orders", "dlq.workers.orders", "trimmed")}
        assert (first["backup"], second["backup"]) == (1, 2)
        assert second["copied_bytes"] < first["copied_bytes"], "what was copied once is not copied again"
        produce(client, "orders", 24, 30)
    logs = {log.name: log for log in read_manifest(open_place(str(place))).logs}
    assert logs["trimmed/0"].base_index > 0
    assert all(log.snapshot is not None for log in logs.values())
    verified = flotilla("backup", "verify", place)
    assert verified["problems"] == []
    restored = flotilla("cluster", "restore", place, "--data-dir", data)
    assert restored["cluster_id"] not in ("", second["cluster_id"])
    flotilla("node", "check", data)

    with node_here(data) as client:
        assert client.admin.metadata().cluster_id == restored["cluster_id"]
        assert {topic: records(client, topic) for topic in before} == before
        positions = [client.committed_offset("orders", "readers", partition) for partition in (0, 1)]
        assert sum(filter(None, positions)) == 20
        assert [one.name for one in client.schedules.list()] == ["nightly"]
        assert [user.name for user in client.admin.users.list()] == ["ann"]
        assert [str(grant) for grant in client.admin.grants.list()] == ["ann consume orders"]
        # What was settled stays settled, what is dead stays dead; what was leased is delivered again.
        with client.queue("orders", group="workers", prefetch=50) as consumer:
            found: set[bytes] = set()
            while len(found) < 13:
                found |= {message.payload for message in consumer.poll(50)}
            assert found == {b"%d" % number for number in range(11, 24)}
        receipt = client.produce("orders", b"new", partition=0)
        assert receipt.offset == max(offset for partition, offset, *_ in before["orders"] if partition == 0) + 1


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with one small backup. Tests change copies of it."""
    place = tmp_path_factory.mktemp("taken")
    with LocalBroker() as broker, broker.client() as client:
        produce(client, "orders", 0, 5)
        flotilla("cluster", "backup", place, servers=broker.address)
    return place


@pytest.fixture
def place(taken: Path, tmp_path: Path) -> Path:
    shutil.copytree(taken, tmp_path / "place")
    return tmp_path / "place"


def test_damage_is_found_and_never_restored(place: Path, tmp_path: Path) -> None:
    piece = max(place.rglob("*.log"))
    content = bytearray(piece.read_bytes())
    content[-1] ^= 1
    piece.write_bytes(content)
    found = flotilla("backup", "verify", place, code=1)
    assert [problem for problem in found["problems"] if piece.name in problem]
    assert "is damaged" in flotilla("cluster", "restore", place, "--data-dir", tmp_path / "data", code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["place"], "a restore that fails leaves nothing"
    piece.unlink()
    assert "is missing" in flotilla("backup", "verify", place, code=1)["problems"][0]


def test_nodes_join_a_restored_cluster_and_get_replicas(place: Path, tmp_path: Path) -> None:
    flotilla("cluster", "restore", place, "--data-dir", tmp_path / "1")
    with ExitStack() as others:
        with node_here(tmp_path / "1") as client:
            before = records(client, "orders")
            (first,) = [broker.client for broker in client.admin.metadata().brokers]
            second, _ = [others.enter_context(node_here(tmp_path / str(n), node_id=n, join=first)) for n in (2, 3)]
            while len(client.admin.metadata().brokers) < 3:
                time.sleep(0.05)
            client.alter_topic("orders", replication_factor=3)
            while True:
                time.sleep(0.05)
                (part,) = client.describe_topic("orders").partitions
                if sorted(part.replicas) == [1, 2, 3] and not part.target:
                    break
        # The node that was restored is gone, and the others have everything.
        assert len(before) == 5
        assert records(second, "orders") == before


def test_a_backup_of_a_later_version_is_refused(place: Path) -> None:
    manifest = place / "backup-000001.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2', 1))
    assert "of backup version 2; this version of flotilla reads up to 1" in flotilla("backup", "verify", place, code=2)


def test_a_directory_in_use_and_a_place_of_another_cluster_are_refused(
    place: Path, tmp_path: Path, source: LocalBroker
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    assert "is not empty" in flotilla("cluster", "restore", place, "--data-dir", tmp_path / "data", code=2)
    assert "name another place" in flotilla("cluster", "backup", place, servers=source.address, code=2)


def test_older_backups_are_removed_with_what_only_they_need(source: LocalBroker, tmp_path: Path) -> None:
    with source.client() as client:
        client.create_topic("old")
        produce(client, "orders", 0, 5)
        flotilla("cluster", "backup", tmp_path, servers=source.address)
        (group,) = [log.group for log in read_manifest(open_place(str(tmp_path))).logs if log.topic == "old"]
        client.delete_topic("old")
        taken = flotilla("cluster", "backup", tmp_path, "--keep", 1, servers=source.address)
    assert taken["removed"] == [1]
    assert [row["backup"] for row in flotilla("backup", "list", tmp_path)["backups"]] == [2]
    assert flotilla("backup", "verify", tmp_path)["problems"] == []
    assert list((tmp_path / "groups" / f"{group:020d}").iterdir()) == [], "the log of the deleted topic is gone"


@pytest.mark.slow
def test_a_backup_lives_in_an_object_store(source: LocalBroker, tmp_path: Path, object_store: str) -> None:  # noqa: F811
    place = f"{object_store}/backups"
    with source.client() as client:
        produce(client, "orders", 0, 5)
        before = records(client, "orders")
        flotilla("cluster", "backup", place, servers=source.address)
        assert flotilla("cluster", "backup", place, servers=source.address)["copied_bytes"] < 1_000
    assert flotilla("backup", "verify", place)["problems"] == []
    flotilla("cluster", "restore", place, "--data-dir", tmp_path / "data", "--cluster", "copy")
    with node_here(tmp_path / "data", "copy") as client:
        assert records(client, "orders") == before
        assert client.admin.metadata().cluster_name == "copy"


@pytest.mark.slow
def test_what_was_acknowledged_has_its_effect_in_the_backup(cluster: LocalCluster, tmp_path: Path) -> None:
    """Of three nodes under load: a worker that forwards and acknowledges, and transactions over two partitions."""
    servers = ",".join(cluster.servers)

    async def forward(client: AsyncClient, is_over: asyncio.Event) -> None:
        async with client.queue("in", group="workers") as consumer:
            while not is_over.is_set():
                for message in await consumer.poll(8, wait_ms=100):
                    await client.produce("out", message.payload)
                    await message.ack(wait=False)

    async def feed(client: AsyncClient, is_over: asyncio.Event) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            await client.produce("in", b"%d" % number)
            async with client.transaction() as transaction:
                await transaction.produce("pairs", b"%d" % number, partition=0)
                await transaction.produce("pairs", b"%d" % number, partition=1)

    async def scenario() -> None:
        is_over = asyncio.Event()
        async with AsyncClient(servers, timeout_ms=30_000) as client:
            for topic in ("in", "out", "pairs"):
                await client.create_topic(topic, partitions=2, replication_factor=3)
            tasks = [asyncio.create_task(work(client, is_over)) for work in (forward, feed)]
            try:
                for _ in range(3):
                    await asyncio.to_thread(flotilla, "cluster", "backup", tmp_path / "place", servers=servers)
            finally:
                is_over.set()
                await asyncio.gather(*tasks)

    asyncio.run(scenario())
    flotilla("cluster", "restore", tmp_path / "place", "--data-dir", tmp_path / "data", "--node-id", 9)
    name = flotilla("backup", "list", tmp_path / "place")["backups"][0]["cluster_name"]
    with node_here(tmp_path / "data", name, node_id=9) as client:
        while client.admin.transactions().awaited_count:
            time.sleep(0.02)
        given = {payload for _, _, payload, _ in records(client, "in")}
        forwarded = {payload for _, _, payload, _ in records(client, "out")}
        unsettled: set[bytes] = set()
        with client.queue("in", group="workers") as consumer:
            while len(unsettled) < client.describe_group("in", "workers").lag:
                unsettled |= {message.payload for message in consumer.poll(wait_ms=100)}
        assert len(given) > 3
        assert given - unsettled <= forwarded
        pairs = records(client, "pairs")
        sides = [{payload for partition, _, payload, _ in pairs if partition == side} for side in (0, 1)]
        assert sides[0] == sides[1], "a transaction is there as a whole or not at all"
        assert len(pairs) == 2 * len(sides[0])
        assert [broker.node for broker in client.admin.metadata().brokers] == [9]
