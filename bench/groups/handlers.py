"""Queue consumers as handlers use them, on three brokers: one message at a time, many at a time, and by iterating.

    one at a time    a poll of one and its ack, nothing in flight besides: beside one durable produce at a time, because
                     the ack waits for a majority of disks as that does, and the poll for nothing
    64 handlers      coroutines of one client over one connection that each acknowledge what they handled
    iterating        processor time of a consumer that chose no prefetch, beside one with a large one

Acknowledging without waiting for the answer, as other systems' clients do, is measured for comparison.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import count as numbers

import uvloop

from bench.broker.flotilla import started_cluster
from bench.figure import Figure, Goal, compare
from bench.options import BenchOptions
from flotilla.cli.bench.probes import scratch
from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.client.queue.options import QueueSettings

AREA = "handlers"
HANDLERS = 64
ACKS_WANTED = 20_000
_TOPIC = "work"
_PAYLOAD = bytes(100)
_LARGE_PREFETCH = 1_000
#: Before the clock runs: the group is opened and connections are made.
_WARM = 20


class Handlers:
    """One topic, which every measurement works off under a group of its own."""

    def __init__(self, servers: list[str], client: Client, backlog: int) -> None:
        self._servers = servers
        self._client = client
        self._groups = numbers()
        client.create_topic(_TOPIC, partitions=1)
        client.produce_many(_TOPIC, [_PAYLOAD] * backlog)

    def _group(self) -> str:
        return f"group-{next(self._groups)}"

    def produce_rate(self, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            self._client.produce(_TOPIC, _PAYLOAD)
        return count / (time.perf_counter() - began)

    def pair_rate(self, count: int, *, wait: bool) -> float:
        with self._client.queue(_TOPIC, group=self._group()) as consumer:
            for at in range(_WARM + count):
                if at == _WARM:
                    began = time.perf_counter()
                for message in consumer.poll(1):
                    message.ack(wait=wait)
            consumer.flush()
            return count / (time.perf_counter() - began)

    def single_ack_rate(self, count: int) -> float:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._ack_singly(count))

    async def _ack_singly(self, count: int) -> float:
        left = count

        async def handle() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                message = await anext(consumer)
                await message.ack()

        async with (
            AsyncClient(self._servers) as client,
            client.queue(_TOPIC, group=self._group(), prefetch=_LARGE_PREFETCH) as consumer,
        ):
            await (await anext(consumer)).ack()
            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(HANDLERS):
                    tasks.create_task(handle())
            return count / (time.perf_counter() - began)

    def iterating_s(self, count: int, settings: QueueSettings) -> float:
        """Processor time of this process for each message."""
        with self._client.queue(_TOPIC, group=self._group(), **settings) as consumer:
            began = time.process_time()
            for number, message in enumerate(consumer, 1):
                with message:
                    pass
                if number == count:
                    break
            consumer.flush()
            return (time.process_time() - began) / count


def measure(options: BenchOptions) -> list[Figure]:
    pairs = options.pick(quick=200, full=2_000)
    backlog = options.pick(quick=20_000, full=100_000)
    with (
        scratch(options.folder, "handlers") as folder,
        started_cluster(folder) as cluster,
        Client(cluster.servers) as client,
    ):
        handlers = Handlers(cluster.servers, client, backlog)

        def beside_produce(name: str, subject: Callable[[], float], goal: Goal) -> Figure:
            return compare(
                AREA,
                name,
                "/s",
                subject=subject,
                probe=lambda: handlers.produce_rate(pairs),
                probe_name="one produce in flight",
                goal=goal,
                rounds=options.rounds,
            )

        return [
            beside_produce("poll 1, ack 1", lambda: handlers.pair_rate(pairs, wait=True), Goal(0.5)),
            beside_produce("poll 1, ack 1 unawaited", lambda: handlers.pair_rate(pairs, wait=False), Goal(None)),
            compare(
                AREA,
                f"{HANDLERS} handlers, each acks its own",
                "/s",
                subject=lambda: handlers.single_ack_rate(backlog // 2),
                probe=lambda: float(ACKS_WANTED),
                probe_name="wanted",
                goal=Goal(1.0),
                rounds=options.rounds,
            ),
            compare(
                AREA,
                "iterating without a prefetch",
                "s/msg",
                subject=lambda: handlers.iterating_s(backlog, {}),
                probe=lambda: handlers.iterating_s(backlog, {"prefetch": _LARGE_PREFETCH}),
                probe_name=f"prefetch of {_LARGE_PREFETCH:,}",
                goal=Goal(1.5, at_most=True),
                rounds=options.rounds,
            ),
        ]
