"""Order by key: a setting of the group, which holds for every member of it."""

from collections.abc import Iterator

import pytest

from flotilla import Client, GroupModeError, InvalidArgumentError
from flotilla.testing import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def test_a_member_that_does_not_say_so_keeps_to_the_order_too(broker: LocalBroker, client: Client) -> None:
    for number in range(3):
        client.produce("asked", b"%d" % number, key=b"k")
    with client.queue("asked", group="g", ordered="key") as one, client.queue("asked", group="g") as other:
        (first,) = one.poll(16)
        assert other.poll(16, wait_ms=0) == []
        first.ack()
        (second,) = other.poll(16)
        assert second.payload == b"1"
        assert one.poll(16, wait_ms=0) == []
    assert client.alter_group("asked", "g") == {"ordered": "1"}


def test_an_operator_sets_it_and_takes_it_back(broker: LocalBroker, client: Client) -> None:
    client.create_topic("set")
    client.alter_group("set", "g", ordered=1)
    for number in range(3):
        client.produce("set", b"%d" % number, key=b"k")
    with client.queue("set", group="g") as consumer:
        assert [message.payload for message in consumer.poll(16)] == [b"0"]
        client.alter_group("set", "g", ordered=0)
        # What waits behind the first one goes on waiting; later messages do not.
        for number in (3, 4):
            client.produce("set", b"%d" % number, key=b"k")
        assert [message.payload for message in consumer.poll(16)] == [b"3", b"4"]
    with client.queue("set", group="g", ordered="key") as consumer, pytest.raises(GroupModeError, match="ordered=0"):
        consumer.poll()


def test_a_filter_does_not_go_with_an_ordered_group(broker: LocalBroker, client: Client) -> None:
    client.create_topic("filtered")
    client.alter_group("filtered", "g", ordered=1)
    with client.queue("filtered", group="g", types=["mail"]) as consumer, pytest.raises(InvalidArgumentError):
        consumer.poll()
