"""A signal that raises at any place of a call of a reader or stream consumer: the next call works, nothing is lost."""

import pytest

from flotilla.testing import LocalBroker
from tests.integration.testing.interrupts import Interrupted
from tests.integration.testing.waiting import eventually

LIMIT_MS = 10_000

#: A coroutine that was made in the moment of an interrupt is dropped unused.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


@pytest.fixture(scope="module")
def broker():
    with LocalBroker() as broker:
        yield broker


def opened(client, kind, topic, **options):
    if kind == "reader":
        return client.reader(topic, offset="earliest", group=f"of-{topic}", **options)
    return client.stream(topic, group=f"of-{topic}", **options)


KINDS = ("reader", "stream")


@pytest.mark.parametrize("kind", KINDS)
def test_poll(client, kind):
    topic = f"poll-{kind}"
    client.create_topic(topic, partitions=1)
    tries = Interrupted()
    expected, got = [], []
    with opened(client, kind, topic) as consumer:
        client.produce(topic, b"first")
        expected.append(b"first")
        got += [message.payload for message in consumer.poll(wait_ms=LIMIT_MS)]
        while tries.again():
            for number in range(2):
                expected.append(b"%d-%d" % (tries.place, number))
                client.produce(topic, expected[-1])
            found = tries.run(lambda: consumer.poll(1, wait_ms=LIMIT_MS)) or []
            while len(got) + len(found) < len(expected):
                more = consumer.poll(wait_ms=LIMIT_MS)
                assert more, tries.where
                found += more
            got += [message.payload for message in found]
            assert got == expected, tries.where
    assert tries.place > 10


@pytest.mark.parametrize("kind", KINDS)
def test_iteration(client, kind):
    topic = f"iterate-{kind}"
    client.create_topic(topic, partitions=1)
    tries = Interrupted()
    number = 0
    with opened(client, kind, topic) as consumer:
        client.produce(topic, b"first")
        next(consumer)
        while tries.again():
            # One that waits to be fetched, and one of a batch that is open.
            client.produce_many(topic, [b"%d" % (number + more) for more in range(2)])
            message = tries.run(lambda: next(consumer)) or next(consumer)
            assert message.payload == b"%d" % number, tries.where
            assert next(consumer).payload == b"%d" % (number + 1), tries.where
            number += 2
    assert tries.place > 10


@pytest.mark.parametrize("kind", KINDS)
def test_within_a_batch(client, kind):
    """The next message is there already."""
    topic = f"within-{kind}"
    client.create_topic(topic, partitions=1)
    client.produce_many(topic, [b"%d" % number for number in range(2_000)])
    tries = Interrupted()
    with opened(client, kind, topic) as consumer:
        number = 0
        assert next(consumer).payload == b"0"
        while tries.again():
            number += 1
            message = tries.run(lambda: next(consumer)) or next(consumer)
            assert message.payload == b"%d" % number, tries.where


@pytest.mark.parametrize("kind", KINDS)
def test_commit(client, kind):
    topic = f"commit-{kind}"
    client.create_topic(topic, partitions=1)
    client.produce_many(topic, [b"%d" % number for number in range(2_000)])
    tries = Interrupted()
    with opened(client, kind, topic) as consumer:
        count = 0
        while tries.again():
            next(consumer)
            count += 1
            tries.run(consumer.commit)
            assert consumer.commit() in ({0: count}, {}), tries.where
            assert consumer.committed() == {0: count}, tries.where


def test_commit_without_waiting(client):
    client.create_topic("soon", partitions=1)
    client.produce_many("soon", [b"%d" % number for number in range(2_000)])
    tries = Interrupted()
    with client.stream("soon", group="g") as consumer:
        count = 0
        while tries.again():
            next(consumer)
            count += 1
            tries.run(lambda: consumer.commit(wait=False))
        consumer.commit()
        assert consumer.committed() == {0: count}


@pytest.mark.parametrize("kind", KINDS)
def test_seek(client, kind):
    topic = f"seek-{kind}"
    client.create_topic(topic, partitions=2)
    for partition in range(2):
        for number in range(3):
            client.produce(topic, b"%d-%d" % (partition, number), partition=partition)
    everything = {b"%d-%d" % (partition, number) for partition in range(2) for number in range(3)}
    tries = Interrupted()

    def read(consumer, count):
        found = []
        while len(found) < count:
            more = consumer.poll(wait_ms=LIMIT_MS)
            assert more, tries.where
            found += [message.payload for message in more]
        assert len(set(found)) == len(found), tries.where
        return set(found)

    with opened(client, kind, topic) as consumer:
        read(consumer, 6)
        while tries.again():
            tries.run(lambda: consumer.seek(1))
            consumer.seek("earliest")
            assert read(consumer, 6) == everything, tries.where


def test_pause_and_resume(client):
    client.create_topic("paused", partitions=1)
    count = 0
    with client.stream("paused", group="g") as consumer:
        for call in (consumer.pause, consumer.resume):
            tries = Interrupted()
            while tries.again():
                client.produce("paused", b"%d" % count)
                tries.run(call)
                consumer.pause()
                consumer.resume()
                (message,) = consumer.poll(wait_ms=LIMIT_MS)
                assert message.payload == b"%d" % count, tries.where
                count += 1


def test_partitions_are_announced_once(client):
    """The first poll joins the group, and takes in what it got."""
    client.create_topic("join", partitions=2)
    client.produce("join", b"a", partition=0)
    client.produce("join", b"b", partition=1)
    tries = Interrupted(step=5)
    while tries.again():
        told = []
        with client.stream("join", group=f"g-{tries.place}", on_assign=told.extend) as consumer:
            found = tries.run(lambda consumer=consumer: consumer.poll(wait_ms=LIMIT_MS)) or []
            while len(found) < 2:
                more = consumer.poll(wait_ms=LIMIT_MS)
                assert more, tries.where
                found += more
        assert sorted(message.payload for message in found) == [b"a", b"b"], tries.where
        assert sorted(told) == [0, 1], tries.where


@pytest.mark.parametrize("kind", KINDS)
def test_close(broker, client, kind):
    """A consumer that was closed halfway leaves its group, and lets its client be closed."""
    topic = f"close-{kind}"
    client.create_topic(topic, partitions=1)
    client.produce(topic, b"a")
    tries = Interrupted(step=5)
    while tries.again():
        with broker.client() as other:
            consumer = opened(other, kind, topic)
            assert len(consumer.poll(wait_ms=LIMIT_MS)) == 1
            tries.run(consumer.close)
            consumer.close()
            if kind == "stream":
                # At once: nothing waits for the end of a session.
                with client.stream(topic, group=f"of-{topic}") as heir:
                    heir.seek("earliest") if heir.poll(wait_ms=LIMIT_MS) else None
                    assert heir.assignment == [0], tries.where
                client.delete_group(topic, f"of-{topic}")


def test_partitions_go_to_another_member(broker, client):
    """The poll in which a member gives up a partition, and that in which it gets it back."""
    client.create_topic("share", partitions=2)
    for partition in range(2):
        client.produce("share", b"%d" % partition, partition=partition)
    tries = Interrupted(step=11)
    told, lost = [], []
    options = {"on_assign": told.extend, "on_revoke": lambda partitions, _: lost.extend(partitions)}
    with broker.client() as other, client.stream("share", group="g", auto_commit_ms=60_000, **options) as consumer:

        def shared(consumers, partitions):
            """Until each has its partitions."""
            for _ in range(200):
                for each in consumers:
                    each.poll(wait_ms=10)
                if [len(each.assignment) for each in consumers] == partitions:
                    return
            raise AssertionError(tries.where)

        shared([consumer], [2])
        while tries.again():
            with other.stream("share", group="g") as second:
                second.poll(wait_ms=0)
                eventually(lambda second=second: second._feed.member.generation > 0 and consumer._feed.member.changes)
                tries.run(lambda: consumer.poll(wait_ms=0))
                shared([consumer, second], [1, 1])
            shared([consumer], [2])
        assert len(told) == 2 + len(lost)
