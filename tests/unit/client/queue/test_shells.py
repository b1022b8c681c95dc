"""Queue groups through both clients, over TCP, against the real queue engine."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from flotilla import (
    AsyncClient,
    ConnectionClosedError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    Receipt,
    Reject,
    Retry,
)
from flotilla.types.dead_letters import summary
from flotilla.types.errors import OutcomeUnknownError, UnavailableError
from flotilla.types.operations.queue import Extend, Poll, Settle
from tests.unit.client.shells import Shell, TcpServers


@pytest.fixture
def client(connect: Callable[..., Shell], servers: TcpServers) -> Shell:
    servers.cluster.create("orders", nack_backoff_ms="1ms", nack_backoff_max_ms="1ms", max_deliveries="3")
    return connect()


def many(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def payloads(messages: list[Shell]) -> list[bytes]:
    return [message.payload for message in messages]


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another thread does."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# Messages.


def test_poll_and_ack(client, servers):
    client.produce_many("orders", many(10))
    with client.queue("orders", group="workers") as consumer:
        messages = consumer.poll(4)
        assert payloads(messages) == many(4)
        assert (messages[0].topic, messages[0].partition, messages[0].offset, messages[0].attempt) == (
            "orders",
            0,
            0,
            1,
        )
        consumer.ack(messages)
        assert payloads(consumer.poll(100)) == many(6, first=4)
    info = client.describe_group("orders", "workers")
    # Closing has given back what was not settled.
    assert (info.acked_total, info.leased, info.ready, info.lag, info.failed_total) == (4, 0, 6, 6, 0)
    assert servers.cluster.count(Settle) == 2


def test_a_poll_returns_nothing_when_nothing_comes(client):
    with client.queue("orders", group="workers") as consumer:
        assert consumer.poll(wait_ms=0) == []
        assert consumer.poll(wait_ms=20) == []
        with pytest.raises(InvalidArgumentError):
            consumer.poll(0)


def test_a_poll_wakes_when_something_comes(client, servers):
    with client.queue("orders", group="workers") as consumer:
        assert consumer.poll(wait_ms=0) == []
        client.produce("orders", b"here")
        assert payloads(consumer.poll(wait_ms=20_000)) == [b"here"]


def test_iterating_with_the_context_manager(client):
    client.produce_many("orders", many(200))
    with client.queue("orders", group="workers", prefetch=50) as consumer:
        found = []
        for _ in range(200):
            (message,) = consumer.take(1)
            with message:
                found.append(message.payload)
        consumer.flush()
        assert found == many(200)
        assert client.describe_group("orders", "workers").acked_total == 200


def test_an_exception_is_a_failure_with_its_text(client):
    client.produce("orders", b"bad")
    with client.queue("orders", group="workers") as consumer:
        for attempt in (1, 2, 3):
            (message,) = consumer.take(1)
            assert message.attempt == attempt
            with pytest.raises(ValueError, match="no good"), message:
                raise ValueError("no good")
        consumer.flush()
    letters = client.dead_letters("orders", "workers")
    until(lambda: bool(letters.list()))
    (letter,) = letters.list()
    assert letter.reason.endswith('\n    raise ValueError("no good")')
    assert (summary(letter.reason), letter.attempts, letter.topic, letter.origin_offset) == (
        "ValueError: no good",
        3,
        "orders",
        0,
    )


def test_a_handler_can_decide_by_an_exception(client):
    client.produce_many("orders", many(2))
    with client.queue("orders", group="workers") as consumer:
        first, second = consumer.poll()
        with first:
            raise Reject("garbage")
        with second:
            raise Retry(delay_ms=1)
        consumer.flush()
        (again,) = consumer.poll()
        assert (again.payload, again.attempt) == (b"1", 2)
        with pytest.raises(KeyboardInterrupt), again:
            raise KeyboardInterrupt
        consumer.flush()
        # Interrupted from outside is not counted.
        (again,) = consumer.poll()
        assert again.attempt == 2
    assert client.explain("orders", "workers", 0, 0).state in ("dying", "dead")


def test_single_messages_are_settled_in_every_way(client):
    client.produce_many("orders", many(5))
    with client.queue("orders", group="workers") as consumer:
        one, two, three, four, five = consumer.poll()
        one.ack()
        two.nack(reason="later", delay_ms=0)
        three.release()
        four.reject(reason="garbage")
        five.extend(60_000)
        five.ack(wait=False)
        assert one.is_settled
        consumer.flush()
        found = {}
        while len(found) < 2:
            found |= {message.payload: message for message in consumer.poll()}
        assert {payload: message.attempt for payload, message in found.items()} == {b"1": 2, b"2": 1}
        with pytest.raises(InvalidArgumentError):
            found[b"1"].nack(delay_ms=-1)
        consumer.nack(list(found.values()), reason="no", delay_ms=60_000)
    info = client.describe_group("orders", "workers")
    assert (info.acked_total, info.delayed, info.is_paused) == (2, 2, False)


def test_a_stale_lease_is_refused(client, servers):
    client.produce("orders", b"a")
    with (
        client.queue("orders", group="workers", visibility_ms=100, lease_ms_max=1) as consumer,
        client.queue("orders", group="workers") as other,
    ):
        (message,) = consumer.poll()
        (again,) = other.poll(wait_ms=20_000)
        assert again.attempt == 2
        with pytest.raises(LeaseExpiredError, match="offset 0 of partition 0 of orders"):
            message.ack()
        with pytest.raises(LeaseExpiredError):
            message.extend(1_000)
        again.ack()


def test_errors_of_acks_in_the_background_surface(client):
    client.produce_many("orders", many(2))
    with client.queue("orders", group="other", visibility_ms=100, lease_ms_max=1) as consumer:
        messages = consumer.poll()
        with client.queue("orders", group="other") as other:
            assert len(other.poll(wait_ms=20_000)) >= 1
            with messages[0]:
                pass
            with pytest.raises(LeaseExpiredError):
                consumer.flush()
        consumer.flush()


def test_leases_are_renewed_while_a_handler_blocks(connect, client, servers):
    client.produce("orders", b"slow")
    consumer = client.queue("orders", group="workers", visibility_ms=400)
    (message,) = consumer.poll()
    if isinstance(message._target, tuple) and hasattr(message._target, "__enter__"):
        # The blocking client: nothing of the caller's runs meanwhile.
        until(lambda: servers.cluster.count(Extend) >= 3)
    else:
        while servers.cluster.count(Extend) < 3:
            consumer.poll(wait_ms=50)
    message.ack()
    info = client.describe_group("orders", "workers")
    assert (info.acked_total, info.failed_total) == (1, 0)


def test_at_most_once(client):
    client.produce_many("orders", many(3))
    with client.queue("orders", group="workers", ack_mode="auto") as consumer:
        messages = consumer.poll()
        assert all(message.is_settled for message in messages)
        with messages[0]:
            pass
        messages[1].ack()
    assert client.describe_group("orders", "workers").acked_total == 3


def test_at_most_once_an_iteration_gets_what_was_sent_before_the_close(client):
    client.produce_many("orders", many(100))
    consumer = client.queue("orders", group="workers", ack_mode="auto", prefetch=8)
    found = consumer.take(1)
    consumer.close()
    info = client.describe_group("orders", "workers")
    found += consumer.take(info.acked_total - 1)
    assert payloads(found) == many(info.acked_total)
    assert 8 <= info.acked_total < 100
    assert info.members == []
    with pytest.raises(ConnectionClosedError):
        consumer.take(1)


def test_a_consumer_that_is_closed_says_so(client):
    consumer = client.queue("orders", group="workers")
    consumer.close()
    consumer.close()
    with pytest.raises(Exception, match="closed"):
        consumer.poll()
    with pytest.raises(Exception, match="closed"):
        consumer.take(1)


def test_closing_the_client_gives_back_what_is_held(connect, client):
    client.produce_many("orders", many(3))
    second = connect()
    consumer = second.queue("orders", group="workers")
    assert len(consumer.poll()) == 3
    second.close()
    info = client.describe_group("orders", "workers")
    assert (info.leased, info.ready) == (0, 3)


def test_closing_without_an_answer_says_that_nothing_is_known(connect, client, servers):
    client.produce("orders", b"a")
    consumer = client.queue("orders", group="workers")
    (message,) = consumer.poll()
    servers.cluster.fault = lambda node, request: UnavailableError("no") if isinstance(request, Settle) else None
    message.ack(wait=False)
    with pytest.raises(OutcomeUnknownError):
        consumer.close(timeout_ms=50)
    servers.cluster.fault = lambda node, request: None


def test_several_partitions_and_leaders(client, servers):
    servers.cluster.create("wide", 4)
    for number in range(4):
        client.produce_many("wide", many(25, first=25 * number), partition=number)
    with client.queue("wide", group="workers", prefetch=10) as consumer:
        found = []
        for _ in range(100):
            (message,) = consumer.take(1)
            with message:
                found.append(message.payload)
        consumer.flush()
    assert sorted(found, key=int) == many(100)
    polls = [request for _, request in servers.cluster.requests if isinstance(request, Poll)]
    assert max(len(request.partitions) for request in polls) == 2


def test_a_consumer_of_some_partitions_only(client, servers):
    servers.cluster.create("wide", 2)
    client.produce("wide", b"one", partition=1)
    client.produce("wide", b"zero", partition=0)
    with client.queue("wide", group="workers", partitions=[1]) as consumer:
        assert payloads(consumer.poll()) == [b"one"]
        assert consumer.poll(wait_ms=10) == []
    with pytest.raises(InvalidArgumentError):
        client.queue("wide", group="workers", partitions=[7]).poll(wait_ms=0)


def test_a_leader_that_moves(client, servers):
    client.produce_many("orders", many(4))
    with client.queue("orders", group="workers") as consumer:
        messages = consumer.poll(2)
        servers.cluster.move("orders", 0, 2)
        consumer.ack(messages)
        assert payloads(consumer.poll(wait_ms=20_000)) == many(2, first=2)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, 3),
        ({"start": "latest"}, 0),
        ({"start": 1}, 2),
        ({"start": datetime(2001, 1, 1, tzinfo=UTC)}, 3),
        ({"timestamp_ms": 2**50}, 0),
    ],
)
def test_where_a_group_begins(client, settings, found):
    client.produce_many("orders", many(3))
    with client.queue("orders", group="workers", **settings) as consumer:
        assert len(consumer.poll(wait_ms=0)) == found


@pytest.mark.parametrize(
    "settings",
    [
        {"group": ""},
        {"group": "g", "start": -1},
        {"group": "g", "start": datetime(2001, 1, 1)},  # noqa: DTZ001 - that is the point.
        {"group": "g", "start": "earliest", "timestamp_ms": 5},
        {"group": "g", "ack_mode": "sometimes"},
        {"group": "g", "ordered": "please"},
        {"group": "g", "prefetch": 0},
        {"group": "g", "visibility_ms": 0},
    ],
)
def test_invalid_settings_are_refused(client, settings):
    with pytest.raises(InvalidArgumentError):
        client.queue("orders", **settings)


# Groups.


def test_the_first_settlement_counts_also_when_none_is_awaited(client):
    client.produce_many("orders", many(4))
    with client.queue("orders", group="workers") as consumer:
        one, two, three, four = consumer.poll()
        for message in (two, four):
            message.reject(reason="no good", wait=False)
        consumer.ack([one, two, three, four], wait=False)
        consumer.flush()
        described = client.describe_group("orders", "workers")
        assert (described.acked_total, described.dead_total) == (2, 2)
        assert all(message.is_settled for message in (one, two, three, four))


def test_groups_are_listed_described_reset_paused_and_deleted(client):
    client.produce_many("orders", many(5))
    assert client.groups("orders") == {}
    with client.queue("orders", group="workers") as consumer:
        consumer.ack(consumer.poll(3))
        assert client.describe_group("orders", "workers").members[0].name == consumer.member
    assert client.groups("orders") == {"workers": "queue"}
    moved = client.reset_group("orders", "workers", 1, dry_run=True)
    assert (moved[0].from_offset, moved[0].to_offset) == (3, 1)
    assert client.describe_group("orders", "workers").partitions[0].floor == 3
    client.reset_group("orders", "workers", "earliest")
    assert client.describe_group("orders", "workers").lag == 5
    assert client.pause_group("orders", "workers") == {"paused": "1"}
    with client.queue("orders", group="workers") as consumer:
        assert consumer.poll(wait_ms=10) == []
        assert client.describe_group("orders", "workers").is_paused
        client.resume_group("orders", "workers")
        assert payloads(consumer.poll(wait_ms=20_000)) == many(5)
    assert client.alter_group("orders", "workers", max_deliveries=9)["max_deliveries"] == "9"
    client.delete_group("orders", "workers")
    with pytest.raises(NotFoundError):
        client.describe_group("orders", "workers")
    with pytest.raises(NotFoundError):
        client.delete_group("orders", "workers")


def test_a_deleted_group_takes_its_settings_with_it(client):
    client.produce_many("orders", many(2))
    with client.queue("orders", group="workers") as consumer:
        consumer.ack(consumer.poll(1))
    client.alter_group("orders", "other", paused=1)
    client.alter_group("orders", "workers", paused=1, max_deliveries=9)
    client.delete_group("orders", "workers")
    assert client.alter_group("orders", "workers") == {}
    assert client.alter_group("orders", "other") == {"paused": "1"}
    with client.queue("orders", group="workers") as consumer:
        assert payloads(consumer.poll(wait_ms=20_000)) == many(2)
    # One that was only set up is there to be deleted, too; and so is what an interrupted deletion has left.
    client.delete_group("orders", "other")
    assert client.alter_group("orders", "other") == {}
    with pytest.raises(NotFoundError):
        client.delete_group("orders", "other")


def test_cancelled_messages_are_not_delivered(client):
    client.produce_many("orders", many(3))
    client.produce("orders", b"keyed", idempotency_key="order-42")
    assert client.cancel("orders", 0, offset=1) == [(0, 1)]
    assert client.cancel("orders", idempotency_key="order-42") == [(0, 3)]
    assert client.cancel("orders", idempotency_key="unknown") == []
    with client.queue("orders", group="workers") as consumer:
        assert payloads(consumer.poll()) == [b"0", b"2"]
    for wrong in ({}, {"offset": 1}, {"offset": 1, "idempotency_key": "x", "partition": 0}):
        with pytest.raises(InvalidArgumentError):
            client.cancel("orders", **wrong)


def test_looking_changes_nothing(client):
    client.produce_many("orders", many(30))
    with client.queue("orders", group="workers") as consumer:
        (message,) = consumer.poll(1)
        before = client.describe_group("orders", "workers")
        assert payloads(client.peek("orders", max_messages=3)) == many(3)
        assert payloads(client.peek("orders", 0, offset=28)) == many(2, first=28)
        assert client.peek("orders", 0, offset=99) == []
        explained = client.explain("orders", "workers", 0, message.offset)
        assert (explained.state, explained.holder) == ("leased", consumer.member)
        assert client.explain("orders", "workers", 0, 7).state == "ready"
        after = client.describe_group("orders", "workers")
        assert (before.ready, before.leased, before.failed_total) == (after.ready, after.leased, after.failed_total)


# Dead letters.


def kill(client: Shell, servers: TcpServers, *records: tuple[bytes, dict[str, object]]) -> Shell:
    """Has messages rejected, each with its payload as the reason."""
    for payload, fields in records:
        client.produce("orders", payload, **fields)
    with client.queue("orders", group="workers") as consumer:
        for message in consumer.poll(100):
            message.reject(reason=f"bad {message.payload.decode()}")
    letters = client.dead_letters("orders", "workers")
    until(lambda: len(letters.list()) == len(records))
    return letters


def test_dead_letters_are_listed_and_looked_at(client, servers):
    assert client.dead_letters("orders", "workers").list() == []
    letters = kill(client, servers, (b"a", {"key": b"k", "headers": {"mine": b"1"}}), (b"b", {}))
    first, second = letters.list()
    assert (first.payload, first.key, first.headers) == (b"a", b"k", (("mine", b"1"),))
    assert (first.reason, first.attempts, first.topic, first.origin_partition) == ("bad a", 1, "orders", 0)
    assert [letter.payload for letter in letters.list(reason="bad b")] == [b"b"]
    assert [letter.payload for letter in letters.list(reason=re.compile("^bad [b-z]"))] == [b"b"]
    assert [letter.payload for letter in letters.list(key=b"k")] == [b"a"]
    assert [letter.payload for letter in letters.list(offset=1)] == [b"b"]
    assert letters.list(until_ms=1) == []
    assert letters.list(1) == [first]
    assert letters.peek(0, second.offset) == second
    with pytest.raises(NotFoundError):
        letters.peek(0, 99)


def test_redrive_sends_again_what_is_meant_and_leaves_the_rest(client, servers):
    letters = kill(client, servers, (b"a", {"key": b"k", "headers": {"mine": b"1"}, "priority": 3}), (b"b", {}))
    assert letters.redrive(dry_run=True).done == 2
    progress = []
    result = letters.redrive(reason="bad a", progress=lambda so_far: progress.append(so_far.done))
    assert (result.done, result.refused, result.skipped, progress) == (1, 0, 1, [1])
    assert [letter.payload for letter in letters.list()] == [b"b"]
    with client.queue("orders", group="workers") as consumer:
        (again,) = consumer.poll()
        assert (again.payload, again.key, again.priority, again.attempt) == (b"a", b"k", 3, 1)
        assert again.headers == (("mine", b"1"),)
        again.ack()
    assert letters.redrive(rate_per_second=1_000, limit=5).done == 1
    assert letters.list() == []


def test_a_redrive_keeps_the_messages_it_skips_leased_no_longer_than_needed(client, servers, monkeypatch):
    letters = kill(client, servers, (b"a", {}), (b"b", {}))
    asked = []
    consumer = AsyncClient.queue

    def noted(self, topic, **settings):
        asked.append(settings.get("lease_ms_max"))
        return consumer(self, topic, **settings)

    monkeypatch.setattr(AsyncClient, "queue", noted)
    began = time.monotonic()
    assert letters.redrive(reason="bad b", rate_per_second=0.01, limit=1).done == 1
    # It does not wait for a next one with the first in its hands.
    assert time.monotonic() - began < 60
    assert asked == [12 * 3_600_000]
    assert client.explain(letters.topic, "flotilla.redrive", 0, 0).state == "ready"


def test_a_message_is_not_sent_round_in_a_circle(client, servers):
    letters = kill(client, servers, (b"a", {"headers": {"flotilla-redriven": b"3"}}))
    result = letters.redrive()
    assert (result.done, result.refused) == (0, 1)
    assert len(letters.list()) == 1
    assert letters.redrive(force=True).done == 1


def test_an_interrupted_redrive_stores_nothing_twice(client, servers):
    letters = kill(client, servers, (b"a", {}))
    servers.cluster.fault = lambda node, request: (
        InvalidArgumentError("no") if isinstance(request, Settle) and request.topic.startswith("dlq.") else None
    )
    with pytest.raises(InvalidArgumentError):
        letters.redrive()
    servers.cluster.fault = lambda node, request: None
    # Its lease stays until it expires: the group is reset to begin again.
    client.reset_group(letters.topic, "flotilla.redrive")
    assert letters.redrive().done == 1
    assert servers.cluster.stored("orders") == [b"a", b"a"]


def test_purge_throws_away(client, servers):
    letters = kill(client, servers, (b"a", {}), (b"b", {}))
    assert letters.purge(reason="bad a", dry_run=True).done == 1
    assert letters.purge(reason="bad a").done == 1
    assert [letter.payload for letter in letters.list()] == [b"b"]
    with client.queue("orders", group="workers") as consumer:
        assert consumer.poll(wait_ms=10) == []
    with pytest.raises(InvalidArgumentError):
        letters.purge(limit=-1)
    with pytest.raises(InvalidArgumentError):
        letters.redrive(rate_per_second=0)


# Producing.


def test_an_idempotency_key_is_stored_once(client, servers):
    servers.cluster.create("wide", 3)
    first = client.produce("wide", b"a", idempotency_key="order-42")
    again = client.produce("wide", b"a", idempotency_key="order-42")
    assert again == first._replace(duplicate=True)
    with client.producer("wide", linger_ms=50) as producer:
        sent = [producer.send(b"x", idempotency_key=key) for key in ("order-43", "order-42", "order-43", "order-44")]
    receipts = [delivery.result() for delivery in sent]
    assert [receipt.duplicate for receipt in receipts] == [False, True, True, False]
    assert receipts[0][:2] == receipts[2][:2]
    assert receipts[1] == again
    assert len(servers.cluster.stored("wide")) == 3


def test_records_can_wait_for_a_moment(client):
    moment = datetime.now(UTC) + timedelta(days=100)
    assert client.produce("orders", b"later", deliver_at=moment) == Receipt(0, 0, topic="orders", topic_id=1)
    client.produce("orders", b"past", deliver_at=1_000)
    client.produce("orders", b"soon", delay_ms=20)
    with client.queue("orders", group="workers") as consumer:
        found = []
        while len(found) < 2:
            messages = consumer.poll()
            consumer.ack(messages)
            found += messages
        assert payloads(found) == [b"past", b"soon"]
        assert found[0].deliver_at_ms == 1_000
    assert client.explain("orders", "workers", 0, 0).state == "delayed"
    for wrong in ({"deliver_at": datetime(2100, 1, 1)}, {"deliver_at": 5, "delay_ms": 5}):  # noqa: DTZ001
        with pytest.raises(InvalidArgumentError):
            client.produce("orders", b"x", **wrong)
