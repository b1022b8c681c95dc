"""A disk without room: nothing is acknowledged that is not kept, what is there can be read, and room is enough."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from time import monotonic

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.types.errors import DiskFullError, FlotillaError
from tests.integration.broker.cluster import MIB, BrokerCluster, run
from tests.integration.broker.faults import small_disk
from tests.integration.broker.figures import allowed, report
from tests.integration.broker.ledger import Ledger, Traffic, read_all
from tests.integration.ports import LOOPBACK

pytestmark = pytest.mark.slow

DISK_MIB = 64
#: Until it is removed: what an operator would find to delete.
BALLAST_MIB = 52
PAYLOAD_BYTES = 50_000
GO_ON_S_MAX = 5.0


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[Path]]:
    """Three small disks, half of each filled already."""
    with ExitStack() as stack:
        found = [stack.enter_context(small_disk(tmp_path / f"disk-{node}", DISK_MIB)) for node in (1, 2, 3)]
        for disk in found:
            (disk / "ballast").write_bytes(b"\1" * BALLAST_MIB * MIB)
        yield found


def make_room(disk: Path) -> float:
    (disk / "ballast").unlink()
    return monotonic()


async def fill(client: AsyncClient, ledger: Ledger) -> None:
    """Produces until the cluster says that there is no room.

    It may have no answer for a while before that: when disks of followers are full and the leader's is not yet.
    """
    for number in count():
        payload = b"fill/%d %b" % (number, b"x" * PAYLOAD_BYTES)
        ledger.note_sent(payload)
        sent_s = monotonic()
        try:
            receipt = await client.produce(ledger.topic, payload, partition=0, timeout_ms=2_000)
        except FlotillaError as error:
            ledger.note_failed(payload, error)
            if any(isinstance(cause, DiskFullError) for cause in causes(error)):
                return
        else:
            ledger.note_acked(payload, receipt.partition, receipt.offset, sent_s)


def causes(error: BaseException | None) -> list[BaseException]:
    """An error and what led to it."""
    return [error, *causes(error.__cause__)] if error is not None else []


@pytest.mark.parametrize("node_count", [1, 3])
def test_full_disks_refuse_and_go_on_when_there_is_room(disks: list[Path], tmp_path: Path, node_count: int) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("full", partitions=1)
        ledger = Ledger("full")
        await fill(client, ledger)
        assert len(ledger.acked) * PAYLOAD_BYTES > 2 * MIB
        # Reading takes no room.
        stored = {(message.partition, message.offset): message.payload for message in await read_all(client, "full")}
        assert stored.items() >= ledger.acked.items()

        room_s = [make_room(disk) for disk in disks][-1]
        async with Traffic(cluster.addresses, "full", producers=1, ledger=ledger) as traffic:
            gone_on_s = monotonic() - room_s
            report(f"room on the disks of {node_count} to acknowledgements", [gone_on_s])
            assert gone_on_s < allowed(GO_ON_S_MAX)
            await traffic.wait_acks(20)
        await ledger.check_every_replica(cluster, client)

    cluster = BrokerCluster(tmp_path, flags={"journal_file_bytes": "1MiB"}, hosts=(LOOPBACK,) * node_count)
    for broker, disk in zip(cluster.brokers.values(), disks, strict=False):
        broker.data = disk / "data"
        broker.flags["data_dir"] = str(broker.data)
    cluster.start()
    try:
        run(cluster, scenario)
    finally:
        cluster.end()


def test_one_full_disk_of_three_stops_no_client(disks: list[Path], tmp_path: Path) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("two-left", partitions=1)
        await cluster.lead(client, "two-left", 0, 1)
        ledger = Ledger("two-left")
        # At a pace at which the disk does not fill a second time when its ballast is gone.
        traffic = Traffic(cluster.addresses, "two-left", padding_bytes=20_000, pause_s=0.01, ledger=ledger)
        async with traffic:
            # Its disk is full long before this is through; a broker with room takes over.
            await traffic.wait_acks(900)
            assert (await cluster.leader("two-left")).node != 1
            make_room(disks[0])
            await traffic.wait_acks(20)
        assert not ledger.refused
        await ledger.check_every_replica(cluster, client)

    cluster = BrokerCluster(tmp_path, flags={"journal_file_bytes": "1MiB"})
    cluster[1].data = disks[0] / "data"
    cluster[1].flags["data_dir"] = str(cluster[1].data)
    cluster.start()
    try:
        run(cluster, scenario)
    finally:
        cluster.end()
