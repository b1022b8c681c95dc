"""A topic that grows: keys stay where they are, and every producer hears of the new partitions."""

from collections.abc import Iterator

import pytest

from flotilla import Client, InvalidArgumentError, TopicReplacedError
from flotilla.testing import LocalBroker

KEYS = [b"customer-%d" % number for number in range(20)]


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def places(client: Client, topic: str) -> list[int]:
    return [client.produce(topic, b"x", key=key).partition for key in KEYS]


@pytest.mark.parametrize("first", [1, 3])
def test_old_and_new_clients_agree_about_keys_after_a_topic_has_grown(broker: LocalBroker, first: int) -> None:
    with broker.client() as old, broker.client() as other:
        old.create_topic("t", partitions=first)
        before = places(old, "t")
        other.alter_topic("t", partitions=8)
        with broker.client() as new:
            assert places(new, "t") == places(old, "t") == before
            found = new.describe_topic("t")
            assert (len(found.partitions), found.key_partitions) == (8, first)


def test_an_idempotency_key_holds_while_a_topic_grows(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        first = [old.produce("t", b"x", idempotency_key=key) for key in KEYS]
        new.alter_topic("t", partitions=8)
        for client in (old, new):
            again = [client.produce("t", b"x", idempotency_key=key) for key in KEYS]
            assert [receipt.duplicate for receipt in again] == [True] * len(KEYS)
            assert [receipt.offset for receipt in again] == [receipt.offset for receipt in first]


def test_messages_of_a_key_come_in_order_while_a_topic_grows(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        old.produce("t", b"1", key=b"k")
        new.alter_topic("t", partitions=8)
        new.produce("t", b"2", key=b"k")
        old.produce("t", b"3", key=b"k")
        with new.queue("t", group="g", ordered="key") as consumer:
            payloads = []
            while len(payloads) < 3:
                for message in consumer.poll(wait_ms=5_000):
                    payloads.append(message.payload)
                    message.ack()
            assert payloads == [b"1", b"2", b"3"]


@pytest.mark.parametrize("is_sent_alone", [True, False])
def test_a_producer_hears_of_new_partitions_with_its_next_record(broker: LocalBroker, is_sent_alone: bool) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        producer = old.producer("t")

        def place() -> int:
            """A record for which the caller waits gets a connection of its own after a while."""
            return (old.produce("t", b"x") if is_sent_alone else producer.send(b"x").result()).partition

        assert {place() for _ in range(20)} == {0}
        new.alter_topic("t", partitions=4)
        assert {place() for _ in range(20)} == {0, 1, 2, 3}
        assert old.produce("t", b"x", partition=3).partition == 3
        with pytest.raises(InvalidArgumentError):
            old.produce("t", b"x", partition=4)
        with new.reader("t") as reader:
            stored = 0
            while messages := reader.poll(wait_ms=200):
                stored += len(messages)
        assert stored == 41


def test_a_producer_goes_on_with_a_topic_of_the_same_shape(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=3)
        before = places(old, "t")
        new.delete_topic("t")
        new.create_topic("t", partitions=3)
        assert places(old, "t") == before
        with new.reader("t") as reader:
            stored = 0
            while messages := reader.poll(wait_ms=200):
                stored += len(messages)
        assert stored == len(KEYS)


def test_a_producer_of_a_topic_with_another_shape_says_so_once(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new, old.producer("t") as producer:
        old.create_topic("t", partitions=1)
        producer.send(b"x", key=KEYS[0]).result()
        new.delete_topic("t")
        new.create_topic("t", partitions=8)
        with pytest.raises(TopicReplacedError, match="nothing was stored"):
            producer.send(b"x", key=KEYS[0]).result()
        new_place = new.produce("t", b"x", key=KEYS[0])
        assert producer.send(b"x", key=KEYS[0]).result().partition == new_place.partition


def test_a_call_that_produces_goes_on_in_a_topic_with_another_shape(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        places(old, "t")
        new.delete_topic("t")
        new.create_topic("t", partitions=8)
        receipt = old.produce("t", b"x", key=KEYS[0])
        assert receipt == new.produce("t", b"y", key=KEYS[0])._replace(offset=0)
        assert places(old, "t") == places(new, "t")
