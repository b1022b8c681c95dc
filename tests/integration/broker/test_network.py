"""Cables are pulled and put back: the majority goes on, the minority refuses, and all brokers agree afterwards."""

import os
from collections.abc import Iterator
from time import monotonic

import pytest

from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.client.async_client import AsyncClient
from flotilla.codec.batch.records import encode_payloads
from flotilla.types.errors import DeadlineError, FlotillaError, OutcomeUnknownError
from flotilla.types.operations import Produce
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.broker.faults import Namespaces
from tests.integration.broker.figures import allowed, report
from tests.integration.broker.ledger import Traffic

pytestmark = pytest.mark.slow

#: Of producers that are connected to the node that is cut off: no connection reports it.
FAILOVER_S_MAX = 5.0


@pytest.fixture(scope="module")
def spaces() -> Iterator[Namespaces]:
    with Namespaces.made(f"fl{os.getpid() % 100_000}", 3) as found:
        yield found


@pytest.fixture(scope="module")
def scattered(spaces: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three nodes, each at a host of its own."""
    cluster = BrokerCluster(tmp_path_factory.mktemp("scattered"), hosts=spaces.hosts)
    for node, broker in cluster.brokers.items():
        broker.prefix = spaces.prefix(node)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.end()


def test_a_leader_is_cut_off_and_comes_back(scattered: BrokerCluster, spaces: Namespaces) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("cut", partitions=2)
        async with Traffic(cluster.addresses, "cut", partitions=2) as traffic:
            leader = await cluster.leader("cut")
            spaces.cut(leader.node)
            cut_s = monotonic()
            await cluster.wait_led("cut", partitions=2, excluded=leader.node)
            report("cut off: another leads", [monotonic() - cut_s])
            gaps = [await traffic.wait_failover(cut_s, partition) for partition in range(2)]
            report("cut off: producers at work", gaps)
            assert max(gaps) < allowed(FAILOVER_S_MAX)
            await traffic.wait_acks(50)
            spaces.heal(leader.node)
            healed_s = monotonic()
            await cluster.wait_ready(client)
            report("healed: complete again", [monotonic() - healed_s])
            await traffic.wait_acks(50)
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

    run(scattered, scenario, seconds=90)


def test_without_a_majority_nothing_is_acknowledged(scattered: BrokerCluster, spaces: Namespaces) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("lonely", partitions=1)
        async with Traffic(cluster.addresses, "lonely") as traffic:
            leader = await cluster.leader("lonely")
            others = [node for node in cluster.running if node != leader.node]
            for node in others:
                spaces.cut(node)
            # The leader can still be reached; whatever it believes, it does not say yes.
            payload = b"lonely/0"
            traffic.ledger.note_sent(payload)
            async with DirectConnection(leader.client_address) as connection:
                answer = await connection.ask(Produce("lonely", 0, encode_payloads([payload], timestamp_ms=1)))
            assert isinstance(answer, FlotillaError)
            traffic.ledger.note_failed(payload, answer)
            async with AsyncClient(leader.client_address) as nearby:
                with pytest.raises((DeadlineError, OutcomeUnknownError)):
                    await nearby.create_topic("impossible", timeout_ms=1_000)
            for node in others:
                spaces.heal(node)
            healed_s = monotonic()
            await cluster.wait_ready(client)
            await traffic.wait_acks(20)
            report("healed: acknowledged again", [monotonic() - healed_s])
        assert not traffic.ledger.refused
        await traffic.ledger.check_every_replica(cluster, client)

    run(scattered, scenario, seconds=90)
