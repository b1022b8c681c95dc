"""A disk that does not return the reads of one partition: that partition is moved and named, all others go on."""

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from time import monotonic
from typing import TypeVar

import pytest

from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.client.async_client import AsyncClient
from flotilla.replica.replica import ReplicaOptions
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.operations import Fetch, Fetched
from flotilla.types.operations.cluster import DISK_STALLED, DescribeNode, NodeDescribed, NodeWarning
from tests.integration.broker.cluster import Broker, BrokerCluster, run, wait_for, wait_until
from tests.integration.broker.figures import allowed, report
from tests.integration.broker.hanging_disk import put_on_machines

pytestmark = pytest.mark.slow

COLD = "cold"
BUSY = "busy"
BUSY_PARTITIONS = 6
KIB = 1024
#: A message in the file of the first one.
UNREAD = 8
HANG_S = 30.0
#: Longer than anything that a test waits for.
HANG_FOR_EVER_MS = 3_600_000
QUIET_S = 8.0
#: A request at the replica whose disk hangs is refused after 3 s; a client then goes to another one.
REFUSED_S_MAX = 6.0
SERVED_S_MAX = 10.0
#: Beside other processes, a p99 of a few hundred requests is off by this much without any fault.
NOISE_S = 0.1

#: A partition takes a snapshot after this many.
SNAPSHOT_ENTRIES = ReplicaOptions().snapshot_entries + 100
_CLIENTS = 8

T = TypeVar("T")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three nodes that are not running yet."""
    cluster = BrokerCluster(tmp_path)
    try:
        yield cluster
    finally:
        cluster.end()


def test_reads_of_one_partition_hang_for_half_a_minute(cluster: BrokerCluster) -> None:
    machines = put_on_machines(cluster)
    cluster.start()

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic(BUSY, partitions=BUSY_PARTITIONS)
        await client.create_topic(COLD, partitions=1)
        await fill(client, BUSY, BUSY_PARTITIONS)
        await fill(client, COLD, 1)
        victim = await cluster.leader(COLD)
        folder = await wait_until(lambda: newest_group(victim), "the partition's messages on disk")
        # The file is open at the node from here on, and only this message is in memory.
        assert is_fetched(await fetch(victim, 0))
        before = await cluster.wait_led(BUSY, BUSY_PARTITIONS)
        partitions = [number for number, node in before.items() if node == victim.node]
        assert partitions, "the node leads other partitions as well"
        quiet = await measure(client, partitions, QUIET_S)

        logs = {node: len(broker.log.read_bytes()) for node, broker in cluster.brokers.items()}
        machines[victim.node].hang_reads(f"groups/{folder}/*", int(HANG_S * 1000))
        began_s = monotonic()
        watching = asyncio.create_task(watch(cluster, victim, before))
        refused = asyncio.create_task(timed(fetch(victim, UNREAD)))
        served = asyncio.create_task(timed(read_one(client, COLD, 0, UNREAD)))
        hanging = await measure(client, partitions, HANG_S - 2.0)
        assert machines[victim.node].count("hangs") > 0, "the disk was asked"

        error, refused_s = await refused
        assert isinstance(error, UnavailableError), error
        assert refused_s < allowed(REFUSED_S_MAX)
        payload, served_s = await served
        assert payload == str(UNREAD).encode() * (64 * KIB)
        assert served_s < allowed(SERVED_S_MAX), "from another replica, long before the client's limit"
        assert (await cluster.leader(COLD)) is not victim
        named, named_s = await watching
        assert monotonic() - began_s < HANG_S, "all of it while the disk hung"

        machines[victim.node].heal_disk()
        await wait_for(lambda: warnings_of(victim), "the end of the warning", is_enough=lambda found: not found)
        await wait_for(lambda: fetch(victim, UNREAD), "reads at the healed disk", is_enough=is_fetched)
        again = await measure(client, partitions, QUIET_S)
        assert await cluster.leaders(BUSY) == before

        report("requests to other partitions of the node, quiet before", quiet)
        report("requests to other partitions of the node, disk hangs", hanging)
        report("requests to other partitions of the node, quiet after", again)
        report("refused, served, named after", [refused_s, served_s, named_s])
        usual_s = max(p99(quiet), p99(again))
        print(f"p99 {1000 * usual_s:.1f} ms quiet, {1000 * p99(hanging):.1f} ms while the disk hangs")
        assert p99(hanging) <= 2 * usual_s + NOISE_S
        assert named.partitions == [f"{COLD}/0"]
        assert folder in named.message
        for node, broker in cluster.brokers.items():
            lines = broker.log.read_bytes()[logs[node] :].decode().splitlines()
            assert not [line for line in lines if "peer down" in line], "links are silent after missing heartbeats"
            assert not [line for line in lines if "leads no longer" in line and BUSY in line]
        [hung] = lines_with(victim, "the disk does not return reads")
        assert f"{COLD}/0" in hung

    run(cluster, scenario, seconds=180)


def test_a_node_starts_while_the_snapshot_of_one_partition_hangs(cluster: BrokerCluster) -> None:
    machines = put_on_machines(cluster)
    cluster.start()

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic(BUSY, partitions=1)
        await client.create_topic(COLD, partitions=1)
        await client.produce(BUSY, b"small")
        victim = cluster[2]
        await make_entries(cluster, SNAPSHOT_ENTRIES)
        snapshot = await wait_until(lambda: newest_snapshot(victim), "a snapshot")
        await victim.kill()
        machines[victim.node].hang_reads(snapshot, HANG_FOR_EVER_MS)
        victim.start()
        line = "the disk does not return a file, and the node starts without its group"
        told = await wait_until(lambda: lines_with(victim, line), "the reason of the delay")
        assert snapshot in told[0]
        await cluster.wait_ready(client)
        await wait_for(lambda: fetch(victim, 0, BUSY), "the other partition", is_enough=is_fetched)
        [named] = await wait_for(lambda: warnings_of(victim), "a warning", is_enough=bool)
        assert named.partitions == [f"{COLD}/0"]
        assert snapshot in named.message
        assert isinstance(await fetch(victim, 0), FlotillaError)
        assert machines[victim.node].count("hangs") > 0
        for node, view in (await cluster.views()).items():
            assert all(broker.is_alive for broker in view.brokers), f"as node {node} sees it"
        machines[victim.node].heal_disk()
        await wait_for(lambda: fetch(victim, 0), "reads at the healed disk", is_enough=is_fetched)

    run(cluster, scenario, seconds=180)


async def make_entries(cluster: BrokerCluster, count: int) -> None:
    """By several clients that wait for each message: one client would put many into one entry."""

    async def send(share: int) -> None:
        async with cluster.client() as client:
            for _ in range(share):
                await client.produce(COLD, b"small", partition=0)

    await asyncio.gather(*(send(count // _CLIENTS + 1) for _ in range(_CLIENTS)))


def newest_snapshot(broker: Broker) -> str:
    """Its path below the data directory; empty: there is none yet."""
    found = max(broker.data.glob("groups/*/*.snap"), key=lambda path: int(path.parent.name), default=None)
    return "" if found is None else str(found.relative_to(broker.data))


def lines_with(broker: Broker, text: str) -> list[str]:
    return [line for line in broker.logged().splitlines() if text in line]


async def fill(client: AsyncClient, topic: str, partitions: int) -> None:
    """Enough that the journal rolls and the messages go to segments."""
    for number in range(64):
        payload = str(number % 10).encode() * (64 * KIB)
        await asyncio.gather(*(client.produce(topic, payload, partition=part) for part in range(partitions)))


def newest_group(broker: Broker) -> str:
    """The folder of the group that was created last, once it has segments."""
    folders = {path.parent.name for path in broker.data.glob("groups/*/*.seg")}
    newest = max((path.name for path in broker.data.glob("groups/*")), key=int, default="")
    return newest if newest in folders else ""


async def watch(cluster: BrokerCluster, victim: Broker, leaders: dict[int, int]) -> tuple[NodeWarning, float]:
    """Waits until the node names the partition; meanwhile no node is down, and no other leader changes."""
    began_s = monotonic()

    async def look() -> list[NodeWarning]:
        for node, view in (await cluster.views()).items():
            assert all(broker.is_alive for broker in view.brokers), f"as node {node} sees it"
        assert await cluster.leaders(BUSY) == leaders
        return await warnings_of(victim)

    [found] = await wait_for(look, "a warning", is_enough=bool)
    return found, monotonic() - began_s


async def warnings_of(broker: Broker) -> list[NodeWarning]:
    async with DirectConnection(broker.client_address) as connection:
        described = await connection.ask(DescribeNode())
    assert isinstance(described, NodeDescribed), described
    return [warning for warning in described.warnings if warning.code == DISK_STALLED]


async def fetch(broker: Broker, offset: int, topic: str = COLD) -> Fetched | FlotillaError:
    """A message of the first partition, from this node and no other."""
    async with DirectConnection(broker.client_address) as connection:
        answer = await connection.ask(Fetch(topic, 0, offset, 1, is_any_replica=True))
    assert isinstance(answer, Fetched | FlotillaError), answer
    return answer


def is_fetched(answer: Fetched | FlotillaError) -> bool:
    return isinstance(answer, Fetched) and bool(answer.batches)


async def read_one(client: AsyncClient, topic: str, partition: int, offset: int) -> bytes:
    [message] = await client.peek(topic, partition, offset=offset, max_messages=1)
    return bytes(message.payload)


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    began_s = monotonic()
    return await work, monotonic() - began_s


async def measure(client: AsyncClient, partitions: list[int], seconds: float) -> list[float]:
    """How long produces, and reads of old messages, take in these partitions, one after the other."""
    found = []
    until_s = monotonic() + seconds
    while monotonic() < until_s:
        for partition in partitions:
            for request in (client.produce(BUSY, b"small", partition=partition), read_one(client, BUSY, partition, 0)):
                began_s = monotonic()
                await request
                found.append(monotonic() - began_s)
        await asyncio.sleep(0.01)
    return found


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]
