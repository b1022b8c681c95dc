"""An HTTP/1.1 client of one broker at a time, on the loop of the process: requests and answers in JSON."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from flotilla.sim.checkers.violation import Violation
from flotilla.types.errors import ALL_ERRORS, NotLeaderError, OutcomeUnknownError, UnavailableError

_ERRORS: Final = {error.row.name: error for error in ALL_ERRORS if error is not NotLeaderError}
_HEAD_END: Final = b"\r\n\r\n"


class HttpClient:
    def __init__(self, addresses: Sequence[tuple[str, int]], timeout_ms: int) -> None:
        self._addresses = list(addresses)
        self._timeout_s = timeout_ms / 1_000
        self._connection: _Connection | None = None

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Raises FlotillaError; OutcomeUnknownError when the request left and no answer came."""
        is_sent = False
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connected()
                is_sent = True
                status, answer = await connection.ask(_request(method, path, body))
        except (OSError, TimeoutError) as failure:
            self._turn()
            error = OutcomeUnknownError if is_sent else UnavailableError
            raise error(f"{type(failure).__name__}: {failure}") from None
        if status >= 300:
            code = str(answer.get("code"))
            if code not in _ERRORS or code == "UNKNOWN":
                raise Violation("clients get typed errors", f"{method} {path}: {status} {answer}")
            if code == "UNAVAILABLE":
                self._turn()
            raise _ERRORS[code](str(answer.get("message", "")))
        return answer

    async def _connected(self) -> "_Connection":
        connection = self._connection
        if connection is None or connection.is_lost:
            host, port = self._addresses[0]
            made = await asyncio.get_running_loop().create_connection(_Connection, host, port)
            connection = self._connection = made[1]
        return connection

    def _turn(self) -> None:
        """The next broker may know more."""
        self.close()
        self._addresses.append(self._addresses.pop(0))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _request(method: str, path: str, body: object) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
    if data:
        head += "Content-Type: application/json\r\n"
    return head.encode() + b"\r\n" + data


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self.is_lost = False
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answered: asyncio.Future[tuple[int, dict[str, Any]]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def ask(self, request: bytes) -> tuple[int, dict[str, Any]]:
        """Status and body. Raises OSError."""
        if self.is_lost or self._transport is None:
            raise ConnectionResetError("the connection is lost")
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answered

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(_HEAD_END)
        if not end:
            return
        lines = head.decode().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        size = int(fields["content-length"])
        if len(rest) < size or self._answered is None or self._answered.done():
            return
        self._received = rest[size:]
        self._answered.set_result((int(lines[0].split()[1]), json.loads(rest[:size])))
        if fields.get("connection", "").lower() == "close":
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionResetError("the connection is lost"))

    def close(self) -> None:
        self.is_lost = True
        if self._transport is not None:
            self._transport.close()
