"""A topic that is deleted and created again is another topic: nothing of the old one reaches it by its name."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from flotilla import Client, ForgottenError, LeaseExpiredError, NotFoundError, TopicReplacedError
from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def replace(client: Client, topic: str, *, partitions: int = 1) -> None:
    client.delete_topic(topic)
    client.create_topic(topic, partitions=partitions)


@pytest.mark.parametrize("settle", ["ack", "nack", "reject", "release"])
def test_settlements_of_the_old_topic_settle_nothing_in_the_new_one(broker: LocalBroker, settle: str) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        old.produce("t", b"old")
        with old.queue("t", group="g") as late, new.queue("t", group="g") as consumer:
            (message,) = late.poll(wait_ms=5_000)
            replace(new, "t")
            new.produce("t", b"new")
            (other,) = consumer.poll(wait_ms=5_000)
            assert (other.partition, other.offset) == (message.partition, message.offset)
            with pytest.raises(LeaseExpiredError, match="the topic was deleted"):
                getattr(message, settle)()
            other.nack(delay_ms=0)
            (again,) = consumer.poll(wait_ms=5_000)
            assert (again.payload, again.attempt) == (b"new", 2)
            again.ack()


def test_a_lease_of_the_old_topic_is_not_extended_in_the_new_one(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        old.produce("t", b"old")
        with old.queue("t", group="g") as late, new.queue("t", group="g") as consumer:
            (message,) = late.poll(wait_ms=5_000)
            replace(new, "t")
            new.produce("t", b"new")
            (other,) = consumer.poll(wait_ms=5_000)
            with pytest.raises(LeaseExpiredError):
                message.extend(60_000)
            other.ack()


def test_a_transaction_acknowledges_nothing_of_a_topic_that_is_gone(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        old.create_topic("out", partitions=1)
        old.produce("t", b"old")
        with old.queue("t", group="g") as late, new.queue("t", group="g") as consumer:
            (message,) = late.poll(wait_ms=5_000)
            replace(new, "t")
            new.produce("t", b"new")
            (other,) = consumer.poll(wait_ms=5_000)
            transaction = old.transaction()
            transaction.produce("out", b"result")
            transaction.ack(message)
            with pytest.raises(LeaseExpiredError):
                transaction.commit()
            other.ack()


def test_a_transaction_stages_nothing_in_a_topic_that_is_created_anew(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("t", partitions=1)
        transaction = old.transaction()
        transaction.produce("t", b"old")
        replace(new, "t")
        with pytest.raises(TopicReplacedError):
            transaction.commit()
        with new.reader("t") as reader:
            assert reader.poll(wait_ms=0) == []


@pytest.mark.parametrize("replaced", ["in", "out"])
@pytest.mark.parametrize("decided_by", ["the same process", "another process"])
def test_a_commit_is_refused_when_a_topic_is_replaced_after_the_stage(
    broker: LocalBroker, replaced: str, decided_by: str
) -> None:
    with broker.client() as client, broker.client() as other:
        for topic in ("in", "out", "also"):
            client.create_topic(topic, partitions=1)
        client.produce("in", b"work")
        with client.queue("in", group="g") as queue:
            (message,) = queue.poll(wait_ms=5_000)
            transaction = client.transaction("mine")
            transaction.ack(message)
            transaction.produce("out", b"result")
            transaction.stage("also", [b"result"])
            replace(other, replaced)
            if decided_by == "the same process":
                with pytest.raises(TopicReplacedError):
                    transaction.commit()
            else:
                # It asks the partitions, and one of them has nothing of it.
                with pytest.raises(ForgottenError):
                    other.commit_transaction("mine", partitions=transaction.partitions)
                transaction.abort()
            assert (client.peek("also", 0), client.peek("out", 0)) == ([], [])
            if replaced == "out":
                (again,) = queue.poll(wait_ms=5_000)
                assert (again.payload, again.attempt) == (b"work", 1)
                again.ack()


def test_a_consumer_goes_on_with_the_new_topic(broker: LocalBroker) -> None:
    with broker.client() as client, broker.client() as other, client.queue("t", group="g") as consumer:
        client.create_topic("t", partitions=4)
        for number in range(8):
            client.produce("t", b"old %d" % number, partition=number % 4)
        assert len(consumer.poll(100, wait_ms=5_000)) > 0
        replace(other, "t", partitions=1)
        other.produce("t", b"new")
        payloads = []
        while not payloads:
            payloads = [message.payload for message in consumer.poll(100, wait_ms=5_000)]
        assert payloads == [b"new"]


def test_positions_of_the_old_topic_are_not_committed_in_the_new_one(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("s", partitions=1)
        old.produce_many("s", [b"old %d" % number for number in range(50)])
        with old.stream("s", group="g", auto_commit_ms=None) as late:
            read = 0
            while read < 50:
                read += len(late.poll(wait_ms=5_000))
            replace(new, "s")
            new.produce_many("s", [b"new %d" % number for number in range(100)])
            with pytest.raises(TopicReplacedError):
                late.commit({0: 50})
            # It goes on as a member of the group of the new topic, from its beginning.
            payloads: list[bytes] = []
            while len(payloads) < 100:
                # Between deletion and creation there is no topic, and it says so.
                with suppress(NotFoundError):
                    payloads += [message.payload for message in late.poll(wait_ms=5_000)]
            assert payloads[0] == b"new 0"
            assert late.commit() == {0: 100}


def test_a_reader_says_that_its_topic_was_created_anew(broker: LocalBroker) -> None:
    with broker.client() as old, broker.client() as new:
        old.create_topic("s", partitions=1)
        old.produce_many("s", [b"old 0", b"old 1"])
        with old.reader("s", group="g") as reader:
            assert len(reader.poll(wait_ms=5_000)) == 2
            replace(new, "s")
            new.produce_many("s", [b"new %d" % number for number in range(4)])
            with pytest.raises(TopicReplacedError, match="deleted and created again"):
                reader.poll(wait_ms=60_000)
            with pytest.raises(TopicReplacedError):
                reader.commit()


def test_a_redrive_knows_letters_of_a_dead_letter_topic_that_was_created_anew(broker: LocalBroker) -> None:
    with broker.client() as client:
        client.create_topic("t", partitions=1, max_deliveries=1)
        with client.queue("t", group="g") as consumer:
            for name in (b"one", b"two"):
                client.produce("t", name)
                (message,) = consumer.poll(wait_ms=5_000)
                message.reject(reason="no")
                letters = client.dead_letters("t", "g")
                eventually(letters.list)
                assert letters.redrive().done == 1
                (again,) = consumer.poll(wait_ms=5_000)
                assert again.payload == name
                again.ack()
                client.delete_topic("dlq.g.t")
