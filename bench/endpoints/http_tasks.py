"""The task API of three nodes: 32 keep-alive connections, and a cheap client.

Enqueues per second, pairs of lease and ack per second, and the cost of a status with ten tasks and with very many.
Target rates take the place of a probe.
"""

import asyncio
from statistics import median
from time import perf_counter
from typing import Any

import uvloop

from bench.broker.flotilla import started_cluster
from bench.endpoints.http_connections import Wire, with_wires
from bench.figure import Figure, wanted_rate
from bench.options import BenchOptions
from flotilla.cli.bench.probes import scratch
from flotilla.client.client import Client
from flotilla.types.records import CONTENT_JSON, Record
from flotilla.types.tasks import TASK_TYPE_HEADER

CONNECTIONS = 32
ENQUEUES_WANTED = 2_000
PAIRS_WANTED = 1_500
#: The ratio of a status among many tasks to one among few: the same, but for noise.
STATUS_RATIO_MAX = 1.3


def measure(options: BenchOptions) -> list[Figure]:
    count = 4_000 if options.quick else 40_000
    with scratch(options.folder, "http") as folder, started_cluster(folder) as cluster:
        endpoints = [f"127.0.0.1:{node.ports.http}" for node in cluster.nodes.values()]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(enqueue(endpoints, "warm", 500))
            runner.run(work_off(endpoints, "warm", 500))
            enqueued = [runner.run(enqueue(endpoints, f"q{turn}", count)) for turn in range(3)]
            worked = [runner.run(work_off(endpoints, f"q{turn}", count)) for turn in range(3)]
            few, many = _statuses(runner, cluster.servers, endpoints, 20_000 if options.quick else 1_000_000)
    return [
        wanted_rate("http", "enqueue", "/s", enqueued, ENQUEUES_WANTED),
        wanted_rate("http", "lease and ack", "/s", worked, PAIRS_WANTED),
        Figure(
            "http", "status of one of very many tasks", "ms", many * 1000, "of one of ten", few * 1000, many / few,
            STATUS_RATIO_MAX, at_most=True, spread=(many / few, many / few),
        ),
    ]  # fmt: skip


async def enqueue(endpoints: list[str], queue: str, count: int) -> float:
    async def work(_: int, wire: Wire) -> None:
        for number in range(count // CONNECTIONS):
            await wire.ask("POST", "/tasks", {"type": "mail", "payload": {"number": number}, "queue": queue})

    return count // CONNECTIONS * CONNECTIONS / await with_wires(endpoints, CONNECTIONS, work)


async def work_off(endpoints: list[str], queue: str, count: int) -> float:
    left = count // CONNECTIONS * CONNECTIONS

    async def work(number: int, wire: Wire) -> None:
        nonlocal left
        worker = f"worker-{number}"
        while left > 0:
            body = {"worker_id": worker, "queue": queue, "wait_ms": 100}
            for task in (await wire.ask("POST", "/tasks/lease", body))["tasks"]:
                await wire.ask("POST", f"/tasks/{task['id']}/ack", {"worker_id": worker})
                left -= 1

    return left / await with_wires(endpoints, CONNECTIONS, work)


def _statuses(runner: asyncio.Runner, servers: list[str], endpoints: list[str], count: int) -> tuple[float, float]:
    """Seconds of a status with ten tasks, and with that many."""
    record = Record(b"{}", headers=((TASK_TYPE_HEADER, b"mail"),), content_type=CONTENT_JSON)
    with Client(servers) as client:
        for queue, size in (("few", 10), ("many", count)):
            first = runner.run(enqueue(endpoints[:1], queue, CONNECTIONS))
            assert first
            for at in range(CONNECTIONS, size, 50_000):
                client.produce_many(f"tasks.{queue}", [record] * min(50_000, size - at))
    few, many = runner.run(_ask(endpoints, ("few", "many"), count))
    return few, many


async def _ask(endpoints: list[str], queues: tuple[str, str], count: int) -> list[float]:
    """In turn, so that both meet the same machine."""
    seconds: dict[str, list[float]] = {queue: [] for queue in queues}

    async def work(_: int, wire: Wire) -> None:
        ids: dict[str, str] = {}
        for queue in queues:
            listed: Any = await wire.ask("GET", f"/tasks?queue={queue}&limit=5")
            ids[queue] = listed["tasks"][-1]["id"]
        # One in the middle of very many.
        ids[queues[1]] = f"{ids[queues[1]].rpartition('.')[0]}.{count // 2}"
        for _turn in range(500):
            for queue in queues:
                began = perf_counter()
                await wire.ask("GET", f"/tasks/{ids[queue]}")
                seconds[queue].append(perf_counter() - began)

    await with_wires(endpoints, 1, work)
    return [median(seconds[queue]) for queue in queues]
