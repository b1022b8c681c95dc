"""A broker in this process for tests of applications, with a clock that the test turns.

It is the real broker, on a free port and in a temporary folder: leases, backoff, delays, dead letters and retention
work as in production. Only its clock can be turned, so that a delay of seven days is over in milliseconds:

    def test_the_third_attempt_comes_a_week_later():
        with LocalBroker() as broker, broker.client() as client:
            client.produce("orders", b"1", delay_ms=7 * DAY_MS)
            with client.queue("orders", group="workers") as consumer:
                assert consumer.poll(wait_ms=0) == []
                broker.advance(days=7)
                assert [message.payload for message in consumer.poll()] == [b"1"]

Time also passes by itself. Closing the broker removes its folder.

`simulate` runs a test's own coroutines against a whole cluster with faults, in simulated time (docs/simulation.md).
"""

import asyncio
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self, TypedDict, Unpack

from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.client.credentials import Credentials, CredentialsProvider
from flotilla.client.in_process import CLOCKS_HERE, LoopThread
from flotilla.runtime.clock import TurnedClock
from flotilla.security.client_tls import Tls
from flotilla.server import Server
from flotilla.sim.whole.scenario import SimulatedCluster, SimulatedProcess, SimulationFailedError, simulate
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import FlotillaError, NotLeaderError, UnavailableError
from flotilla.types.ids import GroupId
from flotilla.types.settings import NodeSettings

__all__ = [
    "DAY_MS",
    "HOUR_MS",
    "MINUTE_MS",
    "SECOND_MS",
    "BrokerSettings",
    "LocalBroker",
    "SimulatedCluster",
    "SimulatedProcess",
    "SimulationFailedError",
    "simulate",
]

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_FREE = Address("127.0.0.1", 0)
#: How long, in real time, what has become due may take.
_DONE_MS_MAX: Final = 30_000


class BrokerSettings(TypedDict, total=False):
    """The settings of a node that matter to one broker in a test; docs/reference/settings.md explains them."""

    listen: Address
    peer_listen: Address
    http_listen: Address | None
    grpc_listen: Address | None
    authentication: bool
    token_keys: str
    auto_create_topics: bool
    default_partitions: int
    default_replication_factor: int
    tls_certificate: str
    tls_key: str
    tls_ca: str
    tls_client_certificates: str


class LocalBroker:
    """A broker for one test. It is ready when the constructor returns."""

    def __init__(self, **settings: Unpack[BrokerSettings]) -> None:
        """It listens for clients on a free port, and for HTTP and gRPC only if their addresses are given."""
        self._folder = TemporaryDirectory(prefix="flotilla-test-", ignore_cleanup_errors=True)
        self._clock = TurnedClock()
        self._loop = LoopThread()
        chosen: BrokerSettings = {
            "listen": _FREE,
            "peer_listen": _FREE,
            "http_listen": None,
            "grpc_listen": None,
            **settings,
        }
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
        """The address for clients."""
        return self._server.client_address

    @property
    def grpc_address(self) -> str:
        """The address of gRPC; empty unless `grpc_listen` was given."""
        return self._server.grpc_address

    def client(
        self,
        *,
        timeout_ms: int | timedelta = 30_000,
        name: str = "",
        tls: Tls | None = None,
        credentials: CredentialsProvider | Credentials | None = None,
    ) -> Client:
        """A client of this broker."""
        return Client(self.address, timeout_ms=timeout_ms, name=name, tls=tls, credentials=credentials)

    def async_client(
        self,
        *,
        timeout_ms: int | timedelta = 30_000,
        name: str = "",
        tls: Tls | None = None,
        credentials: CredentialsProvider | Credentials | None = None,
    ) -> AsyncClient:
        """A client of this broker, for coroutines."""
        return AsyncClient(self.address, timeout_ms=timeout_ms, name=name, tls=tls, credentials=credentials)

    def advance(self, ms: int | timedelta = 0, **duration: float) -> None:
        """Turns the broker's clock forwards: `advance(500)`, `advance(seconds=30)`, `advance(days=7)`.

        Everything that becomes due by it (leases that expire, delays, retries, dead letters) has happened when this
        returns. Raises TimeoutError when that takes longer than 30 s.
        """
        first = ms if isinstance(ms, timedelta) else timedelta(milliseconds=ms)
        turned_ms = round((first + timedelta(**duration)).total_seconds() * 1000)
        self._loop.run(self._turn(turned_ms))

    async def _turn(self, ms: int) -> None:
        self._clock.turn(ms)
        async with asyncio.timeout(_DONE_MS_MAX / 1000):
            for group in list(self._server.membership.hosts):
                while not await self._settled(group):
                    await self._server.node.runtime.turned()
            await self._scheduled()
            await self._expired()
            await self._applied()

    async def _scheduled(self) -> None:
        """When messages of schedules that are due are visible."""
        runs, machine = self._server.membership.schedule_runs, self._server.catalog.machine
        runs.look()
        while runs.has_work() or machine.state.transactions.awaited:
            await self._server.node.runtime.turned()

    async def _expired(self) -> None:
        """When groups that nobody has used for long are deleted."""
        expiry = self._server.membership.group_expiry
        expiry.look_at_all()
        while expiry.is_looking:
            await self._server.node.runtime.turned()

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
