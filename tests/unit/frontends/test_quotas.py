"""Quotas at a real broker: callers over TCP, HTTP and gRPC wait for their rate, and bounds refuse."""

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator
from unittest.mock import patch

import grpc
import httpx
import pytest
from typer.testing import CliRunner

from flotilla import Quota, QuotaExceededError
from flotilla.cli.app import app
from flotilla.client.client import Client
from flotilla.client.credentials import Password
from flotilla.codec.generated import flotilla_pb2
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from flotilla.testing import LocalBroker
from flotilla.types.access import CONSUME, MANAGE, PRODUCE
from tests.unit.frontends.test_authentication import ADMIN, ANY_PORT, basic, user

__all__ = ["user"]

#: What the lowest rate of bytes takes half a second for, beyond its burst.
LARGE = bytes(24 * 1024)
LOWEST = 16 * 1024


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with (
        patch("flotilla.broker.security.stored_bytes.LOOK_MS", 20),
        LocalBroker(authentication=True, http_listen=ANY_PORT, grpc_listen=ANY_PORT) as started,
    ):
        with started.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        yield started


@pytest.fixture(scope="module")
def admin(broker: LocalBroker) -> Iterator[Client]:
    with broker.client(credentials=ADMIN) as client:
        client.create_topic("orders")
        yield client


@pytest.fixture
def producer(admin: Client, user: Password) -> Password:
    admin.admin.grants.add(user.user, PRODUCE)
    admin.admin.grants.add(user.user, MANAGE)
    return user


class Timed:
    def __enter__(self) -> "Timed":
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began


def waited_s(broker: LocalBroker, subject: str) -> float:
    text = broker._loop.run(broker._server.status.metrics()).decode()
    [line] = [line for line in text.splitlines() if line.startswith("flotilla_quota_waited") and subject in line]
    return float(line.split()[-1])


def fill(client: Client, topic: str) -> None:
    for _ in range(1_000):
        client.produce(topic, bytes(10_000))


def test_requests_wait_for_their_rate(broker, admin, producer):
    with broker.client(credentials=producer) as client:
        client.produce("orders", b"0")
        admin.admin.quotas.set(Quota(producer.user, requests_per_second=5))
        with Timed() as spent:
            for _ in range(9):
                client.produce("orders", b"1")
    # Five at once, and from the seventh on each a fifth of a second after the one before.
    assert spent.seconds > 0.55
    assert waited_s(broker, producer.user) > 0.55


def test_a_user_beyond_its_rate_delays_nobody_else(broker, admin, producer):
    """The rate of one user is a tenth of what it asks for; another, with a quota of its own, waits for nothing."""
    admin.admin.users.create("calm", "pencil")
    admin.admin.grants.add("calm", PRODUCE)
    admin.admin.quotas.set(Quota("calm", requests_per_second=100_000))
    admin.admin.quotas.set(Quota(producer.user, requests_per_second=1))
    stored = 0
    is_over = threading.Event()

    def push(client: Client) -> None:
        nonlocal stored
        while not is_over.is_set():
            client.produce("orders", b"1")
            stored += 1

    with broker.client(credentials=producer) as client, broker.client(credentials=Password("calm", "pencil")) as calm:
        pushing = threading.Thread(target=push, args=(client,))
        pushing.start()
        took: list[float] = []
        with Timed() as spent:
            while waited_s(broker, producer.user) < 1:
                with Timed() as one:
                    calm.produce("orders", b"2")
                took.append(one.seconds)
        is_over.set()
        pushing.join()
    # What waits for the rate waits for most of a second each time.
    assert statistics.median(took) < 0.5
    assert waited_s(broker, "calm") == 0
    assert stored <= spent.seconds + 3
    admin.admin.users.delete("calm")


def test_bytes_in_wait(broker, admin, producer):
    admin.admin.quotas.set(Quota(producer.user, bytes_in_per_second=LOWEST))
    with broker.client(credentials=producer) as client:
        client.produce("orders", LARGE)
        with Timed() as spent:
            client.produce("orders", b"next")
        assert spent.seconds > 0.4


def test_bytes_out_wait(broker, admin, user):
    admin.create_topic("large")
    admin.produce("large", LARGE)
    admin.admin.grants.add(user.user, CONSUME, "large")
    admin.admin.quotas.set(Quota(user.user, bytes_out_per_second=LOWEST))
    with broker.client(credentials=user) as client:
        assert len(client.peek("large")) == 1
        with Timed() as spent:
            client.peek("large")
        assert spent.seconds > 0.4


def test_connections_have_a_bound(broker, admin, producer):
    admin.admin.quotas.set(Quota(producer.user, connections=1))
    with broker.client(credentials=producer) as first:
        first.topics()
        with broker.client(credentials=producer) as second, pytest.raises(QuotaExceededError):
            second.topics()
        # One over TCP leaves none for HTTP and gRPC.
        url = f"http://{broker._server._own.http_address}/v1/topics"
        refused = httpx.get(url, headers=basic(producer))
        assert (refused.status_code, refused.json()["code"]) == (429, "QUOTA_EXCEEDED")

    while httpx.get(url, headers=basic(producer)).status_code == 429:
        pass
    assert httpx.get(url, headers=basic(producer)).status_code == 200


def test_a_namespace_has_a_bound_on_partitions_and_stored_bytes(broker, admin, producer):
    admin.admin.quotas.set(Quota(namespace="team-a", partitions=2, stored_bytes=60_000))
    with broker.client(credentials=producer) as client:
        client.create_topic("team-a.one", partitions=2)
        with pytest.raises(QuotaExceededError):
            client.create_topic("team-a.two")
        with pytest.raises(QuotaExceededError):
            fill(client, "team-a.one")
        url = f"http://{broker._server._own.http_address}/v1/topics/team-a.one/records"
        answer = httpx.post(url, headers=basic(producer), json={"records": [{"payload_text": "x"}]})
        assert (answer.status_code, answer.json()["code"]) == (429, "QUOTA_EXCEEDED")
        client.produce("orders", b"elsewhere")
        client.delete_topic("team-a.one")
        client.create_topic("team-a.two")
        deadline = time.monotonic() + 10
        while True:
            try:
                client.produce("team-a.two", b"room again")
                break
            except QuotaExceededError:
                assert time.monotonic() < deadline
    admin.admin.quotas.remove(namespace="team-a")
    assert [quota.user for quota in admin.admin.quotas.list() if quota.namespace] == []


def test_the_topics_of_a_user_have_a_bound_on_partitions_and_stored_bytes(broker, admin, producer, tmp_path):
    """However they are created: by name, by the first record over TCP, HTTP and gRPC, or for a schedule."""
    admin.admin.quotas.set(Quota(producer.user, partitions=5, stored_bytes=60_000))
    url = f"http://{broker._server._own.http_address}/v1"

    def over_http(topic: str) -> tuple[int, str]:
        records = {"records": [{"payload_text": "x"}]}
        answer = httpx.post(f"{url}/topics/{topic}/records", headers=basic(producer), json=records)
        return answer.status_code, answer.json().get("code", "")

    async def over_grpc(topic: str) -> None:
        async with grpc.aio.insecure_channel(broker.grpc_address) as channel:
            wanted = flotilla_pb2.ProduceRequest(topic=topic, records=[flotilla_pb2.Record(payload=b"x")])
            await FlotillaStub(channel).Produce(wanted, metadata=(("authorization", basic(producer)["Authorization"]),))

    with broker.client(credentials=producer) as client:
        client.create_topic("own-1")
        client.produce("own-2", b"x")
        assert over_http("own-3") == (201, "")
        asyncio.run(over_grpc("own-4"))
        made = httpx.put(
            f"{url}/schedules/own",
            headers=basic(producer),
            json={"topic": "own-5", "every_ms": 3_600_000, "message": {"payload_text": "x"}},
        )
        assert made.status_code < 300, made.text
        assert {admin.describe_topic(f"own-{number}").owner for number in range(1, 6)} == {producer.user}
        with pytest.raises(QuotaExceededError):
            client.create_topic("own-6")
        with pytest.raises(QuotaExceededError):
            client.produce("own-6", b"x")
        assert over_http("own-6") == (429, "QUOTA_EXCEEDED")
        with pytest.raises(QuotaExceededError):
            client.alter_topic("own-1", partitions=2)
        with pytest.raises(QuotaExceededError):
            fill(client, "own-1")
        # The topic is full for all, and its owner still produces to topics of others.
        with pytest.raises(QuotaExceededError):
            admin.produce("own-1", b"x")
        client.produce("orders", b"x")
    [(_, used)] = [each for each in admin.admin.quotas.usage() if each[0].user == producer.user]
    assert used.partitions == 5
    assert used.stored_bytes > 60_000
    secret = tmp_path / "password"
    secret.touch(0o600)
    secret.write_text("a long password")
    told = {"FLOTILLA_SERVERS": broker.address, "FLOTILLA_USER": "root", "FLOTILLA_PASSWORD_FILE": str(secret)}
    listed = CliRunner(env=told).invoke(app, ["quota", "list"])
    assert "5 of 5" in listed.output
    for number in range(1, 6):
        admin.delete_topic(f"own-{number}")


def test_http_and_grpc_wait_too(broker, admin, producer):
    admin.admin.quotas.set(Quota(producer.user, bytes_in_per_second=LOWEST))
    url = f"http://{broker._server._own.http_address}/v1/topics/orders/records"

    def over_http() -> None:
        answer = httpx.post(url, headers=basic(producer), json={"records": [{"payload_text": "x" * len(LARGE)}]})
        assert answer.status_code < 300, answer.text

    async def over_grpc() -> None:
        async with grpc.aio.insecure_channel(broker.grpc_address) as channel:
            wanted = flotilla_pb2.ProduceRequest(topic="orders", records=[flotilla_pb2.Record(payload=LARGE)])
            await FlotillaStub(channel).Produce(wanted, metadata=(("authorization", basic(producer)["Authorization"]),))

    over_http()
    with Timed() as spent:
        over_http()
    assert spent.seconds > 0.4
    with Timed() as spent:
        asyncio.run(over_grpc())
    # The request before owes more than a second.
    assert spent.seconds > 0.9
