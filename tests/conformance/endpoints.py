"""The endpoints of a broker that scenarios are played at."""

import asyncio

from flotilla.client._core.connection import ClientConnection
from flotilla.client._core.local_link import LocalConnection
from flotilla.client.credentials import Password
from flotilla.codec.client.frames import Answer
from flotilla.codec.client.handover import Answers
from flotilla.server import Server
from flotilla.types.address import parse_address
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Reply, Request
from flotilla.types.operations.queue import AddCredit, Pushed, Subscribe, Unsubscribe
from tests.conformance.grpc_endpoint import Grpc
from tests.conformance.http_endpoint import Http

#: Requests with many answers, and about such a one. They are played where subscriptions are told apart: over TCP.
_PUSH = (Subscribe, AddCredit, Unsubscribe)


class InProcess:
    """Straight into the service."""

    #: Kinds of requests that the endpoint does not offer.
    LACKS: tuple[type[Request], ...] = _PUSH

    def __init__(self, server: Server) -> None:
        self._service = server.broker

    async def open(self) -> None:
        """It always is."""

    async def close(self) -> None:
        """Nothing to let go of."""

    async def call(self, request: Request) -> Reply | FlotillaError:
        answered: asyncio.Future[Reply | FlotillaError] = asyncio.get_running_loop().create_future()
        cancel = self._service.handle(request, answered.set_result)
        try:
            return await answered
        finally:
            if cancel is not None and not answered.done():
                cancel()


class _Answers(asyncio.Queue[Reply | FlotillaError]):
    """The answers to one request of a connection."""

    correlation_id = 0


class _PushedConnection(ClientConnection[_Answers]):
    """Takes many answers to one request, which the Python client never makes."""

    def _take(self, correlation_id: int, answer: Answer) -> _Answers | None:
        if isinstance(answer, Pushed):
            return self._waiting[correlation_id]
        return super()._take(correlation_id, answer)


class Tcp:
    """Over a socket, through the codec of the client, on one connection."""

    LACKS: tuple[type[Request], ...] = ()

    def __init__(self, server: Server, credentials: Password | None = None) -> None:
        self._server = server
        self._connection = _PushedConnection(None if credentials is None else lambda: credentials)
        self._welcomed = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        address = parse_address(self._server.client_address)
        reader, self._writer = await asyncio.open_connection(address.host, address.port)
        self._reading = asyncio.ensure_future(self._read(reader))
        self._writer.writelines(self._connection.greet("conformance"))
        await self._welcomed.wait()

    async def close(self) -> None:
        assert self._reading is not None
        self._writer.close()
        await self._writer.wait_closed()
        await self._reading

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            for answers, answer in self._connection.receive(data):
                answers.put_nowait(answer)
            self._writer.writelines(self._connection.take_log_in())
            if self._connection.is_open:
                self._welcomed.set()

    async def call(self, request: Request) -> Reply | FlotillaError:
        answers = self._send(request)
        try:
            return await answers.get()
        finally:
            self._connection.forget(answers.correlation_id)

    def subscribe(self, request: Subscribe) -> _Answers:
        return self._send(request)

    def _send(self, request: Request) -> _Answers:
        answers = _Answers()
        answers.correlation_id, frame = self._connection.send(request, answers)
        self._writer.writelines(frame)
        return answers


class Local:
    """Over the link within a process, as the node's own gateway comes in."""

    LACKS: tuple[type[Request], ...] = _PUSH

    def __init__(self, server: Server) -> None:
        self._endpoint = server.local_endpoint(parse_address(server.client_address))
        self._connection: LocalConnection[asyncio.Future[Reply | FlotillaError]] = LocalConnection()
        self._welcomed = asyncio.Event()
        self._lost = asyncio.Event()

    async def open(self) -> None:
        assert self._endpoint is not None
        self._transport = self._endpoint.connect(self._received, lambda reason: self._lost.set())
        self._transport.writelines(self._connection.greet("conformance"))
        await self._welcomed.wait()

    async def close(self) -> None:
        self._transport.abort()
        await self._lost.wait()

    def _received(self, answers: Answers) -> None:
        for answered, answer in self._connection.receive(answers):
            if not answered.done():
                answered.set_result(answer)
        if self._connection.is_open:
            self._welcomed.set()

    async def call(self, request: Request) -> Reply | FlotillaError:
        answered: asyncio.Future[Reply | FlotillaError] = asyncio.get_running_loop().create_future()
        correlation_id, values = self._connection.send(request, answered)
        self._transport.writelines(values)
        try:
            return await answered
        finally:
            self._connection.forget(correlation_id)


ENDPOINTS = {"in-process": InProcess, "local": Local, "tcp": Tcp, "grpc": Grpc, "http": Http}
