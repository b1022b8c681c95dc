"""A broker with TLS: every endpoint speaks it, every client has it, and outsiders get nothing."""

import asyncio
import json
import shutil
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import grpc
import pytest

from flotilla import App, AsyncClient, Client, Tls, UnavailableError, Worker
from flotilla.client.producer._direct_connection import WORTH_WANTS
from flotilla.security.authority import Authority
from flotilla.security.blocking_tls import BlockingTls
from flotilla.server import Server
from flotilla.testing import LocalBroker
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import DeadlineError, InvalidArgumentError
from flotilla.types.records import Record
from flotilla.types.settings import NodeSettings
from tests.integration.testing.waiting import eventually
from tests.unit.security.issuing import CLUSTER, HOSTS, files_in, folder_of, node_files, trusting, user_tls

FREE = Address("127.0.0.1", 0)
SHORT_MS = 1_500


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    certificate, key, ca = node_files(1)
    with LocalBroker(
        tls_certificate=certificate,
        tls_key=key,
        tls_ca=ca,
        tls_client_certificates="optional",
        http_listen=FREE,
        grpc_listen=FREE,
        auto_create_topics=True,
    ) as made:
        yield made


def http_port(broker: LocalBroker) -> int:
    return parse_address(broker._server._own.http_address).port  # type: ignore[union-attr]


def test_messages_come_and_go(broker: LocalBroker) -> None:
    large = bytes(range(256)) * 3_000
    with broker.client(tls=trusting()) as client, client.queue("orders", group="g") as consumer:
        client.produce("orders", b"one")
        client.produce("orders", large)
        got: list[bytes] = []
        while len(got) < 2:
            for message in consumer.poll():
                got.append(message.payload)
                message.ack()
    assert got == [b"one", large]


def test_the_blocking_producer_has_its_own_connection_with_tls(broker: LocalBroker) -> None:
    with broker.client(tls=trusting()) as client:
        for number in range(3 * WORTH_WANTS):
            client.produce("direct", b"%d" % number)
        assert [type(each._socket) for each in client._direct._idle.values()] == [BlockingTls]


def test_coroutines_workers_and_apps(broker: LocalBroker) -> None:
    async def use() -> None:
        async with broker.async_client(tls=trusting()) as client:
            await client.produce("jobs", b"1")

    asyncio.run(use())
    seen: list[bytes] = []
    with Worker(broker.address, "jobs", "w", lambda message: seen.append(message.payload), tls=trusting()):
        while not seen:
            time.sleep(0.005)
    app = App(broker.address, tls=trusting())

    @app.task
    def double(number: int) -> int:
        return 2 * number

    with app:
        sent = double.send(4)
        app.run(burst=True)
        assert sent.result() == 8


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        (None, ""),
        (trusting(authority="other"), "not accepted"),
        (Tls(), "not accepted"),
    ],
)
def test_other_clients_do_not_get_in(broker: LocalBroker, tls: Tls | None, reason: str) -> None:
    with broker.client(tls=tls, timeout_ms=SHORT_MS) as client, pytest.raises((UnavailableError, DeadlineError)) as met:
        client.topics()
    assert reason in str(met.value)


def test_a_client_with_bad_files_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="No such file"):
        Client("localhost", tls=Tls(tmp_path / "none"))
    with pytest.raises(InvalidArgumentError, match="has no certificates"):
        AsyncClient("localhost", tls=Tls(node_files(1).key))


def test_the_endpoint_knows_who_a_client_is(broker: LocalBroker) -> None:
    def principals() -> list[str]:
        return [str(channel.connection.peer_principal) for channel in broker._server._tcp._channels]

    with broker.client(tls=user_tls("alice")) as alice, broker.client(tls=trusting()) as nobody:
        alice.topics()
        nobody.topics()
        seen = broker._loop.run(_called(principals))
    assert sorted(set(seen) - {"node 1"}) == ["None", "user alice"]


async def _called(function: object) -> object:
    return function()  # type: ignore[operator]


def read_again(broker: LocalBroker, *, is_forced: bool = True) -> None:
    """Has the broker look at its certificate, and waits until it has."""
    [file] = broker._server._fresh_files
    broker._loop.run(_called(lambda: file.look(is_forced=is_forced)))
    eventually(lambda: not broker._loop.run(_called(lambda: file._is_reading)))


def test_http_speaks_tls(broker: LocalBroker) -> None:
    context = ssl.create_default_context(cafile=str(trusting().ca))
    connection = HTTPSConnection("localhost", http_port(broker), context=context)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["status"]) == (200, "ok")
    # One that goes through the gateway, and one that has a client of its own.
    connection.request("POST", "/v1/topics", json.dumps({"topic": "web"}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 201
    connection.request("GET", "/v1/topics/web/groups/none/dead-letters")
    assert connection.getresponse().status in (200, 404)
    connection.close()


def test_http_knows_who_a_client_is(broker: LocalBroker) -> None:
    seen: list[object] = []
    app = broker._server._http.app

    async def spy(scope: dict[str, object], receive: object, send: object) -> None:
        seen.append((scope["scheme"], scope["peer_principal"]))
        await app(scope, receive, send)  # type: ignore[arg-type]

    broker._server._http.app = spy  # type: ignore[assignment]
    try:
        context = ssl.create_default_context(cafile=str(trusting().ca))
        alice = user_tls("alice")
        context.load_cert_chain(alice.certificate, alice.key)
        connection = HTTPSConnection("localhost", http_port(broker), context=context)
        connection.request("GET", "/health")
        connection.getresponse().read()
        connection.close()
    finally:
        broker._server._http.app = app
    assert [(scheme, str(who)) for scheme, who in seen] == [("https", "user alice")]


def test_grpc_speaks_tls(broker: LocalBroker) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    ca = Path(trusting().ca).read_bytes()
    with grpc.secure_channel(broker.grpc_address, grpc.ssl_channel_credentials(ca)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        serving = health_pb2.HealthCheckResponse.SERVING
        # The broker may still be starting.
        eventually(lambda: health.Check(health_pb2.HealthCheckRequest(), timeout=10).status == serving)
    with grpc.insecure_channel(broker.grpc_address) as channel, pytest.raises(grpc.RpcError):
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)


def ports(broker: LocalBroker) -> dict[str, int]:
    return {
        "tcp": parse_address(broker.address).port,
        "http": http_port(broker),
        "grpc": parse_address(broker.grpc_address).port,
    }


def test_certificates_change_without_a_restart(tmp_path: Path) -> None:
    shutil.copytree(folder_of(CLUSTER), tmp_path, dirs_exist_ok=True)
    Authority(tmp_path).issue_node(1, HOSTS, days=10, is_replacing=True)
    certificate, key, ca = files_in(tmp_path, "node1")
    with LocalBroker(tls_certificate=certificate, tls_key=key, tls_ca=ca, http_listen=FREE, grpc_listen=FREE) as broker:
        endpoints = ports(broker).values()

        def shown() -> set[bytes]:
            return set(map(served, endpoints))

        with broker.client(tls=Tls(ca)) as client:
            client.create_topic("kept")
            [before] = shown()
            Authority(tmp_path).issue_node(1, HOSTS, days=20, is_replacing=True)
            read_again(broker, is_forced=False)
            [after] = shown()
            assert after != before
            # Connections that are open stay, and a bad file changes nothing.
            client.produce("kept", b"1")
            Path(certificate).write_text("rubbish")
            read_again(broker)
            assert shown() == {after}
            client.produce("kept", b"2")
        metrics = broker._loop.run(broker._server.status.metrics()).decode()
        [line] = [line for line in metrics.splitlines() if line.startswith("flotilla_certificate_expiry_seconds")]
        assert 19 * 86_400 < int(line.split()[1]) <= 20 * 86_400


def served(port: int) -> bytes:
    """The certificate that an endpoint shows to a new connection."""
    context = ssl.create_default_context(cafile=str(trusting().ca))
    context.set_alpn_protocols(["h2"])
    import socket

    with (
        socket.create_connection(("localhost", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""


def test_required_certificates(tmp_path: Path) -> None:
    certificate, key, ca = node_files(1)
    with LocalBroker(
        tls_certificate=certificate,
        tls_key=key,
        tls_ca=ca,
        tls_client_certificates="required",
        grpc_listen=FREE,
        http_listen=FREE,
    ) as broker:
        with broker.client(tls=user_tls("alice")) as client:
            client.create_topic("mine")
        refused = pytest.raises((UnavailableError, DeadlineError), match="certificate required")
        with broker.client(tls=trusting(), timeout_ms=SHORT_MS) as client, refused:
            client.topics()
        alice = user_tls("alice")
        files = [Path(file).read_bytes() for file in (trusting().ca, alice.key, alice.certificate)]
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        with grpc.secure_channel(broker.grpc_address, grpc.ssl_channel_credentials(*files)) as channel:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        channel = grpc.secure_channel(broker.grpc_address, grpc.ssl_channel_credentials(files[0]))
        with channel, pytest.raises(grpc.RpcError):
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)


def test_a_node_joins_with_its_certificate_and_a_token(tmp_path: Path) -> None:
    """And its requests to the other one show that certificate, so that clients need none of a user."""
    token = tmp_path / "token"

    async def play() -> None:
        one = Server(settings(tmp_path, 1))
        await one.start()
        two = Server(settings(tmp_path, 2, join=(parse_address(one.client_address),), join_token=str(token)))
        await two.start()
        third: Server | None = None
        try:
            async with asyncio.timeout(30), AsyncClient(one.client_address, tls=user_tls("alice")) as client:
                while "join token" not in " ".join(reason.message for reason in two.entry.reasons()):
                    # A token that nobody made.
                    token.touch(0o600)
                    token.write_text("made up")
                    await asyncio.sleep(0.02)
                token.write_text(await client.admin.create_join_token(60_000))
                while len((await client.admin.metadata()).brokers) < 2:
                    await asyncio.sleep(0.02)
                third = Server(settings(tmp_path, 3, join=(parse_address(one.client_address),), join_token=str(token)))
                await third.start()
                while "used already" not in " ".join(reason.message for reason in third.entry.reasons()):
                    await asyncio.sleep(0.02)
            async with asyncio.timeout(30), AsyncClient(two.client_address, tls=user_tls("alice")) as client:
                await client.create_topic("both", partitions=4, replication_factor=1)
                # The second node reaches the first one's partitions through its own gateway.
                for partition in range(4):
                    await two.gateway.produce("both", [Record(b"1")], partition=partition)
            seen = {str(channel.connection.peer_principal) for channel in one._tcp._channels}
            assert "node 2" in seen
        finally:
            for server in (third, two, one):
                if server is not None:
                    await server.stop()

    asyncio.run(play())


def settings(folder: Path, node: int, join: tuple[Address, ...] = (), join_token: str = "") -> NodeSettings:
    certificate, key, ca = node_files(node)
    return NodeSettings(
        node_id=node,
        data_dir=str(folder / str(node)),
        listen=FREE,
        peer_listen=FREE,
        http_listen=None,
        grpc_listen=None,
        join=join,
        join_token=join_token,
        tls_certificate=certificate,
        tls_key=key,
        tls_ca=ca,
        tls_client_certificates="required",
    )


def test_nothing_is_lost_while_certificates_change(tmp_path: Path) -> None:
    """Clients come and go meanwhile, each with the newest certificate."""
    shutil.copytree(folder_of(CLUSTER), tmp_path, dirs_exist_ok=True)
    Authority(tmp_path).issue_node(1, HOSTS, is_replacing=True)
    certificate, key, ca = files_in(tmp_path, "node1")
    with LocalBroker(tls_certificate=certificate, tls_key=key, tls_ca=ca) as broker:
        with broker.client(tls=Tls(ca)) as client:
            client.create_topic("kept")
        for number in range(10):
            with broker.client(tls=Tls(ca)) as client:
                client.produce("kept", b"%d" % number)
                Authority(tmp_path).issue_node(1, HOSTS, is_replacing=True)
                read_again(broker)
                client.produce("kept", b"%d again" % number)
        with broker.client(tls=Tls(ca)) as client:
            found = [message.payload for message in client.peek("kept", max_messages=100)]
    assert found == [b"%d%s" % (number, more) for number in range(10) for more in (b"", b" again")]
