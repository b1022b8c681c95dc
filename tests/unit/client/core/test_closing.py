"""How blocks are left while the brokers do not answer: soon after an interrupt, and in peace otherwise."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from flotilla.client._core import closing as leaving
from flotilla.client._options import TIMEOUT_MS_DEFAULT
from flotilla.types.operations import Produce, Request
from flotilla.types.records import Record
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers
from tests.unit.client.shells import Shell, TcpServers

#: Instead of two seconds, so that all of this takes no time.
SHORT_MS = 100
#: No test waits for the time limit of a client, however slow this machine is.
PATIENCE_S = TIMEOUT_MS_DEFAULT / 1000 / 2


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "INTERRUPTED_MS_MAX", SHORT_MS)


@pytest.fixture
def servers() -> Iterator[TcpServers]:
    with broker_servers(Brokers(2)) as opened:
        opened.cluster.create("orders")
        yield opened


def fall_silent(servers: TcpServers) -> None:
    """As brokers do that are stopped: they take everything and answer nothing."""
    servers.cluster.handle = lambda *_: None


def leave(block: Shell, kind: type[BaseException] = KeyboardInterrupt) -> None:
    """Sees that it takes no time, and that the interrupt is what is raised."""

    def work() -> None:
        with block:
            raise kind

    began = time.monotonic()
    with pytest.raises(kind):
        work()
    assert time.monotonic() - began < PATIENCE_S


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("flotilla")]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_an_interrupted_producer(connect, servers, caplog, kind):
    producer = connect().producer("orders")
    producer.send(b"stored").result()
    fall_silent(servers)
    for _ in range(3):
        producer.send(b"x")
    leave(producer, kind)
    assert messages(caplog) == ["a producer of orders was closed before 3 of its records had an answer"]


def test_an_interrupted_client(connect, servers, caplog):
    client = connect()
    first, second = client.producer("orders"), client.producer("orders", linger_ms=60_000)
    first.send(b"stored").result()
    fall_silent(servers)
    first.send(b"x")
    second.send(b"y")
    leave(client)
    assert messages(caplog) == ["a producer of orders was closed before 1 of its records had an answer"] * 2


@pytest.mark.parametrize("is_client_left", [False, True])
def test_an_interrupted_queue_consumer(connect, servers, caplog, is_client_left):
    client = connect()
    client.produce_many("orders", [b"x", b"y"])
    consumer = client.queue("orders", group="workers")
    found = consumer.poll(2)
    assert len(found) == 2
    fall_silent(servers)
    found[0].ack(wait=False)
    leave(client if is_client_left else consumer)
    subject = "a client" if is_client_left else "a consumer of orders"
    [text] = messages(caplog)
    # One was done, and the other is given back.
    assert text.startswith(f"{subject} was interrupted: 2 messages were settled without an answer within")


@pytest.mark.parametrize("is_client_left", [False, True])
def test_an_interrupted_stream_consumer(connect, servers, caplog, is_client_left):
    servers.cluster.produce("orders", 0, Record(b"x"))
    client = connect()
    consumer = client.stream("orders", group="billing", auto_commit_ms=60_000)
    while not consumer.poll(1, wait_ms=20_000):
        pass
    # Polling again means that the last messages were handled.
    assert consumer.poll(1, wait_ms=0) == []
    fall_silent(servers)
    leave(client if is_client_left else consumer)
    subject = "a client" if is_client_left else "a consumer of orders"
    [text] = messages(caplog)
    assert text.startswith(f"{subject} was interrupted: ")


def test_an_interrupted_transaction(connect, servers):
    transaction = connect().transaction()
    transaction.produce("orders", b"x")
    fall_silent(servers)
    leave(transaction)


@pytest.mark.parametrize("error", [None, ValueError])
def test_without_an_interrupt_closing_waits_for_a_slow_broker(connect, servers, caplog, error):
    handle = servers.cluster.handle

    def answer_late(node: int, request: Request, done, metadata_index: int):
        if isinstance(request, Produce):
            answer = asyncio.get_running_loop().call_later
            answer(3 * SHORT_MS / 1000, handle, node, request, done, metadata_index)
            return None
        return handle(node, request, done, metadata_index)

    servers.cluster.handle = answer_late
    producer = connect().producer("orders")

    def work() -> None:
        with producer:
            producer.send(b"x")
            if error is not None:
                raise error

    if error is None:
        work()
    else:
        with pytest.raises(error):
            work()
    assert servers.cluster.stored("orders") == [b"x"]
    assert messages(caplog) == []
