"""Results of messages: an ack carries one, and a caller waits for it."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from flotilla import (
    AsyncClient,
    Client,
    DeadlineError,
    ForgottenError,
    InvalidArgumentError,
    MessageFailedError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    Receipt,
    Reject,
    TopicReplacedError,
    Worker,
    WrongTypeError,
)
from flotilla.client.queue.results import YOUNG_MAX
from flotilla.testing import LocalBroker
from flotilla.types.limits import RESULT_BYTES_MAX
from tests.integration.testing.waiting import eventually

TOPIC, GROUP = "jobs", "workers"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(default_partitions=1) as broker:
        yield broker


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    with broker.client() as client:
        client.create_topic(TOPIC)
        yield client
        client.delete_topic(TOPIC)


def test_a_result_is_stored_with_the_ack_and_read_again(client: Client) -> None:
    receipt = client.produce(TOPIC, b"2+2")
    with client.queue(TOPIC, group=GROUP) as consumer:
        (message,) = consumer.poll()
        message.ack(result=b"4")
        message.ack(result=b"5")
    assert client.result(receipt) == b"4"
    assert client.result(receipt) == b"4"


def test_a_request_waits_for_its_worker(client: Client, broker: LocalBroker) -> None:
    with Worker(broker.address, TOPIC, GROUP, lambda message: message.payload.upper()):
        assert client.request(TOPIC, b"hello") == b"HELLO"


def test_the_first_worker_may_come_after_the_request(client: Client, broker: LocalBroker) -> None:
    found: list[bytes] = []
    asking = threading.Thread(target=lambda: found.append(client.request(TOPIC, b"x", timeout_ms=20_000)))
    asking.start()
    with client.queue(TOPIC, group=GROUP) as consumer:
        for message in consumer.poll():
            message.ack(result=b"done")
    asking.join()
    assert found == [b"done"]


def test_an_ack_without_a_result_answers_with_nothing(client: Client, broker: LocalBroker) -> None:
    with Worker(broker.address, TOPIC, GROUP, lambda message: 7):
        assert client.request(TOPIC, b"x") == b""


def test_a_message_that_dies_answers_with_its_reason(client: Client, broker: LocalBroker) -> None:
    def handler(message: object) -> None:
        raise Reject("no such customer")

    with Worker(broker.address, TOPIC, GROUP, handler), pytest.raises(MessageFailedError) as failure:
        client.request(TOPIC, b"x")
    assert (failure.value.state, failure.value.reason) == ("dead", "no such customer")
    assert "no such customer" in str(failure.value)


def test_a_cancelled_message_answers_its_caller(client: Client) -> None:
    receipt = client.produce(TOPIC, b"x", delay_ms=60_000)
    with client.queue(TOPIC, group=GROUP) as consumer:
        consumer.poll(wait_ms=0)
    waiting = threading.Timer(0.05, lambda: client.cancel(TOPIC, receipt.partition, offset=receipt.offset))
    waiting.start()
    with pytest.raises(MessageFailedError, match="cancelled"):
        client.result(receipt, timeout_ms=20_000)
    waiting.join()


def test_an_ack_in_a_transaction_answers_its_caller(client: Client) -> None:
    receipt = client.produce(TOPIC, b"x")
    with client.queue(TOPIC, group=GROUP) as consumer:
        (message,) = consumer.poll()
        message.then(TOPIC, b"y")
    assert client.result(receipt) == b""


def test_a_message_that_takes_too_long(client: Client) -> None:
    def is_given_up() -> bool:
        try:
            client.request(TOPIC, b"x", timeout_ms=100)
        except DeadlineError:
            # It was not stored in time, as on a busy machine.
            return False
        except OutcomeUnknownError as error:
            return "has not ended within" in str(error)
        raise AssertionError("nobody answers")

    eventually(is_given_up)
    with pytest.raises(DeadlineError):
        client.result(Receipt(0, 0, topic=TOPIC), timeout_ms=1)


def test_results_expire(client: Client, broker: LocalBroker) -> None:
    receipt = client.produce(TOPIC, b"x")
    client.alter_group(TOPIC, GROUP, result_ttl_ms="10m")
    with client.queue(TOPIC, group=GROUP) as consumer:
        consumer.poll()[0].ack(result=b"4")
    assert client.result(receipt) == b"4"
    broker.advance(minutes=9)
    assert client.result(receipt) == b"4"
    # It ages from the first stamp after it on, and a clock that is turned leaps over some.
    broker.advance(minutes=10)
    eventually(lambda: _is_forgotten(client, receipt))


def _is_forgotten(client: Client, receipt: Receipt) -> bool:
    try:
        client.result(receipt)
    except ForgottenError:
        return True
    return False


def test_a_group_may_keep_no_results(client: Client) -> None:
    receipt = client.produce(TOPIC, b"x")
    client.alter_group(TOPIC, GROUP, result_ttl_ms=0)
    with client.queue(TOPIC, group=GROUP) as consumer:
        consumer.poll()[0].ack(result=b"4")
    with pytest.raises(ForgottenError):
        client.result(receipt)


def test_results_are_bytes_of_a_bounded_size(client: Client, broker: LocalBroker) -> None:
    receipt = client.produce(TOPIC, b"x")
    with client.queue(TOPIC, group=GROUP) as consumer:
        (message,) = consumer.poll()
        with pytest.raises(WrongTypeError):
            message.ack(result="4")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="at most"):
            message.ack(result=bytes(RESULT_BYTES_MAX + 1))
        message.ack(result=bytes(RESULT_BYTES_MAX))
    assert client.result(receipt) == bytes(RESULT_BYTES_MAX)
    with (
        Worker(broker.address, TOPIC, GROUP, lambda message: bytes(RESULT_BYTES_MAX + 1)),
        pytest.raises(ForgottenError),
    ):
        client.request(TOPIC, b"x")


def test_large_results_of_one_lease_go_in_several_requests(client: Client) -> None:
    receipts = client.produce_many(TOPIC, [b"x"] * 12)
    with client.queue(TOPIC, group=GROUP) as consumer:
        for place, message in enumerate(consumer.poll(12)):
            message.ack(result=bytes([place]) * RESULT_BYTES_MAX, wait=False)
        consumer.flush()
    assert [client.result(receipt)[:1] for receipt in receipts] == [bytes([place]) for place in range(12)]


def test_a_reset_forgets_results(client: Client) -> None:
    receipt = client.produce(TOPIC, b"x")
    with client.queue(TOPIC, group=GROUP) as consumer:
        consumer.poll()[0].ack(result=b"4")
        client.reset_group(TOPIC, GROUP)
        with pytest.raises(DeadlineError):
            client.result(receipt, timeout_ms=50)
        consumer.poll()[0].ack(result=b"5")
    assert client.result(receipt) == b"5"


def test_there_must_be_a_message(client: Client) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        client.result(Receipt(0, 3, topic=TOPIC))
    with pytest.raises(InvalidArgumentError, match="names no topic"):
        client.result(Receipt(0, 0))


def test_many_callers_share_few_requests(client: Client, broker: LocalBroker) -> None:
    """More than a connection has room for; each gets its own result, and none waits for another one."""
    count = 10 * YOUNG_MAX

    async def ask(asker: AsyncClient, number: int) -> bytes:
        return await asker.request(TOPIC, str(number).encode(), timeout_ms=20_000)

    async def ask_all() -> list[bytes]:
        async with AsyncClient(broker.address) as asker:
            asking = [asyncio.ensure_future(ask(asker, number)) for number in range(count)]
            async with asker.queue(TOPIC, group=GROUP) as consumer:
                for _ in range(count):
                    message = await anext(consumer)
                    await message.ack(result=b"=" + message.payload, wait=False)
                return await asyncio.gather(*asking)

    assert asyncio.run(ask_all()) == [b"=" + str(number).encode() for number in range(count)]


def test_an_ack_in_a_transaction_has_a_result_when_it_commits(client: Client) -> None:
    receipts = [client.produce(TOPIC, b"%d" % number) for number in range(3)]
    with client.queue(TOPIC, group=GROUP) as consumer:
        first, second, third = consumer.poll(3)
        with client.transaction() as txn:
            txn.ack(first, result=b"4")
            txn.ack(second)
            with pytest.raises(DeadlineError):
                client.result(receipts[0], timeout_ms=1)
        assert client.result(receipts[0]) == b"4"
        assert client.result(receipts[1]) == b""
        txn = client.transaction()
        txn.ack(third, result=b"never")
        txn.stage(TOPIC, [])
        txn.abort()
        (third,) = consumer.poll(wait_ms=10_000)
        third.ack(result=b"late")
    assert client.result(receipts[2]) == b"late"


def test_many_results_in_a_transaction(client: Client) -> None:
    receipts = client.produce_many(TOPIC, [b"%d" % number for number in range(5)])
    with client.queue(TOPIC, group=GROUP) as consumer, client.transaction() as txn:
        for message in consumer.poll(5):
            txn.ack(message, result=message.payload * RESULT_BYTES_MAX)
        with pytest.raises(InvalidArgumentError):
            txn.ack(message, result=b"x" * (RESULT_BYTES_MAX + 1))
        with pytest.raises(InvalidArgumentError, match="of one message"):
            txn.ack(message, message, result=b"x")
    assert [client.result(receipt)[:1] for receipt in receipts] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_receipt_is_of_one_life_of_its_topic(client: Client) -> None:
    receipt = client.produce(TOPIC, b"old")
    assert receipt.topic_id > 0
    many = client.produce_many(TOPIC, [b"1", b"2"])
    with client.transaction() as txn:
        txn.produce(TOPIC, b"3")
    client.delete_topic(TOPIC)
    client.create_topic(TOPIC)
    client.produce(TOPIC, b"new")
    with client.queue(TOPIC, group=GROUP) as consumer:
        consumer.poll()[0].ack(result=b"of the new one")
    for old in (receipt, many[0], txn.receipts[0]):
        with pytest.raises(TopicReplacedError):
            client.result(old, timeout_ms=1_000)
    assert client.result(receipt._replace(topic_id=0)) == b"of the new one"
