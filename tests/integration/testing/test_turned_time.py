"""Time that is turned by hand: what counts from now on counts by it, and what has become due has happened."""

import asyncio
from threading import Event, Thread

import grpc
import pytest

from flotilla import AsyncClient, Client
from flotilla.client.in_process import CLOCKS_HERE
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from flotilla.testing import DAY_MS, HOUR_MS, LocalBroker
from flotilla.types.address import Address, parse_address
from tests.integration.testing.waiting import payloads

ROUNDS = 25


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def drain(client, topic="orders"):
    with client.queue(topic, group="workers") as consumer:
        messages = consumer.poll(100, wait_ms=0)
        consumer.ack(messages)
        return sorted(payloads(messages))


def put_off(client, **fields):
    """One record by each way into a topic."""
    client.produce("orders", b"one", **fields)
    client.produce_many("orders", [b"values"], **fields)
    client.produce_many("orders", [b"records"], key=b"k", **fields)
    with client.producer("orders") as producer:
        producer.send(b"producer", **fields)
    with client.transaction() as transaction:
        transaction.produce("orders", b"transaction", **fields)


WAYS = sorted([b"one", b"values", b"records", b"producer", b"transaction"])


@pytest.mark.parametrize("is_known_before", [True, False])
def test_a_delay_counts_from_the_turned_time(broker, client, is_known_before):
    if is_known_before:
        # Connected, with an estimate of the time that is out of date soon.
        client.create_topic("orders")
    broker.advance(days=1)
    put_off(client, delay_ms=HOUR_MS)
    assert drain(client) == []
    broker.advance(minutes=59)
    assert drain(client) == []
    broker.advance(minutes=1, seconds=1)
    assert drain(client) == WAYS


@pytest.mark.parametrize("is_known_before", [True, False])
def test_a_time_to_live_counts_from_the_turned_time(broker, client, is_known_before):
    if is_known_before:
        client.create_topic("orders")
    broker.advance(days=1)
    put_off(client, ttl_ms=HOUR_MS)
    broker.advance(minutes=59)
    assert drain(client) == WAYS
    put_off(client, ttl_ms=HOUR_MS)
    broker.advance(minutes=61)
    assert drain(client) == []
    # That they were passed over is in the log now as well.
    broker.advance()
    assert client.describe_group("orders", "workers").expired_total == len(WAYS)


def test_programs_that_make_their_own_clients_are_right_as_well(broker):
    async def produce_later(client):
        await client.create_topic("later")
        broker_turned = asyncio.get_running_loop().run_in_executor(None, broker.advance, DAY_MS)
        await broker_turned
        await client.produce("later", b"1", delay_ms=HOUR_MS)

    async def run():
        async with AsyncClient(broker.address) as client:
            await produce_later(client)

    asyncio.run(run())
    with Client(broker.address) as client:
        assert drain(client, "later") == []
        broker.advance(hours=1, seconds=1)
        assert drain(client, "later") == [b"1"]


def test_a_time_that_is_said_is_not_moved(broker, client):
    client.produce("orders", b"1", deliver_at=broker.now_ms() + 2 * DAY_MS)
    broker.advance(days=1)
    client.produce("orders", b"2", deliver_at=broker.now_ms() + DAY_MS)
    broker.advance(hours=23)
    assert drain(client) == []
    broker.advance(hours=1, seconds=1)
    assert drain(client) == [b"1", b"2"]


def test_the_grpc_endpoint_counts_from_the_turned_time():
    with LocalBroker(grpc_listen=Address("127.0.0.1", 0)) as broker, broker.client() as client:
        # The endpoint shares the clock of its broker; clients have to estimate that clock.
        del CLOCKS_HERE[parse_address(broker.address)]
        client.create_topic("orders")
        with grpc.insecure_channel(broker.grpc_address) as channel:
            stub = FlotillaStub(channel)
            first = pb.ProduceRequest(topic="orders", records=[pb.Record(payload=b"first")])
            stub.Produce(first, wait_for_ready=True, timeout=30)
            broker.advance(days=1)
            record = pb.Record(payload=b"later", delay_ms=HOUR_MS)
            fleeting = pb.Record(payload=b"fleeting", ttl_ms=HOUR_MS)
            request = pb.ProduceRequest(topic="orders", records=[record, fleeting])
            stub.Produce(request, wait_for_ready=True, timeout=30)
            list(stub.ProduceStream(iter([request]), wait_for_ready=True, timeout=30))
        assert drain(client) == [b"first", b"fleeting", b"fleeting"]
        broker.advance(hours=1, seconds=1)
        assert drain(client) == [b"later", b"later"]


# What has become due has happened.


def test_a_lease_that_has_run_out_has_failed_when_the_clock_was_turned(broker, client):
    client.create_topic("orders", max_deliveries=1_000, nack_backoff_ms=0)
    client.produce("orders", b"1")
    with client.queue("orders", group="workers", visibility_ms=HOUR_MS) as consumer:
        for failures in range(1, ROUNDS + 1):
            (message,) = consumer.poll()
            assert message.attempt == failures
            broker.advance(hours=2)
            assert client.describe_group("orders", "workers").failed_total == failures


def test_a_message_is_among_the_dead_when_the_lease_of_its_last_attempt_has_run_out(broker, client):
    client.create_topic("orders", max_deliveries=1)
    letters = client.dead_letters("orders", "workers")
    with client.queue("orders", group="workers", visibility_ms=HOUR_MS) as consumer:
        for deaths in range(1, ROUNDS + 1):
            client.produce("orders", b"%d" % deaths)
            (message,) = consumer.poll()
            assert message.payload == b"%d" % deaths
            broker.advance(hours=2)
            assert len(letters.list()) == deaths
            group = client.describe_group("orders", "workers")
            assert (group.dead_total, group.dying) == (deaths, 0)


def test_many_partitions_have_done_what_is_due(broker, client):
    client.create_topic("orders", partitions=16, max_deliveries=1_000, nack_backoff_ms=0)
    for number in range(16):
        client.produce("orders", b"%d" % number, partition=number)
    with client.queue("orders", group="workers", visibility_ms=HOUR_MS) as consumer:
        for rounds in range(1, 6):
            held = 0
            while held < 16:
                held += len(consumer.poll(100))
            broker.advance(hours=2)
            assert client.describe_group("orders", "workers").failed_total == 16 * rounds


def test_whatever_else_is_proposed_is_in_force(broker, client):
    client.create_topic("orders", retention_ms=HOUR_MS)
    logs = broker._server.node.runtime.driver.replicas
    stamps = 0
    for _ in range(ROUNDS):
        client.produce("orders", b"1")
        before = [replica.raft.log.last_index for replica in logs.values()]
        # The log gets the time, so that old records can go.
        broker.advance(minutes=10)
        assert [replica.applied for replica in logs.values()] == [
            replica.raft.log.last_index for replica in logs.values()
        ]
        stamps += before != [replica.applied for replica in logs.values()]
    assert stamps == ROUNDS


def test_turning_ends_though_others_go_on(broker, client):
    client.create_topic("orders", max_deliveries=1_000, nack_backoff_ms=0)
    is_over = Event()

    def produce():
        with broker.client() as other, other.producer("orders", linger_ms=0) as producer:
            while not is_over.is_set():
                producer.send(b"1").result()

    busy = Thread(target=produce)
    busy.start()
    try:
        with client.queue("orders", group="workers", visibility_ms=HOUR_MS) as consumer:
            for _ in range(5):
                held = len(consumer.poll(10))
                failed = client.describe_group("orders", "workers").failed_total
                broker.advance(hours=2)
                assert client.describe_group("orders", "workers").failed_total == failed + held
    finally:
        is_over.set()
        busy.join()
