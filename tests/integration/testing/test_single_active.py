"""A group with a single active consumer: who gets messages, and who takes over."""

import threading

import pytest

from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually, payloads

TOPIC = "jobs"


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def topic(client):
    """A topic whose group has a single active consumer; the leader has heard of it."""
    client.create_topic(TOPIC)
    client.alter_group(TOPIC, "g", single_active=1)
    client.produce_many(TOPIC, [b"", b""])
    with client.queue(TOPIC, "g") as one, client.queue(TOPIC, "g") as other:

        def is_in_force() -> bool:
            found, more = one.poll(1), other.poll(1, wait_ms=0)
            one.release(found)
            other.release(more)
            return not more

        eventually(is_in_force)
        one.ack(one.poll())
    return TOPIC


def poll_soon(consumer) -> tuple[threading.Thread, list]:
    """Polls on a thread of its own, until something comes."""
    found: list = []
    thread = threading.Thread(target=lambda: found.extend(consumer.poll(wait_ms=60_000)))
    thread.start()
    return thread, found


def test_the_next_consumer_takes_over_when_the_first_is_closed(client, topic):
    client.produce_many(topic, [b"1", b"2", b"3"])
    with client.queue(topic, "g") as second:
        with client.queue(topic, "g") as first:
            found = first.poll(2)
            assert payloads(found) == [b"1", b"2"]
            assert second.poll(wait_ms=0) == []
            waiting, taken = poll_soon(second)
            first.ack(found[:1])
        waiting.join(60)
        assert payloads(taken) == [b"2", b"3"]


def test_a_standby_in_front_does_not_keep_messages_from_the_active_one(client, topic):
    with client.queue(topic, "g") as first, client.queue(topic, "g") as second:
        assert first.poll(wait_ms=0) == []
        standing_by, taken = poll_soon(second)
        waiting, found = poll_soon(first)
        client.produce(topic, b"1")
        waiting.join(60)
        assert payloads(found) == [b"1"]
        first.ack(found)
        first.close()
        client.produce(topic, b"2")
        standing_by.join(60)
        assert payloads(taken) == [b"2"]


def test_each_partition_has_an_active_consumer_of_its_own(client):
    client.create_topic("wide", partitions=2)
    client.alter_group("wide", "g", single_active=1)
    for partition in (0, 1):
        client.produce_many("wide", [b"%d" % partition] * 3, partition=partition)
    with client.queue("wide", "g", partitions=[0]) as left, client.queue("wide", "g", partitions=[1]) as right:
        assert payloads(left.poll()) == [b"0"] * 3
        assert payloads(right.poll()) == [b"1"] * 3


def test_the_setting_takes_effect_while_consumers_wait(client):
    client.create_topic(TOPIC)
    with client.queue(TOPIC, "g") as first, client.queue(TOPIC, "g") as second:
        waiting = [poll_soon(consumer) for consumer in (first, second)]
        client.alter_group(TOPIC, "g", single_active=1)
        client.produce(TOPIC, b"1")
        eventually(lambda: any(found for _, found in waiting))
        client.produce(TOPIC, b"2")
        client.alter_group(TOPIC, "g", single_active=0)
        for thread, _ in waiting:
            thread.join(60)
        assert sorted(payloads(waiting[0][1] + waiting[1][1])) == [b"1", b"2"]
