"""Groups that expire, as users of the client see them."""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from flotilla import Client, NotFoundError
from flotilla.testing import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def test_a_queue_group_that_nobody_uses_is_gone_after_its_time(broker: LocalBroker, client: Client) -> None:
    client.create_topic("previews", partitions=3)
    client.alter_group("previews", "g", expires_after_ms=timedelta(hours=1), max_deliveries=2)
    for number in range(3):
        client.produce("previews", b"%d" % number, partition=number)
    with client.queue("previews", group="g") as consumer:
        for _ in range(3):
            next(consumer).ack()
        for _ in range(6):
            broker.advance(minutes=30)
            while client.describe_group("previews", "g").unused_ms >= 60_000:
                # Its member is between two polls; pytest bounds the wait.
                time.sleep(0.01)
    broker.advance(minutes=50)
    info = client.describe_group("previews", "g")
    assert timedelta(minutes=40) < timedelta(milliseconds=info.unused_ms) < timedelta(minutes=51)
    assert info.acked_total == 3
    broker.advance(minutes=11)
    with pytest.raises(NotFoundError):
        client.describe_group("previews", "g")
    assert client.alter_group("previews", "g") == {}
    with client.queue("previews", group="g") as consumer:
        assert {next(consumer).payload for _ in range(3)} == {b"0", b"1", b"2"}, "it begins anew"


def test_a_stream_group_and_a_group_of_commits(broker: LocalBroker, client: Client) -> None:
    client.create_topic("log", partitions=2)
    client.produce("log", b"x", partition=0)
    for group in ("s", "r"):
        client.alter_group("log", group, expires_after_ms="1h")
    with client.stream("log", group="s") as consumer:
        assert len(consumer.poll(wait_ms=10_000)) == 1
        consumer.commit()
        broker.advance(minutes=90)
        assert "s" in client.groups("log"), "it has a member"
    with client.reader("log", group="r", offset="earliest") as reader:
        assert len(reader.poll(wait_ms=10_000)) == 1
        reader.commit()
    broker.advance(minutes=59)
    assert set(client.groups("log")) == {"s", "r"}
    broker.advance(minutes=2)
    assert client.groups("log") == {}


def has_begun(client: Client, group: str) -> bool:
    try:
        return set(client.describe_group("prices", group).partitions) == {0, 1}
    except NotFoundError:
        return False


def test_a_consumer_without_a_group_gets_its_own_which_expires(broker: LocalBroker, client: Client) -> None:
    client.create_topic("prices", partitions=2)
    client.produce("prices", b"old", partition=0)
    with client.queue("prices", group=None) as one, client.queue("prices", group=None) as other:
        for consumer in (one, other):
            # A busy machine may miss a first poll, and a group begins with the first one that is answered.
            while not has_begun(client, consumer.group):
                assert consumer.poll(wait_ms=0) == []
        assert one.group != other.group
        client.produce("prices", b"new", partition=1)
        assert [message.payload for message in (next(one), next(other))] == [b"new", b"new"]
        broker.advance(hours=1)
        assert {one.group, other.group} == set(client.groups("prices")), "they have members"
    broker.advance(minutes=6)
    assert client.groups("prices") == {}
    with client.queue("prices", group="ephemeral.kept") as consumer:
        client.alter_group("prices", "ephemeral.kept", expires_after_ms=0)
        next(consumer).ack()
    broker.advance(hours=1)
    assert set(client.groups("prices")) == {"ephemeral.kept"}
