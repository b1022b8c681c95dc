"""A signal that raises at any place of a call leaves a client that works, and nothing lost, doubled or hidden."""

import pytest

from flotilla.client.producer._direct_connection import DirectConnection
from flotilla.testing import LocalBroker
from flotilla.types.errors import OverloadedError
from tests.integration.testing.interrupts import Interrupted

LIMIT_MS = 10_000

#: A coroutine or a socket that was made in the moment of an interrupt is dropped unused.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


@pytest.fixture(scope="module")
def broker():
    with LocalBroker() as broker:
        yield broker


def stored(client, topic):
    with client.reader(topic, offset="earliest") as reader:
        end = sum(client.find_offset(topic, part.number, "latest") for part in client.describe_topic(topic).partitions)
        found = []
        while len(found) < end:
            found += [message.payload for message in reader.poll(wait_ms=LIMIT_MS)]
    return found


def check(found, sure, unsure):
    """Everything sure is there once, and what was interrupted at most once."""
    once = set(found)
    assert len(once) == len(found)
    assert set(sure) <= once <= set(sure) | set(unsure)
    assert [one for one in found if one in set(sure)] == sure


SENDS = {
    "the first of a batch": ({}, {}, 0),
    "one that joins a batch": ({"linger_ms": 5}, {}, 1),
    "one that fills a batch": ({"linger_ms": 5, "batch_records": 2}, {}, 1),
    "a batch of one record": ({"batch_records": 1}, {}, 0),
    "one that is too large for the batch": ({"linger_ms": 5, "batch_bytes": 150}, {}, 1),
    "one with a key and other fields": ({"linger_ms": 5}, {"key": b"k", "headers": {"a": b"b"}}, 1),
    "one with an idempotency key": ({}, {"idempotency_key": "?"}, 0),
    "one that waits for room in the buffer": ({"linger_ms": 5, "buffer_bytes_max": 200}, {}, 3),
}


@pytest.mark.parametrize("name", SENDS)
def test_send(client, name):
    options, fields, before = SENDS[name]
    topic = f"send-{list(SENDS).index(name)}"
    client.create_topic(topic, partitions=1)
    sure, unsure = [], []
    producer = client.producer(topic, **options)
    producer.send(b"first").result()
    sure.append(b"first")
    tries = Interrupted()
    while tries.again():
        waiting = []
        for number in range(before):
            sure.append(b"before-%d-%d" % (tries.place, number))
            waiting.append(producer.send(sure[-1]))
        payload = b"x-%d" % tries.place
        if "idempotency_key" in fields:
            fields = {"idempotency_key": f"key-{tries.place}"}
        unsure.append(payload)
        tries.run(lambda payload=payload, fields=fields: producer.send(payload, **fields))
        sure.append(b"probe-%d" % tries.place)
        assert producer.send(sure[-1]).result(timeout_ms=LIMIT_MS), tries.where
        for delivery in waiting:
            delivery.result(timeout_ms=LIMIT_MS)
    producer.flush(timeout_ms=LIMIT_MS)
    assert producer._buffer.used_bytes == 0
    assert not producer._buffer.unresolved
    producer.close(timeout_ms=LIMIT_MS)
    assert tries.place > 10
    check(stored(client, topic), sure, unsure)


def _lost(ask, *asked):
    ask(*asked)
    raise OSError("the connection was reset before the answer")


def _unsent(ask, *asked):
    raise OSError("the connection was reset")


def _refused(ask, *asked):
    return OverloadedError("no")


#: How the quick way fails, once for each call.
FAULTS = {"none": None, "the answer is lost": _lost, "nothing is sent": _unsent, "the broker refuses": _refused}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_produce(client, fault, monkeypatch):
    """Also where the attempt of the quick way fails, and its record is handed to the lane."""
    ask = DirectConnection.ask
    is_failing = False
    failures = 0

    def failing(connection, *asked):
        nonlocal failures
        if not is_failing:
            return ask(connection, *asked)
        failures += 1
        return FAULTS[fault](ask, connection, *asked)

    monkeypatch.setattr(DirectConnection, "ask", failing)
    topic = f"produce-{list(FAULTS).index(fault)}"
    client.create_topic(topic, partitions=1)
    sure, unsure = [], []
    for number in range(20):
        sure.append(b"warm-%d" % number)
        client.produce(topic, sure[-1])
    # The places before the attempt are those without a fault.
    first = 1 if fault == "none" else 100
    tries = Interrupted(first=first)
    producer = client._own_producers[topic]
    while tries.again():
        unsure.append(b"x-%d" % tries.place)
        is_failing = fault != "none"
        tries.run(lambda: client.produce(topic, unsure[-1]))
        is_failing = False
        for probe in range(30):
            sure.append(b"probe-%d-%d" % (tries.place, probe))
            assert client.produce(topic, sure[-1], timeout_ms=LIMIT_MS), tries.where
            # The quick way is open again: the next call takes it.
            if fault == "none" or client._direct._idle:
                break
    producer.flush(timeout_ms=LIMIT_MS)
    assert producer._buffer.used_bytes == 0
    assert not producer._buffer.unresolved
    check(stored(client, topic), sure, unsure)
    assert fault == "none" or failures > (tries.place - first) // 2, "the quick way was taken"
    for _ in range(20):
        client.produce(topic, b"")
    assert client._direct._idle, "the quick way is open again"


def test_produce_many(client):
    client.create_topic("many", partitions=1)
    client.produce("many", b"first")
    tries = Interrupted()
    sure, unsure = [b"first"], []
    while tries.again():
        payloads = [b"x-%d-%d" % (tries.place, number) for number in range(3)]
        unsure += payloads
        tries.run(lambda payloads=payloads: client.produce_many("many", payloads))
        sure.append(b"probe-%d" % tries.place)
        assert client.produce("many", sure[-1], timeout_ms=LIMIT_MS), tries.where
    check(stored(client, "many"), sure, unsure)


@pytest.mark.parametrize("wait", [True, False])
def test_ack(client, wait):
    topic = f"ack-{wait}"
    client.create_topic(topic, partitions=1)
    client.produce_many(topic, [b"%d" % number for number in range(4_000)])
    tries = Interrupted()
    with client.queue(topic, group="g", visibility_ms=600_000) as consumer:
        ready = consumer.poll(1, wait_ms=LIMIT_MS)
        taken = 1
        while tries.again():
            first, second = (message for _ in range(2) for message in consumer.poll(1, wait_ms=LIMIT_MS))
            taken += 2
            tries.run(lambda first=first: first.ack(wait=wait))
            second.ack()
            # Settled or not: once more does no harm.
            first.ack()
            assert first.is_settled, tries.where
        ready[0].ack()
        consumer.flush()
    found = client.describe_group(topic, "g")
    assert (found.acked_total, found.failed_total, found.leased) == (taken, 0, 0)
    assert tries.place > 10


def test_poll(client):
    client.create_topic("poll", partitions=1)
    tries = Interrupted()
    expected, got = [], []
    with client.queue("poll", group="g", visibility_ms=600_000) as consumer:
        while tries.again():
            for _ in range(2):
                expected.append(b"%d-%d" % (tries.place, len(expected)))
                client.produce("poll", expected[-1])
            found = tries.run(lambda: consumer.poll(2, wait_ms=LIMIT_MS)) or []
            while len(got) + len(found) < len(expected):
                more = consumer.poll(wait_ms=LIMIT_MS)
                assert more, tries.where
                found += more
            assert [message.attempt for message in found] == [1] * len(found)
            consumer.ack(found)
            got += [message.payload for message in found]
    assert got == expected
    info = client.describe_group("poll", "g")
    assert (info.acked_total, info.failed_total) == (len(expected), 0)


def test_iteration(client):
    client.create_topic("iterate", partitions=1)
    tries = Interrupted()
    expected, got = [], []
    with client.queue("iterate", group="g", visibility_ms=600_000) as consumer:
        while tries.again():
            expected.append(b"%d" % tries.place)
            client.produce("iterate", expected[-1])
            message = tries.run(lambda: next(consumer)) or next(consumer)
            assert message.attempt == 1
            got.append(message.payload)
            message.ack()
    assert got == expected


def test_a_transaction(client):
    """Whatever the place: the message is acknowledged and its follower stored, or the message comes back uncounted."""
    for topic in ("steps", "following"):
        client.create_topic(topic, partitions=1)
    tries = Interrupted()
    handled = []
    with client.queue("steps", group="g", visibility_ms=600_000) as consumer:
        while tries.again():
            client.produce("steps", b"%d" % tries.place)
            message = next(consumer)
            tries.run(lambda message=message: passed_on(client, message))
            while not message.is_settled or client.describe_group("steps", "g").lag:
                # Not committed, and the abort may be on its way: it comes again, or is still held by this consumer.
                again = [message] if not message.is_settled else consumer.poll(1, wait_ms=LIMIT_MS)
                for one in again:
                    assert one.attempt == 1, tries.where
                    passed_on(client, one)
            handled.append(b"%d" % tries.place)
    assert stored(client, "following") == handled
    assert client.describe_group("steps", "g").failed_total == 0
    assert tries.place > 10


def passed_on(client, message):
    with client.transaction(timeout_ms=LIMIT_MS) as txn:
        txn.produce("following", message.payload)
        txn.ack(message)
