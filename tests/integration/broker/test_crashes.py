"""Nodes die, stop and come back under load: what was acknowledged is there, once and in order."""

import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.client.async_client import AsyncClient
from flotilla.codec.batch.records import encode_payloads
from flotilla.types.errors import AlreadyExistsError, FlotillaError, OutcomeUnknownError
from flotilla.types.operations import (
    LATEST,
    Fetch,
    Fetched,
    ListOffsets,
    OffsetCommitted,
    OffsetFound,
    Produce,
    ReadOffset,
)
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.broker.figures import allowed, report
from tests.integration.broker.ledger import Traffic
from tests.integration.journal_damage import cut_journal, garble_journal_end, tear_journal

pytestmark = pytest.mark.slow

#: A crash is noticed by the links that break; only a silent death takes an election timeout to notice.
CRASH_FAILOVER_S_MAX = 3.0
SILENT_FAILOVER_S_MAX = 5.0


def test_the_leader_of_a_partition_is_killed(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("leaderless", partitions=1)
        gaps: list[float] = []
        async with Traffic(cluster.addresses, "leaderless") as traffic:
            for _ in range(3):
                leader = await cluster.leader("leaderless")
                killed_s = monotonic()
                await leader.kill()
                gaps.append(await traffic.wait_failover(killed_s))
                await traffic.wait_acks(50)
                leader.start()
                await cluster.wait_ready(client)
        report("kill -9 of a leader", gaps)
        assert max(gaps) < allowed(CRASH_FAILOVER_S_MAX)
        assert not traffic.ledger.refused
        assert not traffic.ledger.unsure
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)


def test_a_follower_is_killed(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        topic = await client.create_topic("unfollowed", partitions=1)
        async with Traffic(cluster.addresses, "unfollowed") as traffic:
            leader = await cluster.leader("unfollowed")
            follower = next(cluster[node] for node in topic.partitions[0].replicas if node != leader.node)
            killed_s = monotonic()
            await follower.kill()
            await traffic.wait_acks(100)
            # A majority is enough: no request waits for the broker that is gone.
            assert traffic.ledger.longest_wait_s(since_s=killed_s) < allowed(1.0)
            follower.start()
            await cluster.wait_ready(client)
            await traffic.wait_acks(50)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)


def test_the_controller_is_killed(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("uncontrolled", partitions=3)
        async with Traffic(cluster.addresses, "uncontrolled", partitions=3) as traffic:
            controller = cluster[(await cluster.wait_ready(client)).controller]
            killed_s = monotonic()
            await controller.kill()
            # Another broker takes changes of the metadata by now, and partitions go on.
            await _create(client, "made-without-it", partitions=3)
            report("a topic after kill -9 of the controller", [monotonic() - killed_s])
            await client.produce("made-without-it", b"x", partition=0)
            await traffic.wait_acks(50)
            controller.start()
            await cluster.wait_ready(client)
            await cluster.wait_led("made-without-it", partitions=3)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)


def test_all_are_killed_at_once(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("blackout", partitions=3)
        async with Traffic(cluster.addresses, "blackout", partitions=3) as traffic:
            await traffic.wait_acks(100)
            await cluster.kill_all()
            killed_s = monotonic()
            cluster.start()
            gaps = [await traffic.wait_failover(killed_s, partition) for partition in range(3)]
            report("kill -9 of all, to acknowledgements after the restart", gaps)
            await traffic.wait_acks(20)
        assert not traffic.ledger.refused
        assert not traffic.ledger.unsure
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)


@pytest.mark.parametrize("damage", [tear_journal, garble_journal_end, cut_journal])
def test_a_journal_with_a_torn_end(cluster: BrokerCluster, damage: Callable[[Path], None]) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        name = f"torn-by-{damage.__name__}"
        await client.create_topic(name, partitions=2)
        async with Traffic(cluster.addresses, name, partitions=2) as traffic:
            victim = await cluster.leader(name)
            await victim.kill()
            damage(victim.data)
            await traffic.wait_acks(50)
            victim.start()
            await cluster.wait_ready(client)
            await traffic.wait_acks(50)
        assert not traffic.ledger.refused
        # Whatever it lost of its own journal it has from the others; it can lead like any other.
        await traffic.ledger.check_every_replica(cluster, client)

    run(cluster, scenario)


def test_a_leader_that_was_stopped_serves_nothing_stale_when_it_wakes_up(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("paused", partitions=1)
        async with Traffic(cluster.addresses, "paused") as traffic:
            await client.commit_offset("paused", "readers", 0, 1)
            sleeper = await cluster.leader("paused")
            others = [cluster[node].client_address for node in cluster.running if node != sleeper.node]
            traffic.ledger.note_sent(b"elsewhere/0")
            async with DirectConnection(sleeper.client_address) as connection:
                sleeper.signal(signal.SIGSTOP)
                stopped_s = monotonic()
                await cluster.wait_led("paused", excluded=sleeper.node)
                async with AsyncClient(others) as awake:
                    receipt = await awake.produce("paused", b"elsewhere/0", partition=0)
                    report("SIGSTOP of a leader, to a client that comes later", [monotonic() - stopped_s])
                    assert await awake.commit_offset("paused", "readers", 0, 2) == 2
                end = receipt.offset + 1
                # These wait in its socket, and are the first that it hears when it wakes up.
                connection.send(ListOffsets("paused", 0, LATEST))
                connection.send(ReadOffset("readers", "paused", 0))
                connection.send(Fetch("paused", 0, end - 1, max_bytes=1_000))
                connection.send(Produce("paused", 0, encode_payloads([b"into the void"], timestamp_ms=1)))
                sleeper.signal(signal.SIGCONT)
                answers = [await connection.receive() for _ in range(4)]
            # Answers come in any order. Each is refused, or knows all that others have acknowledged meanwhile.
            for answer in answers:
                assert isinstance(answer, FlotillaError | OffsetFound | OffsetCommitted | Fetched)
                if isinstance(answer, OffsetFound):
                    assert answer.offset >= end
                elif isinstance(answer, OffsetCommitted):
                    assert answer.offset == 2
                elif isinstance(answer, Fetched):
                    assert answer.next_offset >= end
                    assert answer.batches
            gap = await traffic.wait_failover(stopped_s)
            report("SIGSTOP of a leader, to producers at work", [gap])
            assert gap < allowed(SILENT_FAILOVER_S_MAX)
            await cluster.wait_ready(client)
            await traffic.wait_acks(50)
        traffic.ledger.note_acked(b"elsewhere/0", receipt.partition, receipt.offset, stopped_s)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

    try:
        run(cluster, scenario)
    finally:
        for node in cluster.running:
            cluster[node].signal(signal.SIGCONT)


async def _create(client: AsyncClient, topic: str, *, partitions: int) -> None:
    """A request that was on its way when its broker died may have done it or not."""
    try:
        await client.create_topic(topic, partitions=partitions)
    except OutcomeUnknownError:
        try:
            await client.create_topic(topic, partitions=partitions)
        except AlreadyExistsError:
            pass
