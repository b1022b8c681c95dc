"""TLS and log-ins are switched on in a running cluster, by restarts one after the other, and nobody is stopped."""

import asyncio
import ssl
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from flotilla import AsyncClient, Password
from flotilla.testing import LocalBroker
from flotilla.types.access import ACTIONS
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import NotFoundError, UnauthenticatedError
from tests.integration.broker.cluster import BrokerCluster, run, wait_until
from tests.integration.ports import free_ports
from tests.unit.security.issuing import node_files, trusting

FREE = Address("127.0.0.1", 0)
ADMIN = Password("root", "a long password")


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    certificate, key, ca = node_files(1)
    with LocalBroker(
        tls_certificate=certificate,
        tls_key=key,
        tls_ca=ca,
        tls_mode="optional",
        http_listen=FREE,
        grpc_listen=FREE,
        grpc_tls_listen=Address("127.0.0.1", *free_ports(1)),
        authentication=True,
        anonymous=True,
    ) as made:
        with made.client() as nobody:
            # From the machine of the node, while there are no users.
            nobody.admin.users.create_administrator("root", "a long password")
        with made.client(credentials=ADMIN) as admin:
            admin.create_topic("open")
            admin.create_topic("closed")
            admin.admin.grants.add("anonymous", "produce", "open")
        yield made


def test_clients_with_and_without_tls_share_a_port(broker: LocalBroker) -> None:
    large = bytes(range(256)) * 3_000
    with broker.client() as plain, broker.client(tls=trusting()) as encrypted:
        for client in (plain, encrypted):
            client.produce("open", large)
        assert {channel.is_encrypted for channel in broker._server._tcp._channels} == {True, False}


def test_http_with_and_without_tls_shares_a_port(broker: LocalBroker) -> None:
    port = parse_address(broker._server._own.http_address).port  # type: ignore[union-attr]
    context = ssl.create_default_context(cafile=trusting().ca)
    for connection in (HTTPConnection("localhost", port), HTTPSConnection("localhost", port, context=context)):
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()


def test_grpc_has_a_port_for_each(broker: LocalBroker) -> None:
    encrypted = str(broker._server.settings.grpc_tls_listen).replace("127.0.0.1", "localhost")
    credentials = grpc.ssl_channel_credentials(Path(trusting().ca).read_bytes())
    for channel in (grpc.insecure_channel(broker.grpc_address), grpc.secure_channel(encrypted, credentials)):
        with channel:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)


def test_who_does_not_log_in_may_do_what_is_granted_to_anonymous(broker: LocalBroker) -> None:
    with broker.client() as nobody:
        assert [topic.name for topic in nobody.topics()] == ["open"]
        nobody.produce("open", b"1")
        for attempt in (lambda: nobody.produce("closed", b"1"), lambda: nobody.delete_topic("open")):
            with pytest.raises((UnauthenticatedError, NotFoundError)):
                attempt()
    with broker.client(credentials=ADMIN) as admin:
        admin.produce("closed", b"1")
    port = parse_address(broker._server._own.http_address).port  # type: ignore[union-attr]
    connection = HTTPConnection("localhost", port)
    for topic, status in (("open", 200), ("closed", 401)):
        body, kind = b'{"records": [{"payload": "eA=="}]}', {"Content-Type": "application/json"}
        connection.request("POST", f"/v1/topics/{topic}/records", body, kind)
        answer = connection.getresponse()
        answer.read()
        assert answer.status // 100 == status // 100, (topic, answer.status)
    connection.close()


class Load:
    """A producer and a consumer that never stop: what was acknowledged, and what came."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        self.acknowledged: set[bytes] = set()
        self.received: set[bytes] = set()
        self.errors: list[Exception] = []
        self._producing: list[asyncio.Task[None]] = []
        self._consuming: list[asyncio.Task[None]] = []

    def begin(self, name: bytes, **options: Any) -> None:
        self._producing.append(asyncio.create_task(self._kept(self._produce(name, options))))
        self._consuming.append(asyncio.create_task(self._kept(self._consume(options))))

    async def _kept(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self.errors.append(error)

    async def _produce(self, name: bytes, options: dict[str, Any]) -> None:
        async with AsyncClient(self._addresses, timeout_ms=60_000, **options) as client:
            number = 0
            while True:
                payload = b"%s %d" % (name, number)
                await client.produce("kept", payload, key=payload)
                self.acknowledged.add(payload)
                number += 1
                await asyncio.sleep(0.01)

    async def _consume(self, options: dict[str, Any]) -> None:
        async with (
            AsyncClient(self._addresses, timeout_ms=60_000, **options) as client,
            client.queue("kept", group="workers") as consumer,
        ):
            while True:
                for message in await consumer.poll():
                    self.received.add(message.payload)
                    await message.ack()

    async def grows(self) -> None:
        """Something new is acknowledged and received."""
        before = len(self.acknowledged)
        await wait_until(lambda: len(self.acknowledged) > before + 5 or self.errors, "progress of the producers")
        newest = set(self.acknowledged)
        await wait_until(lambda: newest <= self.received or self.errors, "everything that was acknowledged")
        assert self.errors == []

    async def settle(self) -> None:
        """Nothing more is produced, and everything that was acknowledged comes."""
        await _ended(self._producing)
        await wait_until(lambda: self.acknowledged <= self.received or self.errors, "what was acknowledged")
        assert self.errors == []

    async def end(self) -> None:
        await _ended(self._producing)
        await _ended(self._consuming)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()


async def restart_all(cluster: BrokerCluster, load: Load, options: dict[str, Any], **flags: str) -> None:
    """One node after the other, each with these flags and its certificate."""
    for number, broker in cluster.brokers.items():
        certificate, key, ca = node_files(number)
        assert await broker.stop() == 0
        broker.flags.update(tls_certificate=certificate, tls_key=key, tls_ca=ca, **flags)
        broker.start()
        await wait_whole(cluster, options)
        await load.grows()


async def wait_whole(cluster: BrokerCluster, options: dict[str, Any]) -> None:
    async with AsyncClient(cluster.addresses, **options) as client:

        async def is_whole() -> bool:
            found = await client.admin.metadata()
            parts = [part for topic in found.topics for part in topic.partitions]
            return all(broker.is_alive for broker in found.brokers) and all(part.leader for part in parts)

        while not await is_whole():
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_tls_and_log_ins_are_switched_on_under_load(tmp_path: Path) -> None:
    encrypted = {"tls": trusting(), "credentials": ADMIN}
    secret = tmp_path / "join.secret"
    secret.touch(0o600)
    secret.write_text("a secret that the nodes of this test share\n")

    async def play(cluster: BrokerCluster, client: AsyncClient) -> None:
        load = Load(cluster.addresses)
        await client.create_topic("kept", partitions=3, replication_factor=3)
        # Before anybody is asked: the first user, and what the others may do until they have one.
        await client.admin.users.create_administrator("root", "a long password")
        for action in ACTIONS:
            await client.admin.grants.add("anonymous", action)
        try:
            load.begin(b"plain")
            optional = {"tls_mode": "optional", "authentication": "true", "anonymous": "true"}
            optional |= {"join_secret": str(secret), "join_secret_mode": "optional"}
            await restart_all(cluster, load, {"credentials": ADMIN}, **optional)
            # Now the clients change, each when it likes.
            load.begin(b"encrypted", **encrypted)
            await load.grows()
            await load.end()
            load.begin(b"again", **encrypted)
            for broker in cluster.brokers.values():
                del broker.flags["anonymous"]
            await restart_all(cluster, load, encrypted, tls_mode="required", join_secret_mode="required")
            await load.settle()
        finally:
            await load.end()
        async with AsyncClient(cluster.addresses, tls=trusting(), timeout_ms=3_000) as nobody:
            with pytest.raises(UnauthenticatedError):
                await nobody.produce("kept", b"x")

    cluster = BrokerCluster(tmp_path, flags={"cluster_name": "flotilla"})
    try:
        for broker in cluster.brokers.values():
            broker.start()
        run(cluster, play, seconds=240)
    finally:
        for broker in cluster.brokers.values():
            broker.end()
