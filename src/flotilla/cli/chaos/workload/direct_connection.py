"""A connection to one broker, worked by hand: asks this one and no other, and takes its first answer."""

import asyncio
from itertools import count
from types import TracebackType
from typing import Any, Self

from flotilla.codec.client.frames import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    Answer,
    decode_response,
    encode_request,
)
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Hello, Request, Welcome

ANSWER_S_MAX = 10.0


class DirectConnection:
    def __init__(self, address: str) -> None:
        self._address = address
        self._ids = count(1)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        try:
            self.send(Hello(PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX, "direct"))
            welcome = await self.receive()
            if isinstance(welcome, FlotillaError):
                raise welcome
            assert isinstance(welcome, Welcome)
        except BaseException:
            self._writer.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writer is not None
        self._writer.close()

    def send(self, request: Request[Any] | Hello) -> None:
        assert self._writer is not None
        self._writer.writelines(encode_request(next(self._ids), request))

    async def receive(self) -> Answer:
        """The next answer; an error is one too. Raises TimeoutError, and EOFError at the end of the connection."""
        assert self._reader is not None
        async with asyncio.timeout(ANSWER_S_MAX):
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            _, answer, _ = decode_response(await self._reader.readexactly(length))
        return answer

    async def ask(self, request: Request[Any]) -> Answer:
        self.send(request)
        return await self.receive()
