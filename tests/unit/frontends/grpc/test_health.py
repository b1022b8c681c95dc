"""Health of a node for load balancers: NOT_SERVING until it is part of a cluster, and again while it stops."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc

from flotilla.client.async_client import AsyncClient
from flotilla.codec.grpc import calls as api
from flotilla.server import Server
from flotilla.types.settings import NodeSettings
from tests.unit.frontends.grpc.conftest import ANY_PORT

_SECONDS_MAX = 60
_STATES = health_pb2.HealthCheckResponse


@pytest.mark.parametrize("service", ["", api.SERVICE_NAME])
def test_a_node_serves_from_its_entry_to_its_stop(service: str, tmp_path: Path) -> None:
    settings = NodeSettings(
        data_dir=str(tmp_path),
        listen=ANY_PORT,
        peer_listen=ANY_PORT,
        http_listen=None,
        grpc_listen=ANY_PORT,
        journal_file_bytes=1 << 20,
        await_init=True,
    )
    asked = health_pb2.HealthCheckRequest(service=service)

    async def play() -> None:
        server = Server(settings)
        await server.start()
        stopping: asyncio.Task[None] | None = None
        try:
            async with grpc.aio.insecure_channel(server.grpc_address) as channel, asyncio.timeout(_SECONDS_MAX):
                health: Any = health_pb2_grpc.HealthStub(channel)
                assert (await health.Check(asked)).status == _STATES.NOT_SERVING
                watch = health.Watch(asked)
                assert (await watch.read()).status == _STATES.NOT_SERVING
                async with AsyncClient(server.client_address) as client:
                    await client.admin.init_cluster({1: str(server.node.network.address)})
                assert (await watch.read()).status == _STATES.SERVING
                assert (await health.Check(asked)).status == _STATES.SERVING
                stopping = asyncio.create_task(server.stop())
                assert (await watch.read()).status == _STATES.NOT_SERVING
                watch.cancel()
        finally:
            await (stopping or server.stop())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())
