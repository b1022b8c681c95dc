"""A minimal HTTP client with keep-alive connections, so that the servers are measured and not the client."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any


class Wire(asyncio.Protocol):
    """One connection with one request in flight."""

    def __init__(self) -> None:
        self._buffer = b""
        self._need = -1
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._need < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            at = head.index(b"content-length:") + 15
            stop = head.find(b"\r\n", at)
            self._need = end + 4 + int(head[at : stop if stop >= 0 else len(head)])
            self._body_at = end + 4
        if len(self._buffer) >= self._need:
            status, body = int(self._buffer[9:12]), self._buffer[self._body_at : self._need]
            self._buffer, self._need = self._buffer[self._need :], -1
            assert self._waiting is not None
            self._waiting.set_result((status, body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the server closed the connection"))

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer's body. Raises AssertionError for an error status."""
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        kind = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(f"{method} {path} HTTP/1.1\r\nHost: bench\r\n{kind}\r\n".encode() + data)
        status, answer = await self._waiting
        assert status < 300, (status, answer)
        return json.loads(answer)

    def close(self) -> None:
        self._transport.close()


async def with_wires(addresses: Sequence[str], count: int, work: Callable[[int, Wire], Awaitable[None]]) -> float:
    """Seconds until `work` has ended on that many connections, spread over the servers."""
    loop = asyncio.get_running_loop()
    wires: list[Wire] = []
    for number in range(count):
        host, _, port = addresses[number % len(addresses)].rpartition(":")
        _, wire = await loop.create_connection(Wire, host, int(port))
        wires.append(wire)
    began = loop.time()
    await asyncio.gather(*[work(number, wire) for number, wire in enumerate(wires)])
    seconds = loop.time() - began
    for wire in wires:
        wire.close()
    return seconds
