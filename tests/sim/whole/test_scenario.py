"""`flotilla.testing.simulate`: a user's own code against a cluster with faults."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.client.queue.aio import AsyncQueueMessage
from flotilla.sim.mutants.mutants import applied
from flotilla.sim.whole.scenario import _chosen
from flotilla.testing import SimulatedCluster, SimulationFailedError, simulate
from flotilla.types.errors import FlotillaError, UnavailableError

ORDERS = 12


def shop(
    handle: Callable[[AsyncQueueMessage, set[bytes]], Coroutine[None, None, None]], *, kills: int = 3
) -> Callable[[SimulatedCluster], Coroutine[None, None, None]]:
    """Sends orders to a worker that is killed now and then; every order must be shipped in the end."""

    async def scenario(cluster: SimulatedCluster) -> None:
        shipped: set[bytes] = set()

        async def work() -> None:
            async with cluster.client() as client, client.queue("orders", group="shipping", prefetch=1) as queue:
                async for message in queue:
                    await handle(message, shipped)

        async with cluster.client() as client:
            await client.create_topic("orders", partitions=1, visibility_ms=2_000)
            worker = cluster.process("worker", work)
            for number in range(ORDERS):
                await client.produce("orders", b"%d" % number)
            for _ in range(kills):
                await asyncio.sleep(cluster.random.random())
                worker.kill()
                leader = cluster.random.choice(list(cluster.brokers.values()))
                if leader.is_up:
                    cluster.tell(f"broker {leader.node} loses power")
                    leader.cut_power()
                await asyncio.sleep(1)
                cluster.heal()
                worker.start()
            async with asyncio.timeout(60):
                while len(shipped) < ORDERS:
                    await asyncio.sleep(0.1)

    return scenario


async def ship_then_ack(message: AsyncQueueMessage, shipped: set[bytes]) -> None:
    await asyncio.sleep(0.2)
    shipped.add(message.payload)
    try:
        await message.ack()
    except FlotillaError:
        # The lease has ended: the order is shipped again, which does no harm here.
        pass


async def ack_then_ship(message: AsyncQueueMessage, shipped: set[bytes]) -> None:
    await message.ack()
    await asyncio.sleep(0.2)
    shipped.add(message.payload)


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_that_acks_when_it_is_done_loses_nothing(seed: int) -> None:
    story = simulate(seed, shop(ship_then_ack), faults=())
    assert any("worker is killed" in line for line in story)


def test_a_worker_that_acks_too_early_is_found() -> None:
    def try_seeds() -> None:
        for seed in range(10):
            simulate(seed, shop(ack_then_ship), faults=())

    with pytest.raises(SimulationFailedError) as found:
        try_seeds()
    assert "TimeoutError" in str(found.value)
    assert "worker is killed" in str(found.value)


@pytest.mark.parametrize("seed", range(20, 23))
def test_drawn_faults_strike_until_everything_heals(seed: int) -> None:
    """The scenario heals after its first kill; until then anything may break."""
    simulate(seed, shop(ship_then_ack, kills=1), limit_s=900)


def test_a_broken_rule_of_consensus_is_reported() -> None:
    with applied("send-before-sync"), pytest.raises(SimulationFailedError, match="durable before send"):
        simulate(1, shop(ship_then_ack, kills=0), faults=())


def test_an_exception_that_nobody_handles_is_reported_also_of_a_broker_that_was_killed_since() -> None:
    def fail() -> None:
        raise KeyError("lost")

    async def scenario(cluster: SimulatedCluster) -> None:
        process = cluster.brokers[1].process
        assert process is not None
        process.loop.call_soon(fail)
        await asyncio.sleep(1)
        cluster.brokers[1].kill()
        cluster.heal()

    with pytest.raises(SimulationFailedError, match=r"no exception is left to nobody: broker-1#1.*lost"):
        simulate(1, scenario, faults=())


def test_a_broker_that_ends_by_itself_is_reported() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.brokers[1].cut_power()
        cluster.brokers[1].host.disk.is_unreadable = True
        cluster.brokers[1].start()
        await asyncio.sleep(60)

    with pytest.raises(SimulationFailedError, match="no broker ends by itself: broker 1"):
        simulate(1, scenario, faults=())


def test_the_clock_of_a_broker_jumps_where_faults_are_drawn() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await asyncio.sleep(60)

    seed = next(seed for seed in range(100) if "jump" not in _chosen(seed, None))
    story = simulate(seed, scenario)
    assert sum("has its clock set by" in line for line in story) == 2


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="no such faults: earthquake; there are kill"):
        simulate(1, shop(ship_then_ack), faults=["earthquake"])


def test_the_same_seed_gives_the_same_story() -> None:
    assert simulate(9, shop(ship_then_ack)) == simulate(9, shop(ship_then_ack))


def test_a_scenario_that_does_not_end_is_reported() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimulationFailedError, match="did not end within 30 simulated seconds"):
        simulate(1, scenario, limit_s=30, faults=())


def test_what_no_quorum_confirms_is_not_told_as_if_it_were_sure() -> None:
    """A broker alone may know topics that were deleted since."""
    asked: list[str] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        async with cluster.client() as client:
            await client.create_topic("orders")
        async with AsyncClient(cluster.brokers[1].client_address) as client:
            # The node knows it from here on.
            await client.describe_topic("orders")
        for node in (2, 3):
            cluster.brokers[node].kill()
        async with AsyncClient(cluster.brokers[1].client_address) as client:
            for ask in (client.topics, lambda: client.describe_topic("orders")):
                with pytest.raises(UnavailableError, match="no quorum of the metadata"):
                    await ask()
                asked.append("refused")
            # What the node knows is there for those who ask for that.
            known = await client.admin.metadata(["orders"])
            assert known.is_stale
            assert [topic.name for topic in known.topics] == ["orders"]

    simulate(3, scenario, faults=())
    assert len(asked) == 2
