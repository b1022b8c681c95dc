"""Groups that hold retention, from the settings to what their first poll brings."""

import pytest

from flotilla import NotFoundError
from flotilla.testing import DAY_MS, LocalBroker
from tests.integration.testing.waiting import eventually, payloads


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def test_a_holder_gets_everything_that_came_before_its_first_poll_and_holds_nothing_when_it_is_gone(broker, client):
    client.create_topic("orders", partitions=1, retention_messages=10)
    client.create_topic("control", partitions=1, retention_messages=10)
    client.alter_group("orders", "archive", holds_retention=1)
    sent = [b"%d" % number for number in range(100)]
    client.produce_many("orders", sent)
    client.produce_many("control", sent)
    # Retention has looked at both since, and only one of them has a holder.
    broker.advance(minutes=1)
    eventually(lambda: client.find_offset("control", 0, "earliest") == 90)
    broker.advance(minutes=1)
    assert client.find_offset("orders", 0, "earliest") == 0
    with client.queue("orders", group="archive") as archive:
        assert payloads(archive.poll(1_000)) == sent
    client.delete_group("orders", "archive")
    broker.advance(minutes=1)
    eventually(lambda: client.find_offset("orders", 0, "earliest") == 90)


def test_a_holder_that_never_came_can_be_deleted(broker, client):
    client.create_topic("orders", partitions=2, retention_messages=10)
    client.alter_group("orders", "archive", holds_retention=1)
    client.delete_group("orders", "archive")
    with pytest.raises(NotFoundError):
        client.delete_group("orders", "archive")
    client.produce_many("orders", [b"x"] * 100, partition=0)
    broker.advance(minutes=1)
    eventually(lambda: client.find_offset("orders", 0, "earliest") == 90)


def test_a_failed_message_waits_for_its_consumer_for_weeks(broker, client):
    for topic in ("orders", "control"):
        client.create_topic(topic, partitions=1, retention_messages=2)
        client.produce(topic, b"owed")
    with client.queue("orders", group="mail") as mail:
        mail.poll(1, wait_ms=60_000)[0].nack(delay_ms=10 * DAY_MS)
    for topic in ("orders", "control"):
        client.produce_many(topic, [b"later"] * 5)
    broker.advance(days=20)
    eventually(lambda: client.find_offset("control", 0, "earliest") == 4)
    with client.queue("orders", group="mail") as mail:
        message = mail.poll(1, wait_ms=60_000)[0]
        assert (message.payload, message.attempt) == (b"owed", 2)
    assert client.describe_group("orders", "mail").trimmed_total == 0
