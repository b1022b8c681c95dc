"""A real HTTP server in front of a real node, and a client worked by hand."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from flotilla.frontends.http.http1.asgi import App
from flotilla.frontends.http.http1.connection import IDLE_MS_MAX
from flotilla.frontends.http.server import HttpServer
from flotilla.frontends.listener import ConnectionBudget
from flotilla.frontends.tcp.budget import Budgets
from flotilla.types.limits import HTTP_CONNECTION_COUNT_MAX, TRANSFER_MS_MAX
from tests.unit.broker import single_node
from tests.unit.broker.single_node import SingleNode


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, text: str) -> None:
        self.writer.write(text.encode())

    def ask(self, method: str, path: str, *headers: str) -> None:
        self.send("".join(f"{line}\r\n" for line in (f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "")))

    async def answer(self, *, has_body: bool = True) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = b""
        if has_body and "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(first.split()[1]), headers, body)

    async def is_closed(self) -> bool:
        """Waits for the end, past whatever still comes."""
        try:
            await self.reader.read()
        except ConnectionError:
            return True
        return self.reader.at_eof()

    def close(self) -> None:
        self.writer.close()


class Endpoint:
    def __init__(self, single: SingleNode, server: HttpServer, port: int) -> None:
        self.single = single
        self.server = server
        self.port = port
        self._callers: list[Caller] = []

    async def connect(self) -> Caller:
        caller = Caller(*await asyncio.open_connection("127.0.0.1", self.port))
        self._callers.append(caller)
        return caller

    async def get(self, path: str, method: str = "GET") -> Answer:
        caller = await self.connect()
        caller.ask(method, path)
        return await caller.answer(has_body=method != "HEAD")

    def close(self) -> None:
        for caller in self._callers:
            caller.close()


def run(
    folder: Path,
    test: Callable[[Endpoint], Coroutine[Any, Any, None]],
    *,
    idle_ms_max: int = IDLE_MS_MAX,
    body_ms_max: int = TRANSFER_MS_MAX,
    connections_max: int = HTTP_CONNECTION_COUNT_MAX,
    budget: ConnectionBudget | None = None,
    budgets: Budgets | None = None,
    app: App | None = None,
) -> None:
    """`app`: another one than that of the node."""

    async def with_endpoint(single: SingleNode) -> None:
        server = HttpServer(
            single.status,
            idle_ms_max=idle_ms_max,
            body_ms_max=body_ms_max,
            connections_max=connections_max,
            budget=budget,
            budgets=budgets,
        )
        if app is not None:
            server.app = app
        endpoint = Endpoint(single, server, await server.start("127.0.0.1", 0))
        try:
            await test(endpoint)
        finally:
            endpoint.close()
            await server.close()

    single_node.run(folder, with_endpoint)
