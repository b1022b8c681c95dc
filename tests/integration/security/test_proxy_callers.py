"""Callers of a proxy act with their own rights, over HTTP and gRPC, and without credentials with those of the proxy."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest

from flotilla import Password
from flotilla.client.credentials import CredentialsProvider
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated import flotilla_pb2_grpc as stubs
from flotilla.frontends.forwarded_callers import ForwardedCallers
from flotilla.frontends.grpc.server import GrpcServer
from flotilla.frontends.http.server import HttpServer
from flotilla.gateway import caller_gateways
from flotilla.gateway.caller_gateways import CallerGateways
from flotilla.gateway.gateway import Gateway
from flotilla.testing import LocalBroker
from flotilla.types.address import parse_address
from tests.unit.runtime.exposition import parse

ADMIN = Password("root", "a long password")


def basic(user: str, password: str = "another password") -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


@asynccontextmanager
async def proxy(broker: LocalBroker) -> AsyncIterator[tuple[CallerGateways, str, str]]:
    """The gateways, and the addresses of HTTP and gRPC."""
    address = parse_address(broker.address)

    def make(credentials: CredentialsProvider | None) -> Gateway:
        return Gateway(lambda: [address], "proxy", credentials=credentials)

    gateways = CallerGateways(make(lambda: Password("proxy", "another password")), make)
    callers = ForwardedCallers(gateways)
    http = HttpServer(None, gateways.gateway, callers=callers)
    rpc = GrpcServer(gateways.gateway, callers=callers)
    ports = await http.start("127.0.0.1", 0), await rpc.start("127.0.0.1", 0)
    try:
        yield gateways, f"http://127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"
    finally:
        await asyncio.gather(http.close(), rpc.close(0))
        await gateways.close()


def played(scenario: Callable[[CallerGateways, str, str], Awaitable[None]]) -> None:
    with LocalBroker(authentication=True) as broker:
        with broker.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        with broker.client(credentials=ADMIN) as admin:
            for name in ("anna", "ben", "proxy"):
                admin.create_topic(f"of-{name}")
                admin.admin.users.create(name, "another password")
                admin.admin.grants.add(name, "produce", f"of-{name}")

        async def play() -> None:
            async with asyncio.timeout(60), proxy(broker) as (gateways, http, rpc):
                await scenario(gateways, http, rpc)

        asyncio.run(play())


def test_each_caller_has_its_own_rights() -> None:
    async def scenario(gateways: CallerGateways, http: str, rpc: str) -> None:
        body = {"records": [{"payload": "eA=="}]}
        async with httpx.AsyncClient(base_url=http, timeout=20) as client:

            async def status(topic: str, headers: dict[str, str]) -> int:
                return (await client.post(f"/v1/topics/{topic}/records", json=body, headers=headers)).status_code

            callers = {"anna": basic("anna"), "ben": basic("ben"), "proxy": {}}
            for name, headers in callers.items():
                for topic in callers:
                    assert await status(f"of-{topic}", headers) // 100 == (2 if topic == name else 4), (name, topic)
            for wrong in (basic("anna", "wrong"), basic("nobody"), {"Authorization": "Digest x"}):
                assert await status("of-proxy", wrong) == 401
            assert (await client.get("/health")).status_code == 200
        async with grpc.aio.insecure_channel(rpc) as channel:
            stub = stubs.FlotillaStub(channel)
            metadata = tuple((name.lower(), value) for name, value in basic("anna").items())
            for topic, is_allowed in (("of-anna", True), ("of-ben", False), ("of-proxy", False)):
                request = pb.ProduceRequest(topic=topic, records=[pb.Record(payload=b"x")])
                call = stub.Produce(request, metadata=metadata, timeout=20)
                assert (await call.code() == grpc.StatusCode.OK) is is_allowed, topic
        async with httpx.AsyncClient(base_url=http, timeout=20) as client:
            counts = parse((await client.get("/metrics")).text)["flotilla_proxy_requests_total"].samples
        by_grpc = {labels[1][1]: count for (_, labels), count in counts.items() if labels[0][1] == "grpc"}
        assert by_grpc == {"OK": 1, "NOT_FOUND": 2}, "what a caller may not see is not there"

    played(scenario)


def test_callers_are_bounded_and_idle_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_gateways, "PROXY_CALLER_COUNT_MAX", 1)

    async def scenario(gateways: CallerGateways, http: str, rpc: str) -> None:
        async with httpx.AsyncClient(base_url=http, timeout=20) as client:
            for name in ("anna", "ben", "anna"):
                answer = await client.get(f"/v1/topics/of-{name}", headers=basic(name))
                assert answer.status_code == 200, answer.text
                assert len(gateways._callers) == 1
            monkeypatch.setattr(caller_gateways, "_NEW_COUNT_MAX", -1)
            answer = await client.get("/v1/topics/of-ben", headers=basic("ben"))
            assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
            # Whoever is in stays.
            assert (await client.get("/v1/topics/of-anna", headers=basic("anna"))).status_code == 200

    played(scenario)
