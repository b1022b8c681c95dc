"""A client under threads, forks and signals."""

import gc
import os
import re
import signal
import socket
import threading
import time
import warnings
import weakref
from datetime import timedelta

import pytest

from flotilla import Client, ConnectionClosedError, OutcomeUnknownError
from flotilla.client._options import TIMEOUT_MS_DEFAULT
from flotilla.types.operations import Fetch, GetMetadata, Produce
from flotilla.types.operations.queue import Settle
from tests.unit.client.brokers import HELD


class UnansweredRequests:
    """Requests of one kind are taken and not answered; `seen` is set by the first."""

    def __init__(self, servers, kind) -> None:
        self.seen = threading.Event()

        def hold(node, request):
            if not isinstance(request, kind):
                return None
            self.seen.set()
            return HELD

        servers.cluster.fault = hold


class HeldBrokers:
    """The brokers stand still at the first request of one kind, until they may go on."""

    def __init__(self, servers, kind) -> None:
        self.seen = threading.Event()
        self.go_on = threading.Event()

        def hold(node, request):
            if isinstance(request, kind):
                self.seen.set()
                assert self.go_on.wait(20)

        servers.cluster.fault = hold


def interrupt_when(event: threading.Event) -> threading.Thread:
    def interrupt() -> None:
        assert event.wait(10)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (Produce, lambda client: client.produce("orders", b"x")),
        (Produce, lambda client: client.produce_many("orders", [b"x"])),
        (GetMetadata, lambda client: client.topics()),
        (Fetch, lambda client: next(client.reader("orders"))),
        (Fetch, lambda client: client.reader("orders").poll(wait_ms=60_000)),
    ],
)
def test_an_interrupt_ends_a_wait_and_leaves_a_client_that_can_be_closed(servers, kind, action):
    servers.cluster.create("orders")
    held = UnansweredRequests(servers, kind)
    with Client(servers.addresses) as client:
        thread = interrupt_when(held.seen)
        with pytest.raises(KeyboardInterrupt):
            action(client)
        thread.join()
        client.close(timeout_ms=10)


def test_a_sender_that_waits_for_room_wakes_when_there_is_some(servers, monkeypatch):
    monkeypatch.setattr("flotilla.client.producer.sync.WAIT_MS_MAX", 60_000)
    servers.cluster.create("orders")
    started = time.monotonic()
    with (
        Client(servers.addresses) as client,
        client.producer("orders", linger_ms=0, buffer_bytes_max=2_000) as producer,
    ):
        for _ in range(20):
            producer.send(b"x" * 500)
    assert len(servers.cluster.stored("orders")) == 20
    assert time.monotonic() - started < 20, "a sender wakes without polling"


@pytest.mark.slow
def test_an_interrupt_in_a_with_block_ends_in_time(servers, caplog):
    servers.cluster.create("orders")
    held = UnansweredRequests(servers, Produce)
    interrupted = []

    def work():
        with Client(servers.addresses) as client, client.producer("orders") as producer:
            for _ in range(3):
                delivery = producer.send(b"x")
            try:
                delivery.result()
            finally:
                interrupted.append(time.monotonic())

    thread = interrupt_when(held.seen)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - interrupted[0] < TIMEOUT_MS_DEFAULT / 1000 / 2
    thread.join()
    assert [record.getMessage() for record in caplog.records] == [
        "a producer of orders was closed before 3 of its records had an answer"
    ]


@pytest.mark.parametrize("kind", [Settle, Produce])
def test_every_close_returns_when_the_first_is_done(servers, kind):
    servers.cluster.create("orders")
    client = Client(servers.addresses)
    client.produce("orders", b"a")
    consumer = client.queue("orders", group="workers")
    (message,) = consumer.poll()
    held = HeldBrokers(servers, kind)
    if kind is Settle:
        closed = consumer
        message.ack(wait=False)
    else:
        closed = client.producer("orders")
        delivery = closed.send(b"b")
    returned = []

    def close(each) -> None:
        each.close()
        returned.append(held.go_on.is_set())

    threads = [threading.Thread(target=close, args=(each,)) for each in (closed, client, client)]
    threads[0].start()
    assert held.seen.wait(10)
    for thread in threads[1:]:
        thread.start()
        thread.join(0.05)
    held.go_on.set()
    for thread in threads:
        thread.join(20)
    assert returned == [True, True, True]
    if kind is Produce:
        assert delivery.result().offset == 1
    with Client(servers.addresses) as other:
        assert other.describe_group("orders", "workers").acked_total == (kind is Settle)


@pytest.mark.parametrize(
    ("kind", "action", "errors"),
    [
        (Produce, lambda client: client.produce("orders", b"x"), OutcomeUnknownError),
        (GetMetadata, lambda client: client.topics(), ConnectionClosedError),
        (Fetch, lambda client: next(client.reader("orders")), ConnectionClosedError),
    ],
)
def test_closing_ends_the_waits_of_other_threads(servers, kind, action, errors):
    servers.cluster.create("orders")
    held = UnansweredRequests(servers, kind)
    client = Client(servers.addresses)
    results = []

    def wait() -> None:
        try:
            action(client)
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert held.seen.wait(10)
    client.close(timeout_ms=10)
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(results[0], errors)


def test_many_threads_share_a_client(servers):
    servers.cluster.create("orders", partitions=3)
    with Client(servers.addresses) as client:

        def work(name: int) -> None:
            for number in range(50):
                client.produce("orders", b"%d/%d" % (name, number), key=b"%d" % name)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stored = servers.cluster.stored("orders")
    assert len(stored) == 300
    for name in range(6):
        own = [value for value in stored if value.startswith(b"%d/" % name)]
        assert own == [b"%d/%d" % (name, number) for number in range(50)]


# After so many the parent has a connection of its own thread's, which the child must not use either.
@pytest.mark.parametrize("count", [1, 20])
def test_a_child_process_is_refused(servers, count):
    servers.cluster.create("orders")
    with Client(servers.addresses) as client, client.producer("orders") as producer:
        for _ in range(count):
            client.produce("orders", b"parent")
        pid = os.fork()
        if not pid:
            os._exit(_use_in_child(client, producer))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        client.produce("orders", b"parent again")
    assert servers.cluster.stored("orders") == [b"parent"] * count + [b"parent again"]


def _use_in_child(client, producer) -> int:
    refused = 0
    for action in (lambda: client.produce("orders", b"child"), client.topics, lambda: producer.send(b"child")):
        try:
            action()
        except ConnectionClosedError as error:
            refused += "each process" in str(error)
    client.close()
    return 0 if refused == 3 else 1


def test_a_child_process_can_leave_what_its_parent_has_not_sent(servers):
    servers.cluster.create("orders")
    with Client(servers.addresses) as client, client.producer("orders", linger_ms=60_000) as producer:
        producer.send(b"parent")
        pid = os.fork()
        if not pid:
            producer.close()
            try:
                producer.flush()
            except ConnectionClosedError:
                os._exit(0)
            os._exit(1)
        assert exit_code(pid) == 0
    assert servers.cluster.stored("orders") == [b"parent"]


def exit_code(pid: int) -> int:
    """Of a child that should be at its end soon."""
    end = time.monotonic() + 20
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def test_a_client_that_was_forgotten_sends_what_it_has_and_is_reported(servers):
    servers.cluster.create("orders")
    client = Client(servers.addresses)
    reference = weakref.ref(client)
    client.producer("orders", linger_ms=50).send(b"x")
    del client
    end = time.monotonic() + 20
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while reference() is not None:
            gc.collect()
            assert time.monotonic() < end
            time.sleep(0.005)
    assert len(caught) == 1
    assert re.fullmatch(r"the Client of [\d.:,]+ was not closed", str(caught[0].message))
    assert servers.cluster.stored("orders") == [b"x"]


def test_a_client_that_was_forgotten_is_reported_and_its_thread_ends(servers):
    client = Client(servers.addresses)
    client.topics()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del client
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    assert "flotilla-client" not in [thread.name for thread in threading.enumerate()]


def test_nothing_is_started_before_it_is_needed():
    client = Client("localhost:1")
    assert "flotilla-client" not in [thread.name for thread in threading.enumerate()]
    client.close()


def test_a_client_says_what_it_is_and_that_it_is_closed(servers):
    client = Client(servers.addresses)
    servers.cluster.create("orders")
    client.produce("orders", b"x")
    assert re.fullmatch(r"<Client [\d.:,]+>", repr(client))
    client.close()
    assert repr(client).endswith(", closed>")
    for action in (client.topics, lambda: client.produce("orders", b"x"), lambda: client.queue("orders", "g")):
        with pytest.raises(ConnectionClosedError, match="the client is closed"):
            action()


@pytest.mark.parametrize(
    ("answer", "text"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, "something that is not a Flotilla broker"), (b"", "does not answer")],
)
def test_a_port_of_something_else(answer, text):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1_000)
                    connection.sendall(answer)
                    connection.recv(1_000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = "{}:{}".format(*listener.getsockname())
        with (
            Client(address, timeout_ms=timedelta(milliseconds=500)) as client,
            pytest.raises(TimeoutError, match=text),
        ):
            client.topics()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
