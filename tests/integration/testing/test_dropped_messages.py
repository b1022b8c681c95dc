"""A message whose object is gone is not renewed: nobody can settle it."""

import gc
import time

import pytest

from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually, payloads

VISIBILITY_MS = 1_500


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def mail(client):
    client.create_topic("mail", partitions=1)
    client.produce_many("mail", [b"0", b"1", b"2"])
    with client.queue("mail", group="g", visibility_ms=VISIBILITY_MS) as consumer:
        yield consumer


def redelivered(client):
    with client.queue("mail", group="g") as other:
        found = eventually(lambda: other.poll(wait_ms=1_000))
        assert [message.attempt for message in found] == [2] * len(found)
        other.ack(found)
    return payloads(found)


def test_a_dropped_message_comes_again_and_one_that_is_held_does_not(client, mail):
    held = mail.poll(3, wait_ms=5_000)
    del held[1]
    gc.collect()
    assert redelivered(client) == [b"1"]
    time.sleep(2 * VISIBILITY_MS / 1000)
    mail.ack(held)
    found = client.describe_group("mail", "g")
    assert (found.acked_total, found.failed_total, found.lag) == (3, 1, 0)


def test_a_handler_that_fails_before_it_holds_the_message(client, mail):
    def work():
        for message in mail:
            raise ZeroDivisionError(message.payload)

    mail.ack(mail.poll(2, wait_ms=5_000))
    with pytest.raises(ZeroDivisionError):
        work()
    gc.collect()
    assert redelivered(client) == [b"2"]


def test_a_transaction_holds_what_it_acknowledges(client, mail):
    transaction = client.transaction()
    transaction.ack(*mail.poll(3, wait_ms=5_000))
    gc.collect()
    time.sleep(2 * VISIBILITY_MS / 1000)
    transaction.commit()
    assert client.describe_group("mail", "g").acked_total == 3


def test_dropped_messages_make_room_for_others(client, broker):
    client.create_topic("many", partitions=1)
    client.produce_many("many", [b"%d" % number for number in range(100)])
    with client.queue("many", group="g", prefetch=4, visibility_ms=600_000) as consumer:
        # Nothing is settled, and nothing is kept.
        assert [next(consumer).payload for _ in range(100)] == [b"%d" % number for number in range(100)]
