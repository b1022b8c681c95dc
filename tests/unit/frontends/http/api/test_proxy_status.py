"""The status of a proxy: it works as long as it answers, and is ready while the cluster answers it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import uvloop

from flotilla.client.async_client import AsyncClient
from flotilla.frontends.http.server import HttpServer
from flotilla.gateway.gateway import Gateway
from flotilla.server import Server
from flotilla.types.address import Address, parse_address
from flotilla.types.settings import NodeSettings
from tests.unit.runtime.exposition import parse

ANY_PORT = Address("127.0.0.1", 0)
_SECONDS_MAX = 60


async def ready_as(client: httpx.AsyncClient, status: int) -> Any:
    """What /ready says when it says so: a busy machine may need more than one answer to come in time."""
    return (await answered(client, "/ready", status)).json()


async def answered(client: httpx.AsyncClient, path: str, status: int = 200) -> httpx.Response:
    """The first answer with this status. Before it the node may say that it cannot answer yet, and nothing else."""
    async with asyncio.timeout(_SECONDS_MAX):
        while True:
            answer = await client.get(path, headers={"Accept": "text/html"})
            if answer.status_code == status:
                return answer
            assert answer.status_code in (200, 503, 504), answer.text


def test_a_proxy_is_ready_while_a_broker_of_a_cluster_answers(tmp_path: Path) -> None:
    settings = NodeSettings(
        data_dir=str(tmp_path),
        listen=ANY_PORT,
        peer_listen=ANY_PORT,
        http_listen=None,
        grpc_listen=None,
        journal_file_bytes=1 << 20,
        await_init=True,
    )

    async def play() -> None:
        broker = Server(settings)
        await broker.start()
        gateway = Gateway(lambda: [parse_address(broker.client_address)], "proxy")
        server = HttpServer(None, gateway)
        port = await server.start("127.0.0.1", 0)
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=_SECONDS_MAX) as client:
                waiting = await ready_as(client, 503)
                assert [reason["code"] for reason in waiting["reasons"]] == ["NO_BROKER"]
                async with AsyncClient(broker.client_address) as other:
                    await other.admin.init_cluster({1: str(broker.node.network.address)})
                assert await ready_as(client, 200) == {"ready": True, "reasons": [], "warnings": []}
                # The console, and what the first of its pages asks for, also before the broker has registered.
                for path in ("/v1/cluster/nodes", "/v1/metrics/history", "/v1/cluster", "/session", "/console"):
                    await answered(client, path)
                assert (await answered(client, "/", 302)).headers["location"] == "/console"
                await broker.stop()
                gone = await ready_as(client, 503)
                assert "no broker that is part of a cluster answers" in gone["reasons"][0]["message"]
                health = await client.get("/health")
                assert (health.status_code, health.json()["status"]) == (200, "ok")
                measured = parse((await client.get("/metrics")).text)
                counts = measured["flotilla_proxy_requests_total"].samples
                assert {labels[1][1] for _, labels in counts} == {"200", "302", "503"}
                assert (
                    measured["flotilla_proxy_requests_in_flight"].samples[
                        "flotilla_proxy_requests_in_flight", (("interface", "http"),)
                    ]
                    == 1
                ), "this one"
        finally:
            await server.close()
            await gateway.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())
