"""A disk without room: nothing is acknowledged that is not kept, what is there can be read, and room is enough."""

from pathlib import Path
from time import monotonic

import pytest

from flotilla.client.aio import AsyncClient
from flotilla.types.errors import DiskFullError, FlotillaError
from tests.integration.broker.cluster import BrokerCluster, run, wait_for
from tests.integration.broker.faults import small_disk
from tests.integration.broker.ledger import Ledger, read_all

pytestmark = pytest.mark.slow

DISK_MIB = 40


async def fill(cluster: BrokerCluster, client: AsyncClient, ledger: Ledger) -> FlotillaError:
    """Produces until that fails; the error."""
    number = 0
    while True:
        payload = b"fill.0/%d %b" % (number, b"x" * 100_000)
        ledger.note_sent(payload)
        sent_s = monotonic()
        try:
            receipt = await client.produce(ledger.topic, payload, partition=0, timeout_ms=2_000)
        except FlotillaError as error:
            ledger.note_failed(payload, error)
            return error
        ledger.note_acked(payload, *receipt, sent_s)
        number += 1


@pytest.mark.parametrize("nodes", [1, 3])
def test_full_disks_refuse_and_go_on_when_there_is_room(tmp_path: Path, nodes: int) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("full", partitions=1)
        ledger = Ledger("full")
        error = await fill(cluster, client, ledger)
        print(f"\n{len(ledger.acked)} stored, then: {error!r}")
        assert isinstance(error, DiskFullError)
        # Reading takes no room.
        messages = await read_all(client, "full")
        assert [message.payload for message in messages][: len(ledger.acked)] == list(ledger.acked.values())

        for ballast in tmp_path.glob("disk-*/ballast"):
            ballast.unlink()
        room_s = monotonic()
        await wait_for(lambda: client.produce("full", b"after/0", timeout_ms=2_000), "room", is_enough=bool)
        print(f"went on {monotonic() - room_s:.2f} s after there was room")
        assert monotonic() - room_s < 5

    with small_disk(tmp_path / "disk", DISK_MIB):
        pass

    cluster.start()
    try:
        run(cluster, scenario)
    finally:
        cluster.end()
