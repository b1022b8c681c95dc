"""More comes due at once than a broker takes in one turn: for a test that turned its clock, all of it has happened."""

import pytest

from flotilla.partition.leader import delays
from flotilla.testing import HOUR_MS, LocalBroker

COUNT = 40


@pytest.fixture
def broker(monkeypatch):
    monkeypatch.setattr(delays, "_DUE_LIMIT", 2)
    with LocalBroker() as broker:
        yield broker


def test_all_that_is_due_is_ready(broker, client):
    client.create_topic("orders", partitions=1)
    client.produce("orders", b"at once")
    with client.queue("orders", group="workers") as consumer:
        consumer.ack(consumer.poll(1, wait_ms=10_000))
    with client.producer("orders") as producer:
        for number in range(COUNT):
            producer.send(b"task", delay_ms=HOUR_MS + number)
    broker.advance(hours=2)
    described = client.describe_group("orders", "workers")
    assert (described.ready, described.delayed) == (COUNT, 0)
    with client.queue("orders", group="workers") as consumer:
        assert len(consumer.poll(COUNT, wait_ms=0)) == COUNT
