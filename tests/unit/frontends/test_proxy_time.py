"""Endpoints of a proxy: times count by the clock of the brokers, from the first record on."""

import asyncio
import time
from typing import Any

import grpc
import httpx
import pytest

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from flotilla.frontends.grpc.server import GrpcServer
from flotilla.frontends.http.server import HttpServer
from flotilla.gateway.gateway import Gateway
from flotilla.types.address import read_addresses
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers

HOUR_MS = 3_600_000
#: What a machine that is busy may take for something quick.
SLACK_MS = 60_000
SECONDS_MAX = 60


async def by_http(gateway: Gateway) -> None:
    server = HttpServer(None, gateway)
    port = await server.start("127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS_MAX) as client:
            body = {"records": [{"payload": "MQ==", "delay_ms": HOUR_MS, "ttl_ms": 2 * HOUR_MS}]}
            answer = await client.post("/v1/topics/orders/records", json=body)
            assert answer.status_code == 201, answer.text
    finally:
        await server.close()


async def by_grpc(gateway: Gateway, *, is_stream: bool) -> None:
    server = GrpcServer(gateway)
    port = await server.start("127.0.0.1", 0)
    record = pb.Record(payload=b"1", delay_ms=HOUR_MS, ttl_ms=2 * HOUR_MS)
    request = pb.ProduceRequest(topic="orders", records=[record])
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub: Any = FlotillaStub(channel)
            if is_stream:
                assert [reply async for reply in stub.ProduceStream(iter([request]), timeout=SECONDS_MAX)]
            else:
                await stub.Produce(request, timeout=SECONDS_MAX)
    finally:
        await server.close(0)


@pytest.mark.parametrize("ahead_ms", [24 * HOUR_MS, -24 * HOUR_MS])
@pytest.mark.parametrize("way", ["http", "grpc", "grpc stream"])
def test_the_first_record_counts_by_the_brokers_clock(way: str, ahead_ms: int) -> None:
    async def play(addresses: list[str]) -> None:
        gateway = Gateway(lambda: read_addresses(addresses), "proxy")
        try:
            await (by_http(gateway) if way == "http" else by_grpc(gateway, is_stream=way == "grpc stream"))
        finally:
            await gateway.close()

    broker_ms = time.time_ns() // 1_000_000 + ahead_ms
    with broker_servers(Brokers(), ahead_ms) as servers:
        servers.cluster.create("orders")
        asyncio.run(play(servers.addresses))
        (record,) = servers.cluster.records("orders")
    assert 0 <= record.deliver_at_ms - broker_ms - HOUR_MS < SLACK_MS
    assert 0 <= record.timestamp_ms + record.ttl_ms - broker_ms - 2 * HOUR_MS < SLACK_MS
