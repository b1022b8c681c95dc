"""Dead letters at a broker in this process: what is sent again, to which topic, and that nothing is lost."""

import pytest

from flotilla.testing import HOUR_MS, MINUTE_MS, LocalBroker
from tests.integration.testing.waiting import eventually, payloads

TOPIC = "orders"


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def rejected(client, count, group="g"):
    """So many messages die, for the reason that is their payload."""
    with client.queue(TOPIC, group=group) as consumer:
        for message in consumer.poll(100):
            message.reject(reason=message.payload.decode())
    letters = client.dead_letters(TOPIC, group)
    eventually(lambda: len(letters.list()) == count)
    return letters


def test_runs_that_lose_what_they_hold_lose_no_letters(broker, client):
    """One that is killed and one that takes too long alike: what it passed over comes back as failed."""
    client.produce_many(TOPIC, [b"garbage"] * 5 + [b"timeout"] * 7)
    letters = rejected(client, 12)

    def stall(so_far):
        if so_far.done:
            # Longer than leases are renewed; all seven times together less than letters are kept.
            broker.advance(hours=13)

    for _ in range(7):
        broker.advance(minutes=10)
        done = letters.redrive(reason="timeout", limit=1, progress=stall)
        assert (done.done, done.skipped) == (1, 5)
    assert client.describe_group(letters.topic, "flotilla.redrive").failed_total == 35
    assert payloads(letters.list()) == [b"garbage"] * 5
    # And no poll has to wait for them.
    assert letters.redrive().done == 5
    assert letters.list() == []


def test_a_message_that_is_sent_again_has_its_own_bound_on_deliveries(client):
    client.create_topic(TOPIC, max_deliveries=5)
    client.produce(TOPIC, b"1", key=b"k", headers={"mine": b"1"}, priority=3, content_type=2, max_deliveries=2)
    letters = client.dead_letters(TOPIC, "g")
    for redriven in range(2):
        with client.queue(TOPIC, group="g") as consumer:
            for attempt in (1, 2):
                (message,) = consumer.poll()
                assert (message.key, message.priority, message.content_type) == (b"k", 3, 2)
                assert (message.headers[0], message.attempt) == (("mine", b"1"), attempt)
                message.nack(delay_ms=0, reason="no")
        (letter,) = eventually(letters.list)
        assert (letter.attempts, letter.max_deliveries, letter.redriven) == (2, 2, redriven)
        assert letters.redrive().done == 1


def test_a_time_to_live_counts_anew_when_a_message_is_sent_again(broker, client):
    client.produce(TOPIC, b"1", timestamp_ms=broker.now_ms() - 50 * MINUTE_MS, ttl_ms=HOUR_MS)
    letters = rejected(client, 1)
    assert letters.list()[0].ttl_ms == HOUR_MS
    assert letters.redrive().done == 1
    with client.queue(TOPIC, group="g") as consumer:
        broker.advance(minutes=30)
        (message,) = consumer.poll()
        message.release()
        broker.advance(minutes=40)
        assert consumer.poll(wait_ms=0) == []
    eventually(lambda: client.describe_group(TOPIC, "g").expired_total == 1)


def test_every_group_of_the_topic_gets_what_is_sent_again(client):
    client.produce(TOPIC, b"1")
    with client.queue(TOPIC, group="other") as other:
        other.ack(other.poll())
        assert rejected(client, 1).redrive().done == 1
        for group in ("g", "other"):
            with client.queue(TOPIC, group=group) as consumer:
                assert payloads(consumer.poll()) == [b"1"]


def die(client, *payloads, topic=TOPIC, group="g"):
    client.produce_many(topic, payloads)
    with client.queue(topic, group=group) as consumer:
        for message in consumer.poll(100):
            message.reject(reason="bad")


def test_a_larger_limit_of_the_source_stops_no_letters(broker, client):
    """The dead-letter topic was made with the smaller one; a day later nothing is stored again either."""
    client.create_topic(TOPIC, max_deliveries=1)
    die(client, b"small-0")
    letters = client.dead_letters(TOPIC, "g")
    eventually(lambda: len(letters.list()) == 1)
    client.alter_topic(TOPIC, payload_bytes_max="2MiB")
    die(client, b"L" * 1_500_000, b"small-1", b"small-2", b"small-3")
    eventually(lambda: client.describe_group(TOPIC, "g").dying == 0)
    assert [len(letter.payload) for letter in letters.list()] == [7, 1_500_000, 7, 7, 7]
    broker.advance(days=2)
    assert len(letters.list()) == 5
    client.delete_group(TOPIC, "g")


def test_names_with_dots_are_told_apart(client):
    die(client, b"1", topic="orders.eu", group="billing")
    die(client, b"2", topic="eu", group="billing.orders")
    other = client.dead_letters("orders.eu", "billing")
    eventually(lambda: payloads(other.list()) == [b"1"])
    own = client.dead_letters("eu", "billing.orders")
    eventually(lambda: payloads(own.list()) == [b"2"])
    assert own.purge().done == 1
    assert (payloads(own.list()), payloads(other.list())) == ([], [b"1"])


def test_groups_that_share_a_topic_touch_only_their_own_letters(client):
    groups = (("a", "g"), ("b", "g"), ("b", "h"))
    client.create_topic("a")
    client.create_topic("b")
    for topic, group in groups:
        client.alter_group(topic, group, dead_letter_topic="graveyard")
        die(client, f"{topic}{group}".encode(), topic=topic, group=group)
    shared = {pair: client.dead_letters(*pair) for pair in groups}
    eventually(lambda: [len(letters.list()) for letters in shared.values()] == [1, 1, 2])
    assert {letters.topic for letters in shared.values()} == {"graveyard"}
    assert payloads(shared["b", "h"].list()) == [b"bg", b"bh"]
    assert shared["b", "g"].purge().done == 1
    assert shared["b", "h"].redrive().done == 2
    assert [payloads(letters.list()) for letters in shared.values()] == [[b"ag"], [], []]
    with client.queue("a", group="other") as consumer:
        assert payloads(consumer.poll(10)) == [b"ag"]


def test_a_redriven_message_has_exactly_its_own_headers(client):
    own = tuple((f"h{number}", b"x") for number in range(64))
    client.create_topic(TOPIC, max_deliveries=1)
    client.produce(TOPIC, b"1", headers=own)
    letters = client.dead_letters(TOPIC, "g")
    for redriven in range(3):
        with client.queue(TOPIC, group="g") as consumer:
            (message,) = consumer.poll()
            assert message.headers == own
            message.reject(reason="bad")
        (letter,) = eventually(letters.list)
        assert (letter.headers, letter.redriven, letter.group) == (own, redriven, "g")
        assert letters.redrive().done == 1
    with client.queue(TOPIC, group="g") as consumer:
        consumer.poll()[0].reject(reason="bad")
    eventually(letters.list)
    assert (letters.redrive().refused, letters.redrive(force=True).done) == (1, 1)


def test_a_topic_of_ones_own_may_be_named_like_a_dead_letter_topic(client):
    client.create_topic("dlq.mine", max_deliveries=2, nack_backoff_ms=0)
    client.produce("dlq.mine", b"1")
    with client.queue("dlq.mine", group="g") as consumer:
        for attempt in (1, 2):
            (message,) = consumer.poll()
            assert message.attempt == attempt
            message.nack(delay_ms=0)
        assert consumer.poll(wait_ms=0) == []
    eventually(lambda: payloads(client.dead_letters("dlq.mine", "g").list()) == [b"1"])
