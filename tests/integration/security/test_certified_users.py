"""Users whom their certificates name, and passwords over TLS: the rights are the same at every endpoint."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Iterator

import httpx
import pytest

from flotilla import Client, Password
from flotilla.client.node_client import node_client
from flotilla.security.node_tls import NodeTls
from flotilla.testing import LocalBroker
from flotilla.types.access import PRODUCE
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import NotFoundError, PermissionDeniedError, UnauthenticatedError
from tests.unit.security.issuing import node_files, trusting, user_tls

FREE = Address("127.0.0.1", 0)
ADMIN = Password("root", "a long password")


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    certificate, key, ca = node_files(1)
    with LocalBroker(
        tls_certificate=certificate,
        tls_key=key,
        tls_ca=ca,
        tls_client_certificates="optional",
        http_listen=FREE,
        authentication=True,
    ) as made:
        with made.client(tls=trusting()) as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        with made.client(tls=trusting(), credentials=ADMIN) as admin:
            admin.create_topic("orders")
            admin.create_topic("secret")
            admin.admin.grants.add("alice", PRODUCE, "orders")
        yield made


def test_a_certificate_is_a_log_in(broker: LocalBroker) -> None:
    with broker.client(tls=user_tls("alice")) as alice:
        for _ in range(20):
            alice.produce("orders", b"1")
        with pytest.raises(NotFoundError):
            alice.produce("secret", b"1")
        with pytest.raises(PermissionDeniedError):
            alice.delete_topic("orders")
    with broker.client(tls=user_tls("bob")) as bob:
        assert bob.topics() == []
    with broker.client(tls=trusting()) as nobody, pytest.raises(UnauthenticatedError):
        nobody.produce("orders", b"1")


def test_a_certificate_counts_over_http(broker: LocalBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="flotilla.audit")
    url = f"https://127.0.0.1:{parse_address(broker._server._own.http_address).port}"  # type: ignore[union-attr]
    alice = user_tls("alice")
    context = ssl.create_default_context(cafile=alice.ca)
    header = {"Authorization": f"Basic {b64encode(b'root:a long password').decode()}"}
    with httpx.Client(verify=context) as plain:
        assert plain.get(f"{url}/v1/topics").status_code == 401
        assert len(plain.get(f"{url}/v1/topics", headers=header).json()["topics"]) == 2
    context.load_cert_chain(alice.certificate, alice.key)
    with httpx.Client(verify=context) as certified:
        for _ in range(2):
            assert [each["topic"] for each in certified.get(f"{url}/v1/topics").json()["topics"]] == ["orders"]
    lines = [record.__dict__["fields"] for record in caplog.records if record.message == "log-in"]
    assert [line["principal"] for line in lines if line["mechanism"] == "certificate"] == ["user alice"]


def test_a_node_of_the_cluster_may_do_everything(broker: LocalBroker) -> None:
    async def use() -> int:
        tls = NodeTls(node_files(2), "flotilla", 2, "optional")
        async with node_client(broker.address, tls.node_dialler()) as client:
            return len(await client.topics())

    assert asyncio.run(use()) == 2


def test_a_user_of_another_authority_is_nobody(broker: LocalBroker) -> None:
    stranger = user_tls("alice", authority="another")
    client = Client(broker.address, tls=stranger, timeout_ms=1_000)
    with client, pytest.raises(Exception):  # noqa: B017 - the handshake fails in one of several ways.
        client.topics()
