"""`message.then`: the next step is produced and the message acknowledged, both or neither."""

import asyncio

import pytest

from flotilla import InvalidArgumentError, LeaseExpiredError
from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import payloads


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def made(client, count=1):
    client.create_topic("orders", partitions=1)
    client.create_topic("invoices", partitions=2)
    client.produce_many("orders", [b"%d" % number for number in range(count)])


def test_both_happen(client):
    made(client, 2)
    with client.queue("orders", group="billing") as orders:
        for number in range(2):
            with next(orders) as message:
                receipt = message.then("invoices", b"bill " + message.payload, partition=1, headers={"a": b"b"})
                assert (receipt.topic, receipt.partition, receipt.offset) == ("invoices", 1, number)
                assert message.is_settled
    found = client.describe_group("orders", "billing")
    assert (found.acked_total, found.failed_total, found.lag) == (2, 0, 0)
    with client.queue("invoices", group="mail") as invoices:
        taken = invoices.poll(wait_ms=5_000)
        assert payloads(taken) == [b"bill 0", b"bill 1"]
        assert taken[0].headers == (("a", b"b"),)


def test_neither_happens_when_the_record_is_refused(client):
    made(client)
    with client.queue("orders", group="billing") as orders:
        (message,) = orders.poll(wait_ms=5_000)
        with pytest.raises(InvalidArgumentError):
            message.then("invoices", b"x", partition=2)
        assert not message.is_settled
        message.then("invoices", b"y", partition=0)
    assert payloads(client.peek("invoices", 0)) == [b"y"]
    assert client.describe_group("orders", "billing").acked_total == 1


def test_neither_happens_when_another_consumer_has_ended_the_message(broker, client):
    made(client)
    with client.queue("orders", group="billing") as orders, broker.client() as other:
        (message,) = orders.poll(wait_ms=5_000)
        other.reset_group("orders", "billing", "latest")
        with pytest.raises(LeaseExpiredError):
            message.then("invoices", b"x", partition=0)
    assert client.find_offset("invoices", 0, "latest") == 0


def test_for_coroutines(broker, client):
    made(client)

    async def work():
        async with broker.async_client() as aio, aio.queue("orders", group="billing") as orders:
            message = await anext(orders)
            await message.then("invoices", b"bill", partition=0)
            assert message.is_settled

    asyncio.run(work())
    assert payloads(client.peek("invoices", 0)) == [b"bill"]
    assert client.describe_group("orders", "billing").acked_total == 1
