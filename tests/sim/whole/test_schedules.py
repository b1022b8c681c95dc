"""Every occurrence of a schedule is produced once, whatever fails."""

import asyncio
from itertools import pairwise

import pytest

from flotilla import FlotillaError
from flotilla.testing import simulate

EVERY_MS = 1_000


async def occurrences(client) -> list[int]:
    """The times in the headers of all messages, partition by partition."""
    times = []
    for partition in range(3):
        for message in await client.peek("beats", partition, max_messages=10_000):
            times.append(int(dict(message.headers)["flotilla-scheduled-time"]))
    return times


async def until_healthy(client, name: str) -> int:
    """How many messages it has produced, once it is up to date."""
    while True:
        try:
            found = await client.schedules.get(name)
        except FlotillaError:
            continue
        if found.upcoming_ms and found.last_ms + 2 * EVERY_MS > found.upcoming_ms[0]:
            return found.runs
        await asyncio.sleep(0.2)


async def check(client) -> None:
    await until_healthy(client, "beat")
    while True:
        try:
            await client.schedules.pause("beat")
            break
        except FlotillaError:
            continue
    runs = (await client.schedules.get("beat")).runs
    times = []
    while len(times) < runs:
        # A decided message is visible a moment later.
        times = sorted(await occurrences(client))
        await asyncio.sleep(0.1)
    assert len(times) == len(set(times)), "an occurrence was produced twice"
    assert all(later - earlier == EVERY_MS for earlier, later in pairwise(times)), "an occurrence is missing"
    assert len(times) == runs


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_occurrence_is_lost_or_doubled_while_things_fail(seed):
    async def scenario(cluster):
        async with cluster.client() as client:
            await client.create_topic("beats", partitions=3, replication_factor=3)
            await client.schedules.create("beat", "beats", every_ms=EVERY_MS, missed="all", missed_max=1_000)
            await asyncio.sleep(40)
            cluster.heal()
            await check(client)

    simulate(seed, scenario)


def test_the_leader_of_the_metadata_dies_again_and_again():
    async def scenario(cluster):
        async with cluster.client() as client:
            await client.create_topic("beats", partitions=3, replication_factor=3)
            await client.schedules.create("beat", "beats", every_ms=EVERY_MS, missed="all", missed_max=1_000)
            for _ in range(6):
                await asyncio.sleep(2 + cluster.random.random() * 2)
                leader = (await client.admin.metadata()).controller
                cluster.brokers[leader].kill()
                await asyncio.sleep(3)
                cluster.brokers[leader].start()
            await check(client)

    simulate(11, scenario, faults=())


def test_one_clock_that_jumps_a_year_runs_nothing():
    async def scenario(cluster):
        async with cluster.client() as client:
            await client.create_topic("beats", partitions=1, replication_factor=3)
            await client.schedules.create("yearly", "beats", cron="@monthly", missed="all")
            leader = (await client.admin.metadata()).controller
            cluster.brokers[leader].host.clock.jump(365 * 86_400 * 10**6)
            await asyncio.sleep(120)
            assert (await client.schedules.get("yearly")).runs == 0

    simulate(12, scenario, faults=())
