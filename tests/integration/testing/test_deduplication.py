"""What is sent again is stored once, however much was sent in between."""

import pytest

from flotilla.testing import LocalBroker


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def test_a_key_is_remembered_for_minutes_whatever_the_window_counts(broker, client):
    client.create_topic("orders", partitions=1, dedup_window_entries=1_000)
    first = client.produce("orders", b"first", idempotency_key="first")
    with client.producer("orders") as producer:
        for number in range(5_000):
            producer.send(b"x", idempotency_key=b"%d" % number)
    broker.advance(minutes=4)
    again = client.produce("orders", b"again", idempotency_key="first")
    assert (again.offset, again.duplicate) == (first.offset, True)
    assert client.find_offset("orders", 0, "latest") == 5_001
