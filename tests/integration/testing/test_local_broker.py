"""A broker in this process whose clock is turned by hand."""

from pathlib import Path

import pytest

from flotilla import LeaseExpiredError
from flotilla.testing import DAY_MS, HOUR_MS, LocalBroker
from tests.integration.testing.waiting import eventually, payloads


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def test_a_delay_of_a_week_is_over_when_the_clock_is_turned(broker, client):
    client.produce("orders", b"later", delay_ms=7 * DAY_MS)
    client.produce("orders", b"now")
    with client.queue("orders", group="workers") as consumer:
        (message,) = consumer.poll()
        assert message.payload == b"now"
        message.ack()
        broker.advance(days=6, hours=23)
        assert consumer.poll(wait_ms=0) == []
        broker.advance(hours=1)
        assert payloads(consumer.poll()) == [b"later"]


def test_a_message_fails_its_way_through_a_backoff_of_hours_to_the_dead_letters(broker, client):
    backoff = {"nack_backoff_ms": HOUR_MS, "nack_backoff_max_ms": 8 * HOUR_MS}
    client.create_topic("orders", max_deliveries=3, **backoff)
    client.produce("orders", b"poison", key=b"k")
    with client.queue("orders", group="workers") as consumer:
        for attempt in (1, 2, 3):
            (message,) = consumer.poll()
            assert message.attempt == attempt
            message.nack(reason="no stock")
            # The backoff is jittered, to a half at the least.
            assert consumer.poll(wait_ms=0) == []
            broker.advance(hours=8)
        (letter,) = eventually(client.dead_letters("orders", "workers").list)
    assert (letter.payload, letter.key, letter.reason, letter.attempts) == (b"poison", b"k", "no stock", 3)


def test_a_message_whose_lease_expires_goes_to_another_worker(broker, client):
    client.produce("orders", b"1")
    with (
        client.queue("orders", group="workers", visibility_ms=HOUR_MS) as slow,
        client.queue("orders", group="workers") as quick,
    ):
        (held,) = slow.poll()
        broker.advance(hours=2)
        (taken,) = quick.poll()
        assert taken.attempt == 2
        with pytest.raises(LeaseExpiredError):
            held.ack()
        taken.ack()


def test_records_that_retention_trimmed_leave_the_disk():
    small = {"journal_file_bytes": 2 << 20, "segment_file_bytes": 1 << 20}
    with LocalBroker(**small) as broker, broker.client() as client:
        folder = Path(broker._folder.name)
        for _ in range(16):
            client.produce_many("orders", [bytes(1_000)] * 500)
        assert eventually(lambda: size_of(folder) > 4_000_000)
        client.alter_topic("orders", retention_messages=100)

        def is_trimmed():
            # Time passes until the leader looks, and until a snapshot is taken for its sake.
            broker.advance(seconds=30)
            return client.find_offset("orders", 0, "earliest") == 7_900 and size_of(folder) < 2_000_000

        assert eventually(is_trimmed)
        with client.reader("orders", offset="earliest") as reader:
            assert reader.poll(1)[0].offset == 7_900


def size_of(folder):
    """Of segments, which are what a partition's log becomes; the journal is shared and used again."""
    found = 0
    for path in folder.rglob("*.seg"):
        try:
            found += path.stat().st_size
        except FileNotFoundError:
            pass
    return found


def test_nothing_is_left_behind():
    with LocalBroker() as broker:
        folder = Path(broker._folder.name)
        assert folder.exists()
    assert not folder.exists()
