"""Stream groups on three brokers: the time until a new member has its share, and the pause of other partitions.

Ten members read a hundred partitions, into which records come all the time. An eleventh joins. The figures are the
time until every member has its share and reads it, and the longest pause in a partition that stayed with its member.
"""

import asyncio
import time
from dataclasses import dataclass, field

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.scale.cluster import started
from flotilla.cli.bench.probes import scratch
from flotilla.client.async_client import AsyncClient
from flotilla.client.stream.aio import AsyncStreamConsumer

AREA = "streams"
MEMBERS = 10
PARTITIONS = 100
SETTLE_S_MAX = 2.0
_TOPIC = "shared"
_GROUP = "group"
_EVERY_S = 0.05
_WAIT_S_MAX = 60.0


@dataclass(slots=True, eq=False)
class Member:
    consumer: AsyncStreamConsumer
    #: By partition when something of it was last read, and the longest wait for that.
    read_s: dict[int, float] = field(default_factory=dict)
    pause_s: dict[int, float] = field(default_factory=dict)

    async def work(self) -> None:
        while True:
            for message in await self.consumer.poll(wait_ms=1_000):
                now_s = time.monotonic()
                partition = message.partition
                pause_s = now_s - self.read_s.get(partition, now_s)
                self.pause_s[partition] = max(self.pause_s.get(partition, 0.0), pause_s)
                self.read_s[partition] = now_s


async def _produce(client: AsyncClient) -> None:
    """A record into every partition, again and again."""
    async with client.producer(_TOPIC, linger_ms=0) as producer:
        while True:
            for partition in range(PARTITIONS):
                await producer.send(b"x", partition=partition)
            await asyncio.sleep(_EVERY_S)


async def _wait_shared(members: list[Member]) -> None:
    """Every member has its share, and has read from each of its partitions."""
    deadline = time.monotonic() + _WAIT_S_MAX
    least = PARTITIONS // len(members)
    while True:
        owned = [member.consumer.assignment for member in members]
        is_even = all(least <= len(each) <= least + 1 for each in owned)
        if is_even and sum(map(len, owned)) == PARTITIONS and all(map(_is_reading, members)):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the members have {[len(each) for each in owned]} partitions")
        await asyncio.sleep(0.005)


def _is_reading(member: Member) -> bool:
    return all(partition in member.read_s for partition in member.consumer.assignment)


async def _round(servers: list[str], group: str) -> tuple[float, float]:
    async with AsyncClient(servers, timeout_ms=60_000) as client, AsyncClient(servers, timeout_ms=60_000) as other:

        def join(by: AsyncClient) -> Member:
            member = Member(by.stream(_TOPIC, group=group, start="latest"))
            tasks.append(asyncio.create_task(member.work()))
            return member

        tasks = [asyncio.create_task(_produce(client))]
        members = [join(client) for _ in range(MEMBERS)]
        try:
            await _wait_shared(members)
            before = [dict.fromkeys(member.consumer.assignment) for member in members]
            for member in members:
                member.pause_s.clear()
            began_s = time.monotonic()
            newcomer = join(other)
            await _wait_shared([*members, newcomer])
            settled_s = time.monotonic() - began_s
            kept = [
                member.pause_s.get(partition, 0.0)
                for member, owned in zip(members, before, strict=True)
                for partition in member.consumer.assignment
                if partition in owned
            ]
            return settled_s, max(kept)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def measure(options: BenchOptions) -> list[Figure]:
    with scratch(options.folder, "streams") as folder, started(folder / "nodes") as scaled:
        scaled.create(_TOPIC, PARTITIONS)
        scaled.wait_at_rest()
        servers = list(scaled.cluster.servers)
        found = [asyncio.run(_round(servers, f"{_GROUP}-{number}")) for number in range(options.rounds)]
    name = f"a member joins {MEMBERS} over {PARTITIONS} partitions"
    return [
        relate(
            AREA,
            f"{name}, settled",
            "s",
            pairs=[(settled_s, SETTLE_S_MAX) for settled_s, _ in found],
            probe_name="limit",
            goal=Goal(1.0, at_most=True),
        ),
        relate(
            AREA,
            f"{name}, longest pause of what stays",
            "s",
            pairs=[(pause_s, settled_s) for settled_s, pause_s in found],
            probe_name="settling",
            goal=Goal(None),
        ),
    ]
