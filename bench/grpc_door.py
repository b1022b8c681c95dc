"""The gRPC door: one call at a time on many channels' behalf, a stream of requests, and a subscription.

The probe is the library itself: the same calls to a server that only sends back what it gets. What is left of its
rate tells what the door, the way to the leader and the disks cost, on a noisy machine, too. The goals are those of an
idle one with two cores: 2,500 unary calls, 5,000 requests of a stream and 20,000 messages of a subscription a second.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.figure import Figure, Goal, compare
from bench.options import BenchOptions
from flotilla.cli.local_cluster import HOST, LocalCluster
from flotilla.cli.probes import scratch
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub

AREA = "grpc"
_PAYLOAD = bytes(100)
#: Callers that each wait for their answer.
_CALLERS = 64
_CREDIT = 4_096
_BACKLOG_STEP = 1_000
_ECHO_UNARY, _ECHO_STREAM = "/echo/Unary", "/echo/Stream"

Work = Callable[[grpc.aio.Channel], Awaitable[float]]


def measure(options: BenchOptions) -> list[Figure]:
    unary, streamed, pushed = (options.pick(quick=n // 10, full=n) for n in (20_000, 50_000, 200_000))
    names = (f"grpc-{number}" for number in numbers())
    with scratch(options.folder, AREA) as folder, _echoing() as echo, _brokers(folder, options.nodes) as address:

        def figure(name: str, unit: str, subject: Work, probe: Work, goal: float) -> Figure:
            return compare(
                AREA,
                f"{name}, {options.nodes} brokers",
                unit,
                subject=lambda: _run(address, subject),
                probe=lambda: _run(echo, probe),
                probe_name="echo",
                goal=Goal(goal),
                rounds=options.rounds,
            )

        return [
            figure(
                "produce", "calls/s", lambda c: _unary(c, next(names), unary), lambda c: _echo_unary(c, unary), 0.65
            ),
            figure(
                "produce stream",
                "requests/s",
                lambda c: _stream(c, next(names), streamed),
                lambda c: _echo_stream(c, streamed),
                0.45,
            ),
            figure(
                "subscribe and ack",
                "messages/s",
                lambda c: _subscribe(c, next(names), pushed),
                lambda c: _echo_stream(c, streamed),
                1.75,
            ),
        ]


def _run(address: str, work: Work) -> float:
    async def run() -> float:
        async with grpc.aio.insecure_channel(address) as channel:
            await channel.channel_ready()
            return await work(channel)

    return uvloop.run(run())


async def _rate(count: int, work: Awaitable[Any]) -> float:
    begun_s = time.perf_counter()
    await work
    return count / (time.perf_counter() - begun_s)


# The door.


def _request(topic: str) -> pb.ProduceRequest:
    return pb.ProduceRequest(topic=topic, records=[pb.Record(payload=_PAYLOAD)])


async def _unary(channel: grpc.aio.Channel, topic: str, count: int) -> float:
    stub: Any = FlotillaStub(channel)
    request = _request(topic)
    await stub.Produce(request)

    async def caller() -> None:
        for _ in range(count // _CALLERS):
            await stub.Produce(request)

    return await _rate(count, asyncio.gather(*[caller() for _ in range(_CALLERS)]))


async def _stream(channel: grpc.aio.Channel, topic: str, count: int) -> float:
    stub: Any = FlotillaStub(channel)
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


async def _subscribe(channel: grpc.aio.Channel, topic: str, count: int) -> float:
    stub: Any = FlotillaStub(channel)
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


# The probe.


async def _echo_unary(channel: grpc.aio.Channel, count: int) -> float:
    call: Any = channel.unary_unary(_ECHO_UNARY)

    async def caller() -> None:
        for _ in range(count // _CALLERS):
            await call(_PAYLOAD)

    return await _rate(count, asyncio.gather(*[caller() for _ in range(_CALLERS)]))


async def _echo_stream(channel: grpc.aio.Channel, count: int) -> float:
    call: Any = channel.stream_stream(_ECHO_STREAM)()

    async def both() -> None:
        writing = asyncio.ensure_future(_write(call, _PAYLOAD, count))
        async for _ in call:
            pass
        await writing

    return await _rate(count, both())


class _Echo(grpc.GenericRpcHandler):
    def service(self, handler_call_details: Any) -> Any:
        async def unary(request: bytes, context: Any) -> bytes:
            return request

        async def stream(requests: Any, context: Any) -> None:
            async for request in requests:
                await context.write(request)

        if handler_call_details.method == _ECHO_UNARY:
            return grpc.unary_unary_rpc_method_handler(unary)
        return grpc.stream_stream_rpc_method_handler(stream)


async def echo() -> None:
    """Serves until its input ends; says at which port first."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Echo(),))
    print(server.add_insecure_port(f"{HOST}:0"), flush=True)
    await server.start()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)


@contextmanager
def _echoing() -> Iterator[str]:
    command = [sys.executable, "-m", "bench.grpc_door"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"{HOST}:{int(process.stdout.readline())}"
        process.communicate()


@contextmanager
def _brokers(folder: Path, nodes: int) -> Iterator[str]:
    """Brokers, and the address of one of them: which one leads is not asked."""
    with LocalCluster.on_free_ports(folder, node_count=nodes) as cluster:
        cluster.start()
        cluster.wait_ready()
        yield f"{HOST}:{cluster.nodes[1].ports.grpc}"


if __name__ == "__main__":
    uvloop.run(echo())
