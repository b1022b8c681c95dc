"""The scrubber of a real broker finds damage that no reader has met, and the other replicas repair it."""

from pathlib import Path

import pytest

from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.client.async_client import AsyncClient
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Fetch, Fetched
from tests.integration.broker.cluster import MIB, Broker, BrokerCluster, run, wait_for, wait_until

pytestmark = pytest.mark.slow

TOPIC = "cold"
RECORDS = 24


def test_a_rotten_byte_in_a_cold_segment_is_found_and_repaired_without_a_reader(own_cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic(TOPIC, partitions=1)
        for number in range(RECORDS):
            await client.produce(TOPIC, number.to_bytes(1, "big") * (MIB // 4), partition=0)
        leader = await cluster.leader(TOPIC)
        victim = next(broker for broker in cluster.brokers.values() if broker is not leader)
        # Slow enough that the scrubber reaches the last segments only after the damage. A start reads the log, too.
        victim.flags["scrub_bytes_per_second"] = "192KiB"
        # A start verifies what is in segments by then.
        await wait_until(lambda: len(segments(victim)) > 1, "segments at the victim")
        await victim.stop()
        victim.start()
        await cluster.wait_ready(client)
        await wait_for(lambda: fetch(victim, RECORDS - 1), "all messages at the victim", is_enough=bool)
        segment = segments(victim)[-1]
        rot(segment)
        await wait_until(lambda: "stored data are damaged" in victim.logged(), "the scrubber to find it")
        await wait_until(lambda: not segment.exists(), "the repaired copy of the segment")
        for number in range(RECORDS):
            fetched = await wait_for(
                lambda number=number: fetch(victim, number),  # type: ignore[misc]
                f"message {number}",
                is_enough=bool,
            )
            assert number.to_bytes(1, "big") * (MIB // 4) in bytes(fetched[0])
        await wait_until(lambda: "all stored data were verified" in victim.logged(), "the end of the pass")

    run(own_cluster, scenario, seconds=150)


def segments(broker: Broker) -> list[Path]:
    """The full ones of the newest group, in order; the first folder is made when a journal file is full."""
    groups = sorted(broker.data.glob("groups/*"), key=lambda folder: int(folder.name))
    if not groups:
        return []
    group = groups[-1]
    return [path for path in sorted(group.glob("*.seg")) if path.stat().st_size >= MIB]


def rot(segment: Path) -> None:
    with segment.open("r+b") as file:
        file.seek(MIB // 2)
        [byte] = file.read(1)
        file.seek(MIB // 2)
        file.write(bytes([byte ^ 1]))


async def fetch(broker: Broker, offset: int) -> list[bytes | memoryview]:
    async with DirectConnection(broker.client_address) as connection:
        answer = await connection.ask(Fetch(TOPIC, 0, offset, 1, is_any_replica=True))
    if isinstance(answer, FlotillaError):
        raise answer
    assert isinstance(answer, Fetched)
    return answer.batches
