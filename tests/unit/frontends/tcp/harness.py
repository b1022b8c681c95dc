"""A small service behind a real TCP server on loopback, and a client worked by hand."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import uvloop

from flotilla.broker.ports import Cancel, Done
from flotilla.codec.client.frames import Answer, decode_response, encode_request
from flotilla.frontends.tcp.server import TcpServer
from flotilla.types.errors import NotFoundError
from flotilla.types.operations import Fetch, Fetched, Hello, Produce, Produced, Reply, Request

#: The real timer stays out of the way: tests turn the clock by hand.
NEVER_MS = 3_600_000


class EchoService:
    """Keeps batches by topic and gives them back; a fetch beyond the end waits for the next produce."""

    node = 3
    cluster_id = "test"

    def __init__(self) -> None:
        self.topics: dict[str, list[bytes]] = {}
        self.parked: dict[Done, Fetch] = {}
        self.cancelled_count = 0
        self.handled_count = 0
        #: While set, produces are kept here and not answered.
        self.held: list[Done] | None = None

    #: No topic was ever changed.
    metadata_index = 0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def lost(self, members: Sequence[str]) -> None:
        """No leases are kept here."""

    def handle(self, request: Request, done: Done, metadata_index: int = 0) -> Cancel | None:
        self.handled_count += 1
        if isinstance(request, Produce):
            return self._produce(request, done)
        if isinstance(request, Fetch):
            return self._fetch(request, done)
        if type(request).__name__ == "RemoveNode":
            raise RuntimeError("a fault of the service")
        done(NotFoundError(f"{type(request).__name__} is not served"))
        return None

    def _produce(self, request: Produce, done: Done) -> None:
        if self.held is not None:
            self.held.append(done)
            return
        batches = self.topics.setdefault(request.topic, [])
        batches.append(bytes(request.batch))
        done(Produced(len(batches) - 1))
        for waiter, fetch in list(self.parked.items()):
            if fetch.topic == request.topic:
                del self.parked[waiter]
                waiter(self._found(fetch))

    def _fetch(self, request: Fetch, done: Done) -> Cancel | None:
        if request.wait_ms and request.offset >= len(self.topics.get(request.topic, [])):
            self.parked[done] = request
            return lambda: self._cancel(done)
        done(self._found(request))
        return None

    def _cancel(self, done: Done) -> None:
        if self.parked.pop(done, None) is not None:
            self.cancelled_count += 1

    def _found(self, fetch: Fetch) -> Reply:
        batches = self.topics.get(fetch.topic, [])
        return Fetched(list(batches[fetch.offset :]), 0, len(batches))


class BareClient:
    """One connection, worked by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, correlation_id: int, request: Any) -> None:
        self.writer.writelines(encode_request(correlation_id, request))

    async def read(self) -> tuple[int, Answer]:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return decode_response(await self.reader.readexactly(length))[:2]

    async def call(self, correlation_id: int, request: Any) -> Answer:
        self.send(correlation_id, request)
        number, answer = await self.read()
        assert number == correlation_id
        return answer

    async def wait_cut(self) -> None:
        """Returns when the other side has ended the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        self.writer.close()


class Endpoint:
    """A running server with its service, and the clients that a test has dialled."""

    def __init__(self, **options: Any) -> None:
        self.service = EchoService()
        self.server = TcpServer(self.service, tick_ms=NEVER_MS, **options)
        self.port = 0
        self.clients: list[BareClient] = []

    async def start(self) -> None:
        self.port = await self.server.start("127.0.0.1", 0)

    async def dial(self, greet: bool = True) -> BareClient:
        client = BareClient(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        if greet:
            await client.call(1, Hello(1, 1, "test"))
        return client

    def tick(self, seconds: int) -> None:
        for _ in range(seconds):
            self.server.tick()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Turns the loop until the condition holds; bounded by the time of the whole test."""
        while not condition():
            await asyncio.sleep(0.001)

    def count(self, name: str) -> int:
        return self.server.statistics()[name]


def run(test: Callable[[Endpoint], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def bounded() -> None:
        endpoint = Endpoint(**options)
        await endpoint.start()
        try:
            async with asyncio.timeout(20):
                await test(endpoint)
        finally:
            for client in endpoint.clients:
                client.writer.transport.abort()
            await endpoint.server.close()
            # A turn for each transport to notice.
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())
