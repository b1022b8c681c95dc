"""The gRPC endpoint of three nodes: single calls at all of them, a stream of requests, and a subscription.

Target rates take the place of a probe, as for the HTTP endpoint.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import count as numbers
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.figure import Figure, wanted_rate
from bench.options import BenchOptions
from flotilla.cli.bench.probes import scratch
from flotilla.cli.local_cluster import HOST, LocalCluster
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub

AREA = "grpc"
CALLS_WANTED = 2_500
REQUESTS_WANTED = 5_000
MESSAGES_WANTED = 20_000
_PAYLOAD = bytes(100)
#: Callers that each wait for their answer, spread over the nodes.
_CALLERS = 64
_CREDIT = 4_096
_BACKLOG_STEP = 1_000

#: A stub for each node.
Work = Callable[[list[Any]], Awaitable[float]]


def measure(options: BenchOptions) -> list[Figure]:
    unary, streamed, pushed = (options.pick(quick=n // 10, full=n) for n in (20_000, 50_000, 200_000))
    names = (f"grpc-{number}" for number in numbers())
    with scratch(options.folder, AREA) as folder, _brokers(folder, options.nodes) as addresses:

        def figure(name: str, unit: str, wanted: int, work: Work) -> Figure:
            rates = [_run(addresses, work) for _ in range(options.rounds)]
            return wanted_rate(AREA, f"{name}, {options.nodes} brokers", unit, rates, wanted)

        return [
            figure("produce", "calls/s", CALLS_WANTED, lambda stubs: _unary(stubs, next(names), unary)),
            figure(
                "produce stream", "requests/s", REQUESTS_WANTED, lambda stubs: _stream(stubs[0], next(names), streamed)
            ),
            figure(
                "subscribe and ack",
                "messages/s",
                MESSAGES_WANTED,
                lambda stubs: _subscribe(stubs[0], next(names), pushed),
            ),
        ]


def _run(addresses: list[str], work: Work) -> float:
    async def run() -> float:
        async with AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(grpc.aio.insecure_channel(each)) for each in addresses]
            for channel in channels:
                await channel.channel_ready()
            return await work([FlotillaStub(channel) for channel in channels])

    return uvloop.run(run())


async def _rate(count: int, work: Awaitable[Any]) -> float:
    begun_s = time.perf_counter()
    await work
    return count / (time.perf_counter() - begun_s)


def _request(topic: str) -> pb.ProduceRequest:
    return pb.ProduceRequest(topic=topic, records=[pb.Record(payload=_PAYLOAD)])


async def _unary(stubs: list[Any], topic: str, count: int) -> float:
    request = _request(topic)
    for stub in stubs:
        await stub.Produce(request)

    async def caller(stub: Any) -> None:
        for _ in range(count // _CALLERS):
            await stub.Produce(request)

    calling = [caller(stubs[number % len(stubs)]) for number in range(_CALLERS)]
    return await _rate(count, asyncio.gather(*calling))


async def _stream(stub: Any, topic: str, count: int) -> float:
    request = _request(topic)
    await stub.Produce(request)
    call = stub.ProduceStream()

    async def both() -> None:
        writing = asyncio.ensure_future(_write(call, request, count))
        answered = 0
        async for message in call:
            answered += len(message.replies)
        await writing
        assert answered == count

    return await _rate(count, both())


async def _write(call: Any, request: Any, count: int) -> None:
    for _ in range(count):
        await call.write(request)
    await call.done_writing()


async def _subscribe(stub: Any, topic: str, count: int) -> float:
    request = pb.ProduceRequest(topic=topic, records=[pb.Record(payload=_PAYLOAD)] * _BACKLOG_STEP)
    for _ in range(count // _BACKLOG_STEP):
        await stub.Produce(request)
    call = stub.Subscribe()
    opened = pb.SubscribeRequest.Open(topic=topic, group="workers", member="worker", credit=_CREDIT)
    await call.write(pb.SubscribeRequest(open=opened))

    async def drain() -> None:
        left = count
        while left:
            leases = [message.lease for message in (await call.read()).messages]
            await call.write(pb.SubscribeRequest(ack=pb.AckRequest(leases=leases)))
            left -= len(leases)

    rate = await _rate(count, drain())
    call.cancel()
    return rate


@contextmanager
def _brokers(folder: Path, nodes: int) -> Iterator[list[str]]:
    """Brokers and their gRPC addresses; calls do not look for the leader."""
    with LocalCluster.on_free_ports(folder, node_count=nodes) as cluster:
        cluster.start()
        cluster.wait_ready()
        yield [f"{HOST}:{node.ports.grpc}" for node in cluster.nodes.values()]
