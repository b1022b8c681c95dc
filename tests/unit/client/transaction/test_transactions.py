"""Transactions of both clients against a whole broker."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from crc32c import crc32c

from flotilla.client.producer.receipt import Receipt
from flotilla.client.transaction._core import BATCH_BYTES, TransactionBuffer
from flotilla.testing import LocalBroker
from flotilla.types.errors import (
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    TransactionEndedError,
)
from flotilla.types.records import Record
from tests.unit.client.shells import Shell, run_at_once, runner_on


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(default_partitions=2) as broker:
        yield broker


@pytest.fixture(params=["threads", "coroutines"])
def client(request: pytest.FixtureRequest, broker: LocalBroker) -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    if request.param == "threads":
        shell = Shell(broker.client(), run_at_once)
    else:
        shell = Shell(broker.async_client(), runner_on(loop))
    with shell:
        yield shell
    loop.close()


@pytest.fixture
def names(request: pytest.FixtureRequest, client: Any) -> tuple[str, str]:
    """Two topics of two partitions for each test."""
    base = "t" + crc32c(request.node.nodeid.encode()).to_bytes(4).hex()
    for topic in (f"{base}-a", f"{base}-b"):
        client.create_topic(topic, partitions=2)
    return f"{base}-a", f"{base}-b"


def seen(client: Any, topic: str) -> list[bytes]:
    return [message.payload for part in range(2) for message in client.peek(topic, part, max_messages=100)]


def test_records_of_several_topics_are_seen_together(client, names):
    orders, billing = names
    with client.transaction() as txn:
        txn.produce(orders, b"1", key=b"k")
        txn.produce(billing, b"2", partition=1)
        txn.produce(orders, b"3", key=b"k", priority=5)
        assert (seen(client, orders), seen(client, billing)) == ([], [])
        with pytest.raises(TransactionEndedError):
            _ = txn.receipts
    first, second, third = txn.receipts
    ids = {topic: client.describe_topic(topic).topic_id for topic in names}
    assert (first.offset, third) == (0, Receipt(first.partition, 1, topic=orders, topic_id=ids[orders]))
    assert second == Receipt(1, 0, topic=billing, topic_id=ids[billing])
    assert (seen(client, orders), seen(client, billing)) == ([b"1", b"3"], [b"2"])
    with pytest.raises(TransactionEndedError):
        txn.produce(orders, b"late")


def test_an_exception_aborts(client, names):
    txn = client.transaction()

    def fail() -> None:
        with txn:
            txn.stage(names[0], [b"1", b"2"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen(client, names[0]) == []
    with pytest.raises(TransactionEndedError):
        client.commit_transaction(txn.transaction_id, partitions=txn.partitions)


def test_many_processes_stage_and_one_commits_once(client, names):
    topic = names[0]
    for attempt in ("first", "second"):
        name = f"{topic}/{attempt}"
        partitions = []
        for number in range(2):
            part = client.transaction(name)
            part.stage(topic, [b"%d" % number, Record(b"whole")], partition=number)
            partitions += part.partitions
        assert partitions == [(topic, 0), (topic, 1)]
        committed = client.commit_transaction(name, application_id=topic, version=42, partitions=partitions)
        assert committed.is_repeated == (attempt == "second")
        repeated = client.commit_transaction(name, application_id=topic, version=42, partitions=partitions)
        assert repeated == committed
    assert seen(client, topic) == [b"0", b"whole", b"1", b"whole"]


def test_a_version_that_was_committed_leaves_no_receipts(client, names):
    for _ in range(2):
        txn = client.transaction()
        txn.produce(names[0], b"1")
        txn.commit(application_id=names[0], version=7)
    assert txn.receipts == []
    assert seen(client, names[0]) == [b"1"]


def test_an_abort_by_its_name(client, names):
    name = f"{names[0]}/abort"
    txn = client.transaction(name)
    txn.stage(names[0], [b"1"])
    client.abort_transaction(name)
    client.abort_transaction(name)
    with pytest.raises(TransactionEndedError):
        txn.commit()
    assert seen(client, names[0]) == []


def test_a_record_that_cannot_be_staged_aborts_the_transaction(client, names):
    txn = client.transaction()
    txn.produce(names[0], b"1")
    txn.produce(names[1], bytes(2 << 20))
    with pytest.raises(InvalidArgumentError):
        txn.commit()
    assert (seen(client, names[0]), seen(client, names[1])) == ([], [])


def test_invalid_arguments_are_refused_by_the_client(client, names):
    txn = client.transaction()
    with pytest.raises(InvalidArgumentError):
        txn.produce(names[0], b"1", idempotency_key="k")
    with pytest.raises(InvalidArgumentError):
        txn.produce(names[0], b"1", partition=2)
    with pytest.raises(NotFoundError):
        client.commit_transaction("x", partitions=[("nowhere", 0)])


def floor(client: Any, topic: str) -> int:
    return sum(client.describe_group(topic, "workers").partitions[number].floor for number in range(2))


def test_messages_are_done_with_the_transaction_that_acknowledges_them(client, names):
    orders, products = names
    for number in range(4):
        client.produce(orders, b"%d" % number, partition=number % 2)
    with client.queue(orders, group="workers") as consumer:
        messages: list[Any] = []
        while len(messages) < 4:
            messages += consumer.poll(4)
        with client.transaction() as txn:
            for message in messages[:3]:
                txn.produce(products, b"made of " + message.payload, partition=0)
                txn.ack(message)
            assert not messages[0].is_settled
        assert [message.is_settled for message in messages] == [True, True, True, False]
        assert sorted(seen(client, products)) == sorted(b"made of " + message.payload for message in messages[:3])
        messages[3].ack()
    assert floor(client, orders) == 4


def test_before_they_are_staged_an_exception_leaves_messages_with_their_consumer(client, names):
    client.produce(names[0], b"1", partition=0)
    with client.queue(names[0], group="workers") as consumer:
        (message,) = consumer.poll(1)

        def fail() -> None:
            with client.transaction() as txn:
                txn.produce(names[1], b"product")
                txn.ack(message)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert not message.is_settled
        message.ack()
        assert seen(client, names[1]) == []
        with pytest.raises(LeaseExpiredError):
            client.transaction().ack(message)


def test_after_they_are_staged_an_abort_gives_messages_back(client, names):
    client.produce(names[0], b"1", partition=0)
    with client.queue(names[0], group="workers") as consumer:
        (message,) = consumer.poll(1)
        txn = client.transaction()
        txn.ack(message)
        txn.stage(names[1], [b"product"])
        assert message.is_settled
        assert consumer.poll(1, wait_ms=0) == []
        txn.abort()
        (again,) = consumer.poll(1)
        assert (again.offset, again.attempt) == (message.offset, 1)
        again.ack()


def test_a_message_of_another_consumer_aborts_the_transaction(client, names):
    for number in range(2):
        client.produce(names[0], b"%d" % number, partition=0)
    with client.queue(names[0], group="workers") as consumer:
        first, second = consumer.poll(2)
        txn = client.transaction()
        txn.ack(first, second)
        txn.produce(names[1], b"product")
        first.ack()
        with pytest.raises(LeaseExpiredError):
            txn.commit()
        assert seen(client, names[1]) == []
        assert not second.is_settled
        second.ack()


def test_an_empty_transaction_is_nothing(client):
    with client.transaction() as txn:
        pass
    assert txn.receipts == []


def test_batches_are_cut_where_records_differ_or_are_many():
    gathered = TransactionBuffer(5)
    for record in (Record(b"a"), Record(b"b"), Record(b"c", priority=1), Record(bytes(BATCH_BYTES)), Record(b"e")):
        gathered.add("t", 0, record)
    gathered.add("t", 1, Record(b"f"))
    batches = gathered.unstaged()
    assert [(batch.partition[1], batch.sequence, batch.count) for batch in batches] == [
        (0, 0, 2),
        (0, 2, 1),
        (0, 3, 1),
        (0, 4, 1),
        (1, 0, 1),
    ]
    for batch in batches:
        batch.encode(gathered.producer_id)
        gathered.staged(batch)
    assert (gathered.size_bytes, gathered.unstaged()) == (0, [])
    # A batch that was sent takes nothing more.
    gathered.add("t", 1, Record(b"g"))
    assert [batch.sequence for batch in gathered.unstaged()] == [1]
