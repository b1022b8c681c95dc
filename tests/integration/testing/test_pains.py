"""What users of other queues suffer from, and does not happen here: one test for each, named after the pain.

On a broker in this process whose clock is turned by hand. What only a failover can show is tested on three real
brokers (`tests/integration/broker/test_queue_groups.py`), what only a crash at the worst moment can show by the
simulator.
"""

from threading import Event, Thread

import pytest

from flotilla import LeaseExpiredError, Worker
from flotilla.testing import DAY_MS, HOUR_MS, MINUTE_MS, LocalBroker
from tests.integration.testing.waiting import eventually, payloads


@pytest.fixture(scope="module")
def broker():
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def topic(request):
    """One of its own for each test; it comes to be when it is first used."""
    return request.node.name.removeprefix("test_")[:100]


def drain(consumer, wait_ms=0):
    """Everything there is, acknowledged."""
    found = []
    while messages := consumer.poll(100, wait_ms=wait_ms):
        consumer.ack(messages)
        found += messages
    return found


def test_a_delay_longer_than_the_visibility_timeout_is_delivered_once(broker, client, topic):
    client.produce(topic, b"tomorrow", delay_ms=DAY_MS)
    with client.queue(topic, group="g", visibility_ms=30_000) as consumer:
        for _ in range(24):
            assert consumer.poll(wait_ms=0) == []
            broker.advance(hours=1)
        (message,) = consumer.poll()
        assert (message.payload, message.attempt) == (b"tomorrow", 1)
        message.ack()
        broker.advance(hours=1)
        assert consumer.poll(wait_ms=0) == []


def test_a_long_handler_keeps_its_message(broker, client, topic):
    client.produce(topic, b"1")
    with (
        client.queue(topic, group="g", visibility_ms=4_000) as slow,
        client.queue(topic, group="g", visibility_ms=4_000) as other,
    ):
        (message,) = slow.poll()
        # Real time: the lease is renewed by the client while a handler has the message.
        assert other.poll(wait_ms=6_000) == []
        message.ack()


def test_parallelism_is_not_bound_to_the_partition_count(client, topic):
    client.create_topic(topic, partitions=1)
    client.produce_many(topic, [b"%d" % number for number in range(10)])
    consumers = [client.queue(topic, group="g") for _ in range(10)]
    held = [consumer.poll(1) for consumer in consumers]
    assert sorted(payloads(message for (message,) in held)) == [b"%d" % number for number in range(10)]
    for consumer in consumers:
        consumer.close()


def test_a_poison_message_neither_blocks_nor_loops_nor_vanishes(broker, client, topic):
    client.create_topic(topic, max_deliveries=2)
    client.produce_many(topic, [b"poison", b"good"])
    with client.queue(topic, group="g") as consumer:
        done = []
        while len(done) < 1 or client.describe_group(topic, "g").dead_total < 1:
            for message in consumer.poll(10, wait_ms=100):
                if message.payload == b"poison":
                    message.nack(reason="cannot parse")
                else:
                    message.ack()
                    done.append(message.payload)
            broker.advance(minutes=10)
        assert done == [b"good"]
        (letter,) = eventually(client.dead_letters(topic, "g").list)
        assert (letter.payload, letter.reason, letter.attempts, letter.topic) == (b"poison", "cannot parse", 2, topic)


def test_a_bare_nack_does_not_burn_all_attempts_in_milliseconds(broker, client, topic):
    client.produce(topic, b"1")
    with client.queue(topic, group="g") as consumer:
        (message,) = consumer.poll()
        message.nack()
        assert consumer.poll(wait_ms=0) == []
        broker.advance(seconds=1)
        (message,) = consumer.poll()
        assert message.attempt == 2
        # Uncounted, and at once.
        message.release()
        (message,) = consumer.poll()
        assert message.attempt == 2
        message.nack(delay_ms=HOUR_MS)
        broker.advance(minutes=59)
        assert consumer.poll(wait_ms=0) == []
        broker.advance(minutes=1)
        (message,) = consumer.poll()
        assert message.attempt == 3
        message.ack()


def test_redrive_is_one_call_with_filters_and_a_guard_against_loops(broker, client, topic):
    client.create_topic(topic, max_deliveries=1)
    client.produce_many(topic, [b"timeout", b"garbage"])
    with client.queue(topic, group="g") as consumer:
        for message in consumer.poll(10):
            message.reject(reason=f"because of {message.payload.decode()}")
        letters = client.dead_letters(topic, "g")
        eventually(lambda: len(letters.list()) == 2)
        assert letters.redrive(reason="timeout", dry_run=True).done == 1
        assert letters.redrive(reason="timeout").done == 1
        (again,) = consumer.poll()
        assert again.payload == b"timeout"
        again.ack()
        assert payloads(letters.list()) == [b"garbage"]
        for _ in range(3):
            assert letters.redrive().done == 1
            (again,) = consumer.poll()
            again.reject(reason="still garbage")
            eventually(letters.list)
        assert (letters.redrive().done, letters.redrive().refused) == (0, 1)
        assert letters.purge().done == 1
        assert letters.list() == []


def test_a_low_priority_is_not_starved(client, topic):
    client.produce_many(topic, [b"0"] * 30, priority=0)
    low = []
    with client.queue(topic, group="g") as consumer:
        for _ in range(4):
            # More of the high ones than the worker takes: they alone would keep the group busy for ever.
            client.produce_many(topic, [b"7"] * 100, priority=7)
            messages = consumer.poll(40)
            consumer.ack(messages)
            found = payloads(messages)
            assert found.count(b"7") >= 29, "the oldest have a quarter, and no more"
            low += [value for value in found if value == b"0"]
    assert len(low) == 30


def test_a_rate_limit_holds_for_all_workers_together(broker, client, topic):
    client.create_topic(topic, rate_limit_per_minute=1, rate_limit_burst=1)
    client.produce_many(topic, [b"%d" % number for number in range(20)])

    def delivered():
        # New consumers each time: one that waits for a token does so by the real clock, not by the turned one.
        with client.queue(topic, group="g") as one, client.queue(topic, group="g") as other:
            return drain(one, wait_ms=100) + drain(other, wait_ms=100)

    for _ in range(5):
        assert len(eventually(delivered)) == 1
        assert delivered() == []
        broker.advance(minutes=1)


def test_a_worker_holds_no_more_than_it_can_work_on(broker, client, topic):
    client.produce_many(topic, [b"%d" % number for number in range(50)])
    release = Event()
    worker = Worker(broker.address, topic, "g", lambda message: release.wait(), concurrency=3)
    running = Thread(target=worker.run)
    running.start()
    try:
        eventually(lambda: worker.running_count == 3)
        assert eventually(lambda: client.describe_group(topic, "g").leased) <= 6
    finally:
        release.set()
        worker.stop()
        running.join()


def test_a_late_ack_counts_while_no_other_worker_has_the_message(broker, client, topic):
    client.produce_many(topic, [b"1", b"2"])
    with (
        client.queue(topic, group="g", visibility_ms=MINUTE_MS) as late,
        client.queue(topic, group="g") as other,
    ):
        first, second = late.poll(2)
        broker.advance(minutes=2)
        first.ack()
        (taken,) = other.poll(2)
        assert taken.payload == b"2"
        with pytest.raises(LeaseExpiredError):
            second.ack()
        taken.ack()


def test_a_cancelled_message_is_never_delivered(broker, client, topic):
    client.produce(topic, b"by key", idempotency_key="order-1", delay_ms=HOUR_MS)
    receipt = client.produce(topic, b"by offset")
    client.produce(topic, b"kept")
    assert len(client.cancel(topic, idempotency_key="order-1")) == 1
    assert client.cancel(topic, receipt.partition, offset=receipt.offset) == [(receipt.partition, receipt.offset)]
    with client.queue(topic, group="g") as consumer:
        assert payloads(drain(consumer, wait_ms=200)) == [b"kept"]
        broker.advance(hours=2)
        assert drain(consumer) == []


def test_the_idempotency_key_of_a_cancelled_message_stays_taken(client, topic):
    first = client.produce(topic, b"1", idempotency_key="order-7")
    assert len(client.cancel(topic, idempotency_key="order-7")) == 1
    again = client.produce(topic, b"1", idempotency_key="order-7")
    assert (again.offset, again.duplicate) == (first.offset, True)
    client.produce(topic, b"2", idempotency_key="order-8")
    with client.queue(topic, group="g") as consumer:
        assert payloads(drain(consumer, wait_ms=200)) == [b"2"]


def test_a_repeated_idempotency_key_is_stored_once_and_answers_with_the_first_offset(client, topic):
    first = client.produce(topic, b"1", idempotency_key="order-42")
    again = client.produce(topic, b"1", idempotency_key="order-42")
    assert (again.offset, again.duplicate, first.duplicate) == (first.offset, True, False)
    with client.queue(topic, group="g") as consumer:
        assert payloads(drain(consumer, wait_ms=200)) == [b"1"]


def test_a_stuck_key_blocks_no_other_key(client, topic):
    for number in range(3):
        client.produce(topic, b"a%d" % number, key=b"a", partition=0)
        client.produce(topic, b"b%d" % number, key=b"b", partition=0)
    with client.queue(topic, group="g", ordered="key") as consumer:
        found = []
        stuck = None
        while len(found) < 3:
            for message in consumer.poll(10):
                if message.key == b"a":
                    assert stuck is None, "a key is with one member, one message at a time"
                    stuck = message
                else:
                    found.append(message.payload)
                    message.ack()
        assert found == [b"b0", b"b1", b"b2"]
        assert consumer.poll(wait_ms=100) == []
        stuck.ack()
        assert payloads(drain(consumer, wait_ms=500)) == [b"a1", b"a2"]


def test_looking_at_a_message_does_not_change_it(client, topic):
    client.produce_many(topic, [b"1", b"2"])
    with client.queue(topic, group="g") as consumer:
        (held,) = consumer.poll(1)
        before = client.describe_group(topic, "g")
        partition = held.partition
        for _ in range(3):
            assert payloads(client.peek(topic, partition)) == [b"1", b"2"]
            assert client.explain(topic, "g", partition, held.offset).state == "leased"
        after = client.describe_group(topic, "g")
        assert (after.ready, after.leased, after.lag) == (before.ready, before.leased, before.lag)
        (other,) = consumer.poll(1)
        assert (held.attempt, other.attempt) == (1, 1)
        consumer.ack([held, other])


def test_at_most_once_is_never_delivered_twice(broker, client, topic):
    client.produce_many(topic, [b"1", b"2"])
    with client.queue(topic, group="g", ack_mode="auto") as consumer:
        first = consumer.poll(1)
        broker.advance(days=1)
        second = consumer.poll(10)
        assert payloads([*first, *second]) == [b"1", b"2"]
        broker.advance(days=1)
        assert consumer.poll(wait_ms=0) == []
    assert client.describe_group(topic, "g").lag == 0


def test_an_expired_message_is_not_delivered(broker, client, topic):
    client.produce(topic, b"stale", ttl_ms=MINUTE_MS)
    client.produce(topic, b"fresh", ttl_ms=1_000 * DAY_MS)
    broker.advance(hours=1)
    with client.queue(topic, group="g") as consumer:
        assert payloads(drain(consumer, wait_ms=200)) == [b"fresh"]
    assert client.describe_group(topic, "g").expired_total == 1


def test_a_group_can_be_rewound_and_paused(client, topic):
    client.produce_many(topic, [b"1", b"2"])
    with client.queue(topic, group="g") as consumer:
        assert payloads(drain(consumer, wait_ms=200)) == [b"1", b"2"]
        moves = client.reset_group(topic, "g", "earliest", dry_run=True)
        assert [(move.from_offset, move.to_offset) for move in moves.values()] == [(2, 0)]
        assert consumer.poll(wait_ms=0) == []
        # In this order: a poll that still waits at the broker would be handed what the reset brings.
        client.pause_group(topic, "g")
        eventually(lambda: client.describe_group(topic, "g").is_paused)
        client.reset_group(topic, "g", "earliest")
        assert consumer.poll(wait_ms=100) == []
        client.resume_group(topic, "g")
        found = eventually(lambda: consumer.poll(10, wait_ms=100))
        assert payloads(found) == [b"1", b"2"]
        consumer.ack(found)


def test_a_deleted_group_is_gone_with_its_settings(client, topic):
    client.create_topic(topic, partitions=3)
    for partition in range(3):
        client.produce(topic, b"%d" % partition, partition=partition)
    with client.queue(topic, group="g") as consumer:
        assert len(drain(consumer, wait_ms=200)) == 3
    client.alter_group(topic, "g", paused=1, holds_retention=1)
    client.delete_group(topic, "g")
    assert client.alter_group(topic, "g") == {}
    with client.queue(topic, group="g") as consumer:
        found = []
        while len(found) < 3:
            found += payloads(consumer.poll(10))
    assert sorted(found) == [b"0", b"1", b"2"]
    assert not client.describe_group(topic, "g").is_paused
