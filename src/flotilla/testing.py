"""For tests of programs that use Flotilla: a whole broker in this process, with a clock that is turned by hand.

It is the broker that ships, on a free port and in a temporary folder: leases, backoff, delays, dead letters and
retention are the real ones. Only its time can be moved, so that a delay of seven days is over in milliseconds:

    def test_the_third_attempt_comes_a_week_later():
        with LocalBroker() as broker, broker.client() as client:
            client.produce("orders", b"1", delay_ms=7 * DAY_MS)
            with client.queue("orders", group="workers") as consumer:
                assert consumer.poll(wait_ms=0) == []
                broker.advance(days=7)
                assert [message.payload for message in consumer.poll()] == [b"1"]

Time also runs by itself, as everywhere. Nothing is left behind when the broker is closed.
"""

import asyncio
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.client.in_process import CLOCKS_HERE, LoopThread
from flotilla.runtime.clock import TurnedClock
from flotilla.server import Server
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import FlotillaError, NotLeaderError, UnavailableError
from flotilla.types.ids import GroupId
from flotilla.types.settings import NodeSettings

__all__ = ["DAY_MS", "HOUR_MS", "MINUTE_MS", "SECOND_MS", "LocalBroker"]

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_FREE = Address("127.0.0.1", 0)
#: How long, in real time, what has become due may take.
_DONE_MS_MAX: Final = 30_000


class LocalBroker:
    """A broker of its own for a test. It is ready when it has been made."""

    def __init__(self, **settings: Any) -> None:
        """Settings of the node by their names, as `flotilla config show` lists them."""
        self._folder = TemporaryDirectory(prefix="flotilla-test-", ignore_cleanup_errors=True)
        self._clock = TurnedClock()
        self._loop = LoopThread()
        endpoints = {"listen": _FREE, "peer_listen": _FREE, "http_listen": None, "grpc_listen": None}
        chosen: dict[str, Any] = {**endpoints, **settings}
        self._settings = NodeSettings(data_dir=str(Path(self._folder.name) / "data"), **chosen)
        self._settings.validate()
        try:
            self._server = self._loop.run(self._start())
        except BaseException:
            self._folder.cleanup()
            raise
        self._door = parse_address(self.address)
        CLOCKS_HERE[self._door] = self._clock.now_ms

    async def _start(self) -> Server:
        server = Server(self._settings, self._clock)
        await server.start()
        return server

    @property
    def address(self) -> str:
        """Where clients connect."""
        return self._server.client_address

    @property
    def grpc_address(self) -> str:
        """Where gRPC is spoken; empty unless `grpc_listen` was given."""
        return self._server.grpc_address

    def client(self, **options: Any) -> Client:
        """A client of this broker; options as of `Client`."""
        return Client(self.address, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        return AsyncClient(self.address, **options)

    def advance(self, ms: int = 0, **duration: float) -> None:
        """Turns the broker's clock forwards: `advance(500)`, `advance(seconds=30)`, `advance(days=7)`.

        What becomes due by it (the end of a lease, a delay, a retry, the way of a dead letter) has happened when this
        returns. Raises TimeoutError when that cannot be.
        """
        turned_ms = ms + round(timedelta(**duration).total_seconds() * 1000)
        self._loop.run(self._turn(turned_ms))

    async def _turn(self, ms: int) -> None:
        self._clock.turn(ms)
        async with asyncio.timeout(_DONE_MS_MAX / 1000):
            for group in list(self._server.membership.hosts):
                while not await self._settled(group):
                    await self._server.node.runtime.turned()
            await self._applied()

    async def _settled(self, group: GroupId) -> bool:
        """When the log of a partition knows what became of leases there. False: that is to be asked again."""
        host = self._server.membership.hosts.get(group)
        if host is None:
            return True
        try:
            queue = host.queue()
        except UnavailableError:
            # It begins to lead, or has to ask whether it still does.
            return False
        except NotLeaderError:
            return True
        while not queue.catch_up():
            await asyncio.sleep(0)
        answer: asyncio.Future[FlotillaError | None] = asyncio.get_running_loop().create_future()
        queue.settlements.push(lambda error: None if answer.done() else answer.set_result(error))
        return await answer is None and not queue.is_burying

    async def _applied(self) -> None:
        """When whatever else was proposed is in force: retention, members that are gone, and the like."""
        runtime = self._server.node.runtime
        # What was put off to the end of a turn of the loop may be to propose something.
        await asyncio.sleep(0)
        wanted = [(replica, replica.raft.log.last_index) for replica in list(runtime.driver.replicas.values())]
        while any(replica.applied < index for replica, index in wanted):
            await runtime.turned()

    def now_ms(self) -> int:
        """The time of day at the broker."""
        return self._clock.now_ms()

    def close(self) -> None:
        CLOCKS_HERE.pop(self._door, None)
        self._loop.stop(self._server.stop)
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
