"""Who a gRPC caller is by its certificate, and authorities that change."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from flotilla.frontends.grpc.tls import listen, principal_of
from flotilla.security.client_tls import Tls
from flotilla.security.endpoint_tls import EndpointTls
from flotilla.types.access import USER, Principal
from flotilla.types.address import Address
from tests.unit.security.issuing import CLUSTER, node_files, trusting, user_tls

METHOD = "/test.Names/Say"


class Handler(grpc.GenericRpcHandler):
    def __init__(self) -> None:
        self.seen: list[Principal | None] = []

    def service(self, details: Any) -> Any:
        async def say(request: bytes, context: Any) -> bytes:
            self.seen.append(principal_of(context, CLUSTER))
            return b""

        return grpc.unary_unary_rpc_method_handler(say)


async def ask(port: int, tls: Tls) -> None:
    files = [Path(file).read_bytes() if file else None for file in (tls.ca, tls.key, tls.certificate)]
    credentials = grpc.ssl_channel_credentials(*files)
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
        await channel.unary_unary(METHOD)(b"", timeout=10)


@pytest.mark.parametrize(
    ("client_certificates", "tls", "principal"),
    [
        ("required", user_tls("alice"), Principal(USER, "alice")),
        ("off", trusting(), None),
        # The library does not ask.
        ("optional", user_tls("alice"), None),
    ],
)
def test_the_principal_of_a_caller(client_certificates: str, tls: Tls, principal: Principal | None) -> None:
    async def test() -> None:
        handler = Handler()
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handler,))
        port = listen(server, Address("localhost", 0), EndpointTls(node_files(1), CLUSTER, client_certificates))
        await server.start()
        try:
            await ask(port, tls)
        finally:
            await server.stop(None)
        assert handler.seen == [principal]

    asyncio.run(test())
