"""The two threads of the blocking consumer wake each other only where they must, and never miss each other."""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from flotilla import Client, LeaseExpiredError
from flotilla.client.queue._settlements import LINGER_MS
from flotilla.types.operations.queue import Settle
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers
from tests.unit.client.queue_world import QueueWorld
from tests.unit.client.shells import TcpServers


@pytest.fixture
def servers() -> Iterator[TcpServers]:
    with broker_servers(Brokers(2)) as opened:
        opened.cluster.create("orders", 1)
        yield opened


@pytest.fixture
def client(servers: TcpServers) -> Iterator[Client]:
    with Client(servers.addresses) as opened:
        yield opened


def counted(action: Callable[..., object], calls: list[str]) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        calls.append(threading.current_thread().name)
        return action(*arguments)

    return call


def test_acks_that_nobody_waits_for_wake_the_loop_once_for_each_linger(
    client: Client, servers: TcpServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.produce_many("orders", [b"x"] * 200)
    with client.queue("orders", group="workers", prefetch=1_000) as consumer:
        messages = list(islice(consumer, 200))
        calls: list[str] = []
        monkeypatch.setattr(consumer._thread, "post", counted(consumer._thread.post, calls))
        began = time.monotonic()
        for message in messages:
            message.ack(wait=False)
        lingers = 1 + (time.monotonic() - began) * 1000 / LINGER_MS
        assert len(calls) <= lingers
        consumer.flush()
        assert servers.cluster.count(Settle) <= len(calls) + 1
    assert client.describe_group("orders", "workers").acked_total == 200


def test_half_of_a_small_window_is_worth_waking_the_loop(client: Client) -> None:
    """Each message is polled for when the last one is settled: without the wake-up that takes a linger each."""
    client.produce_many("orders", [b"x"] * 300)
    with client.queue("orders", group="workers", prefetch=1) as consumer:
        for message in islice(consumer, 300):
            assert consumer._outbox_count == 0 or consumer._is_posted
            message.ack(wait=False)
        consumer.flush()
    assert client.describe_group("orders", "workers").acked_total == 300


def test_an_outcome_in_the_outbox_precedes_the_next_call_about_its_message(client: Client) -> None:
    client.produce_many("orders", [b"a", b"b"])
    with client.queue("orders", group="workers", prefetch=100) as consumer:
        first, second = islice(consumer, 2)
        first.ack(wait=False)
        second.ack(wait=False)
        with pytest.raises(LeaseExpiredError):
            second.extend(10_000)
    assert client.describe_group("orders", "workers").acked_total == 2


def test_a_waiting_thread_takes_each_message_as_it_comes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it iterates, it waits without a coroutine on the loop."""
    with client.queue("orders", group="workers") as consumer:
        client.produce("orders", b"first")
        with next(consumer) as message:
            assert message.payload == b"first"

        def refuse(work: object) -> None:
            raise AssertionError("no coroutine is needed")

        found: list[bytes] = []
        with monkeypatch.context() as patched:
            patched.setattr(consumer, "_thread", _Thread(consumer._thread, refuse))
            for number in range(20):
                client.produce("orders", b"%d" % number)
                with next(consumer) as message:
                    found.append(message.payload)
        assert found == [b"%d" % number for number in range(20)]


class _Thread:
    """A client's thread that runs no coroutines."""

    def __init__(self, thread: object, refuse: Callable[[object], None]) -> None:
        self._thread = thread
        self.run = refuse

    def __getattr__(self, name: str) -> object:
        return getattr(self._thread, name)


def test_closing_wakes_every_waiting_thread(client: Client) -> None:
    consumer = client.queue("orders", group="workers")
    client.produce("orders", b"x")
    with next(consumer):
        pass
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            next(consumer)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while len(consumer._feed.wakers) < 3 and time.monotonic() < end:
        time.sleep(0.001)
    consumer.close()
    for thread in threads:
        thread.join(20)
    assert [str(error) for error in raised] == ["the consumer is closed"] * 3


def test_the_taker_of_the_last_message_learns_that_nothing_is_polled_for() -> None:
    world = QueueWorld()
    world.produce(*[b"%d" % number for number in range(8)])
    consumer = world.consumer(prefetch=8)
    consumer.flow()
    reader = consumer.reader
    consumer.ack(reader.take(3))
    # Five are ready: too many to poll for three more.
    assert reader.is_sated
    reader.take(5)
    consumer.pump()
    assert not reader.is_sated
    world.produce(b"more")
    world.pass_ms(100)
    assert len(reader.take(8)) == 1
