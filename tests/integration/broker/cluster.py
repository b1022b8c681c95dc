"""Real brokers for tests: `flotilla serve` as processes of their own, on free ports, with data in a folder.

A node keeps its addresses and its data over restarts. Everything that takes time is waited for by condition and
has a deadline; a test that ends leaves no process behind, whatever happened in it.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.client.async_client import AsyncClient
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import GetMetadata, Metadata
from tests.integration.fork_server import ForkedBroker, fork_broker
from tests.integration.ports import LOOPBACK, free_ports

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
#: How long anything may take before a test gives up; far above what is promised, because machines are busy.
WAIT_S_MAX = 60.0
#: What `flotilla serve` promises for an orderly stop.
STOP_S_MAX = 10.0
_POLL_S = 0.02

T = TypeVar("T")


class Broker:
    """One node: its addresses and data stay, its process comes and goes."""

    def __init__(self, node: int, folder: Path, host: str, ports: Sequence[int], flags: dict[str, str]) -> None:
        """`flags` are settings by name; those of the node itself are filled in."""
        self.node = node
        self.data = folder / f"node-{node}"
        self.log = folder / f"node-{node}.log"
        self.client_address = f"{host}:{ports[0]}"
        self.peer_address = f"{host}:{ports[1]}"
        #: What the command runs under, such as another network namespace.
        self.prefix: tuple[str, ...] = ()
        #: Where its program is.
        self.source = ROOT / "src"
        self.flags = {
            "node_id": str(node),
            "data_dir": str(self.data),
            "listen": self.client_address,
            "peer_listen": self.peer_address,
            "http_listen": "off",
            "grpc_listen": "off",
            # Hosts in namespaces of their own are other machines.
            "insecure": "true",
            "auto_create_topics": "true",
            "journal_file_bytes": "2MiB",
            "segment_file_bytes": "1MiB",
            **flags,
        }
        if not host.startswith("127."):
            self.flags["join_secret"] = str(folder / "join.secret")
            secret = Path(self.flags["join_secret"])
            secret.touch(0o600)
            secret.write_text("a secret that the nodes of this test share\n")
        self._process: subprocess.Popen[bytes] | ForkedBroker | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert not self.is_running
        flags = [
            f"--{name.replace('_', '-')}" + ("" if value == "true" else f"={value}")
            for name, value in self.flags.items()
        ]
        arguments = ["serve", "--stop-with-stdin", *flags]
        with self.log.open("ab") as log:
            if not self.prefix and self.source == ROOT / "src":
                self._process = fork_broker(arguments, {**os.environ}, log)
                return
            self._process = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "flotilla.cli", *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(self.source)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """As a crash: it gets no chance to do anything."""
        if self.is_running:
            self.signal(signal.SIGKILL)
            assert await self.wait_exit() == -signal.SIGKILL

    async def stop(self) -> int:
        """In order, by SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return await self.wait_exit(STOP_S_MAX)

    async def wait_exit(self, seconds: float = WAIT_S_MAX) -> int:
        assert self._process is not None
        process = self._process
        code = await wait_until(process.poll, f"the end of node {self.node}", seconds, is_enough=_is_known)
        assert code is not None
        if process.stdin is not None:
            process.stdin.close()
        return code

    def end(self) -> None:
        """Whatever it does, also when it is paused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()

    def logged(self) -> str:
        """The end of what it wrote."""
        return self.log.read_text(errors="replace")[-20_000:] if self.log.exists() else ""


class BrokerCluster:
    def __init__(self, folder: Path, *, flags: dict[str, str] | None = None, hosts: Iterable[str] = (LOOPBACK,) * 3):
        """`flags` go to every node. Nothing runs before `start`."""
        self.folder = folder
        self._flags = flags or {}
        self.brokers: dict[int, Broker] = {}
        for node, host in enumerate(hosts, start=1):
            self.brokers[node] = Broker(node, folder, host, free_ports(2), self._flags)
        peers = ",".join(f"{broker.node}={broker.peer_address}" for broker in self.brokers.values())
        for broker in self.brokers.values():
            broker.flags["peers"] = peers

    def __getitem__(self, node: int) -> Broker:
        return self.brokers[node]

    @property
    def addresses(self) -> list[str]:
        return [broker.client_address for broker in self.brokers.values()]

    @property
    def running(self) -> list[int]:
        return [broker.node for broker in self.brokers.values() if broker.is_running]

    def client(self, *, timeout_ms: int = 30_000) -> AsyncClient:
        return AsyncClient(self.addresses, timeout_ms=timeout_ms)

    def add(self, node: int, **flags: str) -> Broker:
        """A broker with a place of its own; not started, and not one of those that found the cluster."""
        broker = self.brokers[node] = Broker(node, self.folder, LOOPBACK, free_ports(2), {**self._flags, **flags})
        return broker

    def stranger(self, folder: Path, **flags: str) -> Broker:
        """A process outside of the cluster; the caller ends it."""
        return Broker(int(flags.get("node_id", "1")), folder, LOOPBACK, free_ports(2), {**self._flags, **flags})

    def start(self) -> None:
        for broker in self.brokers.values():
            if not broker.is_running:
                broker.start()

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.end()

    async def kill_all(self) -> None:
        """All at the same moment, as far as signals allow."""
        for broker in self.brokers.values():
            broker.signal(signal.SIGKILL)
        for broker in self.brokers.values():
            await broker.wait_exit()

    async def wait_ready(self, client: AsyncClient) -> Metadata:
        """Every running broker knows all others to be alive, and the leader of the metadata."""

        def is_complete(found: dict[int, Metadata]) -> bool:
            return all(self._is_complete(view) for view in found.values())

        await wait_for(self.views, "a complete cluster", is_enough=is_complete)
        return await wait_for(client.admin.metadata, "a complete cluster", is_enough=self._is_complete)

    def _is_complete(self, view: Metadata) -> bool:
        alive = {broker.node for broker in view.brokers if broker.is_alive}
        return view.controller in self.running and alive >= set(self.running)

    async def views(self, topic: str = "", excluded: int = 0) -> dict[int, Metadata]:
        """What each running broker says about a topic, or about everything."""
        found: dict[int, Metadata] = {}
        for node in [node for node in self.running if node != excluded]:
            async with DirectConnection(self[node].client_address) as connection:
                answer = await connection.ask(GetMetadata([topic] if topic else []))
            if isinstance(answer, FlotillaError):
                raise answer
            assert isinstance(answer, Metadata)
            found[node] = answer
        return found

    async def leaders(self, topic: str, excluded: int = 0) -> dict[int, int]:
        """For each partition the node that says of itself that it leads; others may only guess."""
        return {
            part.number: node
            for node, view in (await self.views(topic, excluded)).items()
            for described in view.topics
            for part in described.partitions
            if part.leader == node
        }

    async def wait_led(self, topic: str, partitions: int = 1, excluded: int = 0) -> dict[int, int]:
        """Every partition of the topic has a leader, which is not `excluded`."""
        return await wait_for(
            lambda: self.leaders(topic, excluded),
            f"leaders of {topic}",
            is_enough=lambda found: len(found) == partitions,
        )

    async def leader(self, topic: str, partition: int = 0) -> Broker:
        found = await wait_for(
            lambda: self.leaders(topic), f"a leader of {topic}/{partition}", is_enough=lambda found: partition in found
        )
        return self.brokers[found[partition]]

    async def lead(self, client: AsyncClient, topic: str, partition: int, node: int) -> None:
        """Has a replica lead, however often it takes: leadership moves only to one that has caught up."""

        async def move() -> int:
            leader = (await self.leaders(topic)).get(partition, 0)
            if leader not in (0, node):
                await client.admin.transfer_leadership(topic, partition, node)
            return leader

        await wait_for(move, f"node {node} to lead {topic}/{partition}", is_enough=node.__eq__)


async def wait_for(
    look: Callable[[], Awaitable[T]], what: str, seconds: float = WAIT_S_MAX, *, is_enough: Callable[[T], bool]
) -> T:
    """Looks until what is seen is enough. Errors are not: the cluster may be in between."""
    seen: object = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    found = await look()
                    if is_enough(found):
                        return found
                    seen = found
                except (FlotillaError, OSError, EOFError) as error:
                    seen = error
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise AssertionError(f"waited {seconds} s for {what}; last seen: {seen!r}") from None


async def wait_until(
    look: Callable[[], T], what: str, seconds: float = WAIT_S_MAX, *, is_enough: Callable[[T], bool] = bool
) -> T:
    async def looked() -> T:
        return look()

    return await wait_for(looked, what, seconds, is_enough=is_enough)


def _is_known(code: int | None) -> bool:
    return code is not None


def run(
    cluster: BrokerCluster,
    scenario: Callable[[BrokerCluster, AsyncClient], Coroutine[Any, Any, None]],
    *,
    seconds: float = 60,
) -> None:
    """Runs a scenario against a cluster that has come up. A failure shows what the brokers logged."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds), cluster.client() as client:
            await cluster.wait_ready(client)
            await scenario(cluster, client)

    try:
        asyncio.run(bounded())
    except BaseException as error:
        for broker in cluster.brokers.values():
            error.add_note(f"--- node {broker.node} ---\n{broker.logged()}")
        raise
