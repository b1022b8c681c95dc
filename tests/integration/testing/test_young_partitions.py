"""Groups that are older than a partition, and members that end before their first commit: nothing is passed over."""

from collections.abc import Iterator

import pytest

from flotilla import Client, NotFoundError, QueueConsumer, StreamConsumer
from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def grow(client: Client, *, partitions: int) -> None:
    """With a message in each new partition, before any consumer has heard of it."""
    first = len(client.describe_topic("t").partitions)
    client.alter_topic("t", partitions=partitions)
    for number in range(first, partitions):
        client.produce("t", b"young %d" % number, partition=number)


def is_open(client: Client, *partitions: int) -> bool:
    """Whether the group has been opened in these partitions."""
    try:
        return [*client.describe_group("t", "g").partitions] == [*partitions]
    except NotFoundError:
        return False


def payloads(consumer: QueueConsumer | StreamConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def is_there() -> bool:
        messages = consumer.poll(wait_ms=1_000)
        found.extend([message.payload for message in messages])
        if isinstance(consumer, QueueConsumer):
            consumer.ack(messages)
        return len(found) >= count

    eventually(is_there)
    return sorted(found)


@pytest.mark.parametrize("start", ["latest", "earliest", 0])
def test_a_queue_group_begins_at_the_start_of_partitions_that_are_younger(broker: LocalBroker, start: str) -> None:
    with broker.client() as client, broker.client() as other:
        client.create_topic("t", partitions=2)
        with client.queue("t", group="g", start=start) as consumer:
            eventually(lambda: consumer.poll(wait_ms=100) == [] and is_open(client, 0, 1))
            client.produce("t", b"old", partition=1)
            assert payloads(consumer, 1) == [b"old"]
        grow(other, partitions=4)
        with other.queue("t", group="g", start=start) as consumer:
            assert payloads(consumer, 2) == [b"young 2", b"young 3"]


def test_a_queue_group_that_is_known_in_one_partition_alone_is_older_everywhere(broker: LocalBroker) -> None:
    with broker.client() as client, broker.client() as other:
        client.create_topic("t", partitions=2)
        with client.queue("t", group="g", start="latest", partitions=[1]) as consumer:
            eventually(lambda: consumer.poll(wait_ms=100) == [] and is_open(client, 1))
        grow(other, partitions=3)
        with other.queue("t", group="g", start="latest", partitions=[2]) as consumer:
            assert payloads(consumer, 1) == [b"young 2"]


def test_a_new_queue_group_begins_where_it_wishes_in_every_partition(broker: LocalBroker) -> None:
    with broker.client() as client:
        client.create_topic("t", partitions=1)
        grow(client, partitions=3)
        client.produce("t", b"old", partition=0)
        with client.queue("t", group="g", start="latest") as consumer:
            eventually(lambda: consumer.poll(wait_ms=100) == [] and is_open(client, 0, 1, 2))
            for number in range(3):
                client.produce("t", b"new %d" % number, partition=number)
            assert payloads(consumer, 3) == [b"new 0", b"new 1", b"new 2"]


def test_a_stream_group_begins_at_the_start_of_partitions_that_are_younger(broker: LocalBroker) -> None:
    with broker.client() as client, broker.client() as other:
        client.create_topic("t", partitions=1)
        client.produce("t", b"before")
        with client.stream("t", group="g", start="latest") as consumer:
            eventually(lambda: consumer.poll(wait_ms=100) == [] and consumer.assignment == [0])
            grow(other, partitions=3)
            assert payloads(consumer, 2) == [b"young 1", b"young 2"]


def test_a_new_stream_group_begins_where_it_wishes_in_every_partition(broker: LocalBroker) -> None:
    with broker.client() as client:
        client.create_topic("t", partitions=1)
        grow(client, partitions=2)
        with client.stream("t", group="g", start="latest") as consumer:
            eventually(lambda: consumer.poll(wait_ms=100) == [] and consumer.assignment == [0, 1])
            client.produce("t", b"new", partition=1)
            assert payloads(consumer, 1) == [b"new"]


def test_a_member_that_ends_before_its_first_commit_leaves_what_it_read_to_the_next(broker: LocalBroker) -> None:
    with broker.client() as client:
        client.create_topic("t", partitions=1)
        client.produce("t", b"before")
        with client.stream("t", group="g", start="latest", auto_commit_ms=None) as first:
            eventually(lambda: first.poll(wait_ms=100) == [] and first.assignment == [0])
            assert first.committed() == {0: 1}
            client.produce_many("t", [b"%d" % number for number in range(5)])
            assert len(payloads(first, 5)) == 5
        with client.stream("t", group="g", start="latest", auto_commit_ms=None) as second:
            assert payloads(second, 5) == [b"0", b"1", b"2", b"3", b"4"]
