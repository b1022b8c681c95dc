"""The lateness of delayed messages, beside a million others in the same partition.

Two clusters of three brokers stand side by side. In one of them a partition holds messages that are due in an hour or
later, each at a time of its own, which is the most that they can cost. Then both in turn get messages with delays of
a fifth of a second to two seconds, at a steady rate, and a member of a queue group notes how late each one comes: from
its delivery time, by the brokers' clock, to its arrival at the handler. All brokers and the handler use the clock of
one machine. A message that comes early fails the run.
"""

import asyncio
import time
from random import Random

import uvloop

from bench.broker.flotilla import started_cluster
from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from flotilla.cli.bench.probes import scratch
from flotilla.cli.bench.workloads import cuts
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.types.records import Record

AREA = "delays"
LATE_MS_MAX = 100.0
_TOPIC = "timers"
_GROUP = "workers"
_PAYLOAD = bytes(100)
_RATE = 100
_DELAY_MS = (200, 2_000)
_HOUR_MS = 3_600_000
_FILL_COUNT = 10_000
#: Clocks are read in whole milliseconds, and a broker's keeps itself apart from jumps of the machine's.
_CLOCK_MS = 1.0
#: After the longest delay: a message that has not come by then is lost.
_SILENCE_S = 30.0


class Timers:
    """A partition with that many messages that are due much later."""

    def __init__(self, cluster: LocalCluster, waiting: int) -> None:
        self._servers = cluster.servers
        self._waiting = waiting
        self._random = Random(waiting)
        with Client(self._servers, timeout_ms=60_000) as client:
            client.create_topic(_TOPIC, partitions=1)
            for first in range(0, waiting, _FILL_COUNT):
                self._fill(client, first, min(_FILL_COUNT, waiting - first))

    def _fill(self, client: Client, first: int, count: int) -> None:
        """Neighbours of one time of delivery would be kept as one."""
        due_ms = _now_ms() + _HOUR_MS
        numbers = range(first, first + count)
        client.produce_many(_TOPIC, [Record(_PAYLOAD, deliver_at_ms=int(due_ms) + number) for number in numbers])

    def latenesses_ms(self, count: int) -> list[float]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(self._send_and_take(count))
        if min(found) < -_CLOCK_MS:
            raise RuntimeError(f"a message came {-min(found):.1f} ms before its time")
        return found

    async def _send_and_take(self, count: int) -> list[float]:
        async with AsyncClient(self._servers) as client, asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(self._take(client, count))
            await self._send(client, count)
            found = await taking
            waiting = (await client.describe_group(_TOPIC, _GROUP)).delayed
        if waiting != self._waiting:
            raise RuntimeError(f"{waiting} messages wait for their time, not {self._waiting}")
        return found

    async def _send(self, client: AsyncClient, count: int) -> None:
        async with client.producer(_TOPIC, linger_ms=0) as producer:
            began = time.monotonic()
            for number in range(count):
                await asyncio.sleep(max(began + number / _RATE - time.monotonic(), 0))
                await producer.send(_PAYLOAD, delay_ms=self._random.randint(*_DELAY_MS))

    async def _take(self, client: AsyncClient, count: int) -> list[float]:
        found: list[float] = []
        async with client.queue(_TOPIC, group=_GROUP) as consumer:
            while len(found) < count:
                message = await asyncio.wait_for(anext(consumer), _SILENCE_S)
                found.append(_now_ms() - message.deliver_at_ms)
                await message.ack(wait=False)
            await consumer.flush()
        return found


def _now_ms() -> float:
    return time.time_ns() / 1e6


def measure(options: BenchOptions) -> list[Figure]:
    waiting = options.pick(quick=10_000, full=1_000_000)
    count = options.pick(quick=500, full=2_000)
    with (
        scratch(options.folder, "few") as few_folder,
        scratch(options.folder, "many") as many_folder,
        started_cluster(few_folder) as few_cluster,
        started_cluster(many_folder) as many_cluster,
    ):
        few, many = Timers(few_cluster, 0), Timers(many_cluster, waiting)
        rounds = [(few.latenesses_ms(count), many.latenesses_ms(count)) for _ in range(options.rounds)]
    note = f"delays: {_RATE} msg/s, {count * len(rounds):,} messages beside those that wait, none early"
    pairs = {
        "p50": [(cuts(many)[0], cuts(few)[0]) for few, many in rounds],
        "p99": [(cuts(many)[1], cuts(few)[1]) for few, many in rounds],
        "max": [(max(many), max(few)) for few, many in rounds],
    }
    name = f"late, with {waiting:,} waiting"
    worst = max(late for late, _ in pairs["max"])
    return [
        *(
            relate(AREA, f"{name}, {part}", "ms", pairs=found, probe_name="without", goal=Goal(None), note=note)
            for part, found in pairs.items()
        ),
        relate(
            AREA,
            f"{name}, max of all rounds",
            "ms",
            pairs=[(worst, LATE_MS_MAX)],
            probe_name="allowed",
            goal=Goal(1.0, at_most=True),
            note=note,
        ),
    ]
