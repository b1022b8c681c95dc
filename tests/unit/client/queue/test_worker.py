"""A worker: handlers in threads and on the loop, what becomes of their messages, and how it ends."""

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from flotilla import (
    AnyMessage,
    AsyncClient,
    AsyncQueueMessage,
    Client,
    ConnectionClosedError,
    ContentType,
    DetachedMessage,
    InvalidArgumentError,
    QueueMessage,
    Reject,
    Release,
    Retry,
    Worker,
)
from flotilla.types.errors import NotFoundError
from flotilla.types.operations.queue import Extend
from tests.unit.client.queue.test_shells import many, until
from tests.unit.client.shells import TcpServers
from tests.unit.runtime.exposition import parse

GROUP = "workers"


@pytest.fixture
def client(servers: TcpServers) -> Iterator[Client]:
    servers.cluster.create("orders", 2, nack_backoff_ms="1ms", nack_backoff_max_ms="1ms")
    with Client(servers.addresses) as opened:
        yield opened


class Running:
    """A worker in a thread of its own."""

    def __init__(self, addresses: list[str], handler: Callable[..., object], **settings: object) -> None:
        self.worker = Worker(addresses, "orders", GROUP, handler, **settings)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert self.worker.running_count == 0


def test_handlers_in_threads(client, servers):
    client.produce_many("orders", many(50), partition=0)
    client.produce_many("orders", many(50, first=50), partition=1)
    found: list[bytes] = []

    def handle(message: QueueMessage) -> None:
        assert isinstance(message, QueueMessage)
        message.extend(20_000)
        found.append(message.payload)

    with Running(servers.addresses, handle, concurrency=8):
        until(lambda: client.groups("orders") != {} and client.describe_group("orders", GROUP).acked_total == 100)
    assert sorted(found, key=int) == many(100)


def test_handlers_on_the_loop(client, servers):
    client.produce_many("orders", many(100))
    found: list[bytes] = []

    async def handle(message: AsyncQueueMessage) -> None:
        if message.payload == b"7":
            await message.ack()
        found.append(message.payload)

    with Running(servers.addresses, handle) as running:
        until(lambda: client.groups("orders") != {} and client.describe_group("orders", GROUP).acked_total == 100)
        assert (running.worker.handled_count, running.worker.failed_count) == (100, 0)
    assert sorted(found, key=int) == many(100)


def test_the_exception_of_a_handler_decides_the_outcome(client, servers, caplog):
    client.produce_many("orders", [b"fails", b"rejected", b"again", b"fine"], partition=0)
    attempts: dict[bytes, int] = {}

    def handle(message: QueueMessage) -> None:
        attempts[message.payload] = message.attempt
        if message.payload == b"fails" and message.attempt < 3:
            raise ValueError("not yet")
        if message.payload == b"rejected":
            raise Reject("garbage")
        if message.payload == b"again" and message.attempt == 1:
            raise Retry(delay_ms=1)

    with Running(servers.addresses, handle) as running:
        until(lambda: client.groups("orders") != {} and client.describe_group("orders", GROUP).acked_total == 3)
        assert attempts == {b"fails": 3, b"rejected": 1, b"again": 2, b"fine": 1}
        assert (running.worker.failed_count, running.worker.rejected_count) == (3, 1)
        measured = parse(running.worker.metrics())
        ended = measured["flotilla_worker_messages_ended_total"].samples
        assert {labels[2][1]: count for (_, labels), count in ended.items()} == {
            "done": 3,
            "failed": 2,
            "retried": 1,
            "rejected": 1,
            "released": 0,
        }
        place = (("topic", "orders"), ("group", GROUP))
        assert measured["flotilla_worker_messages_started_total"].samples == {
            ("flotilla_worker_messages_started_total", place): 7
        }
        assert set(measured["flotilla_worker_messages_running"].samples.values()) == {0}
        assert measured["flotilla_worker_handler_seconds"].samples["flotilla_worker_handler_seconds_count", place] == 7
    assert client.describe_group("orders", GROUP).dead_total == 1
    assert 'raise ValueError("not yet")' in caplog.text, "the traceback"
    history = client.explain("orders", GROUP, 0, 0).history
    assert any('in handle\n    raise ValueError("not yet")' in event for event in history), history
    assert "attempt 1, is rejected: garbage" in caplog.text
    assert "attempt 1, is retried" in caplog.text


def test_a_released_message_counts_no_attempt(client, servers):
    client.produce("orders", b"x")
    attempts: list[int] = []

    def handle(message: QueueMessage) -> None:
        attempts.append(message.attempt)
        if len(attempts) == 1:
            raise Release(timedelta(milliseconds=1))

    with Running(servers.addresses, handle) as running:
        until(lambda: client.groups("orders") != {} and client.describe_group("orders", GROUP).acked_total == 1)
        assert (running.worker.handled_count, running.worker.failed_count) == (2, 0)
    assert attempts == [1, 1]


def test_hooks_hear_of_failures_and_the_worker_is_a_context_manager(client, servers, caplog):
    client.produce_many("orders", [b"fails", b"rejected", b"fine"], partition=0)
    failed: list[tuple[bytes, str]] = []
    rejected: list[tuple[bytes, str]] = []

    def on_error(message: AnyMessage, error: BaseException) -> None:
        failed.append((message.payload, str(error)))
        raise LookupError("a hook that fails")

    def handle(message: QueueMessage) -> None:
        if message.payload == b"fails" and message.attempt == 1:
            raise ValueError("not yet")
        if message.payload == b"rejected":
            raise Reject("garbage")

    hooks = {"on_error": on_error, "on_reject": lambda message, error: rejected.append((message.payload, str(error)))}
    with Worker(servers.addresses, "orders", GROUP, handle, **hooks) as worker:
        until(lambda: worker.handled_count == 4)
    assert failed == [(b"fails", "not yet")]
    assert rejected == [(b"rejected", "garbage")]
    assert "a hook that fails" in caplog.text
    with pytest.raises(NotFoundError), Worker(servers.addresses, "nowhere", GROUP, handle) as worker:
        until(lambda: worker._failure is not None)


@pytest.mark.parametrize("handler", [lambda: None, lambda one, two: None, object.__repr__.__get__(1)])
def test_a_handler_that_takes_no_message_is_refused(servers, handler):
    with pytest.raises(InvalidArgumentError, match="a handler takes one argument"):
        Worker(servers.addresses, "orders", GROUP, handler)


def test_a_message_for_a_pool_of_processes(client, servers):
    client.produce("orders", b"{}", key=b"k", headers={"schema": "a"}, content_type=ContentType.JSON)
    with client.queue("orders", GROUP) as queue:
        [message] = queue.poll()
        copy = pickle.loads(pickle.dumps(message.detached()))
        assert isinstance(copy, DetachedMessage)
        assert isinstance(message, AnyMessage)
        assert (copy.payload, copy.attempt, copy.topic, copy.key) == (b"{}", 1, "orders", b"k")
        assert (message.json(), message.text, copy.header("schema"), copy.header("none")) == ({}, "{}", b"a", None)
        assert message.content_type == ContentType.JSON
        with pytest.raises(TypeError, match="detached"):
            pickle.dumps(message)
        with pytest.raises(TypeError):
            len(message)
        message.ack()
        message.nack()
    assert client.describe_group("orders", GROUP).acked_total == 1


def test_a_slow_handler_does_not_block_others(client, servers):
    client.produce_many("orders", [b"slow", *many(40)], partition=0)
    go_on = threading.Event()

    def handle(message: QueueMessage) -> None:
        if message.payload == b"slow":
            go_on.wait(30)

    with Running(servers.addresses, handle, concurrency=2):
        until(lambda: client.groups("orders") != {} and client.describe_group("orders", GROUP).acked_total == 40)
        assert client.describe_group("orders", GROUP).leased == 1
        go_on.set()
    assert client.describe_group("orders", GROUP).acked_total == 41


@pytest.mark.parametrize("is_async", [False, True])
def test_stopping_lets_handlers_finish_and_gives_the_rest_back(client, servers, is_async):
    client.produce_many("orders", many(20), partition=0)
    begun: list[bytes] = []
    go_on = threading.Event()

    def handle(message: QueueMessage) -> None:
        begun.append(message.payload)
        go_on.wait(30)

    async def handle_async(message: AsyncQueueMessage) -> None:
        begun.append(message.payload)
        while not go_on.is_set():
            await asyncio.sleep(0.005)

    with Running(servers.addresses, handle_async if is_async else handle, concurrency=3, prefetch=10) as running:
        until(lambda: len(begun) == 3)
        running.worker.stop()
        until(lambda: client.describe_group("orders", GROUP).leased == 3)
        go_on.set()
    info = client.describe_group("orders", GROUP)
    assert (info.acked_total, info.leased, info.ready, info.failed_total) == (3, 0, 17, 0)
    assert len(begun) == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_stopping_handles_what_is_acknowledged_already(client, servers, is_async):
    client.produce_many("orders", many(100), partition=0)
    begun: list[bytes] = []
    ended: list[bytes] = []
    go_on = threading.Event()

    def handle(message: QueueMessage) -> None:
        begun.append(message.payload)
        go_on.wait(30)
        ended.append(message.payload)

    async def handle_async(message: AsyncQueueMessage) -> None:
        begun.append(message.payload)
        while not go_on.is_set():
            await asyncio.sleep(0.005)
        ended.append(message.payload)

    handler = handle_async if is_async else handle
    with Running(servers.addresses, handler, concurrency=3, prefetch=10, ack_mode="auto") as running:
        until(lambda: len(begun) == 3 and client.describe_group("orders", GROUP).acked_total > 3)
        running.worker.stop()
        go_on.set()
    acked = client.describe_group("orders", GROUP).acked_total
    assert 3 < acked < 100
    assert sorted(ended, key=int) == many(acked)


def test_a_closed_client_ends_the_worker(client, servers):
    async def serve() -> None:
        connection = AsyncClient(servers.addresses)
        worker = Worker(connection, "orders", GROUP, lambda message: None)
        serving = asyncio.ensure_future(worker.serve())
        while client.groups("orders") == {}:
            await asyncio.sleep(0.005)
        await connection.close()
        with pytest.raises(ConnectionClosedError):
            await asyncio.wait_for(serving, 20)

    asyncio.run(serve())


def test_a_handler_that_does_not_end_loses_its_message_uncounted(client, servers):
    client.produce("orders", b"stuck")
    begun = threading.Event()

    async def handle(message: AsyncQueueMessage) -> None:
        begun.set()
        await asyncio.sleep(3_600)

    with Running(servers.addresses, handle, drain_ms=50):
        assert begun.wait(20)
    info = client.describe_group("orders", GROUP)
    assert (info.acked_total, info.leased, info.ready, info.failed_total) == (0, 0, 1, 0)


def test_a_worker_that_was_stopped_before_does_not_begin(servers):
    worker = Worker(servers.addresses, "orders", GROUP, lambda message: None)
    worker.stop()
    worker.run()


def test_a_permanent_error_ends_the_worker(client, servers):
    with Running(servers.addresses, lambda message: None) as running:
        running.worker.stop()
    worker = Worker(servers.addresses, "missing", GROUP, lambda message: None)
    with pytest.raises(NotFoundError):
        worker.run()
    with pytest.raises(InvalidArgumentError):
        Worker(servers.addresses, "orders", GROUP, lambda message: None, concurrency=0)


def test_leases_of_handlers_that_block_are_renewed(client, servers):
    client.produce("orders", b"slow")
    attempts: list[int] = []
    cluster = servers.cluster
    begun_ms, turn_to = cluster.fleet.clock.now_ms, cluster.fleet.turn_to
    # At the broker, time passes by renewals alone, most of a lease at each: it is over soon if they do not prolong it.
    cluster.fleet.turn_to = lambda _: turn_to(begun_ms + 800 * cluster.count(Extend))

    def handle(message: QueueMessage) -> None:
        attempts.append(message.attempt)
        until(lambda: cluster.count(Extend) >= 3)

    with Running(servers.addresses, handle, visibility_ms=1_000):
        until(lambda: client.groups("orders") != {} and client.describe_group("orders", GROUP).acked_total == 1)
    assert attempts == [1]
