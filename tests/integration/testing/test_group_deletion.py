"""Deleting a group: refused while members are alive, and not for those that were closed or are long silent."""

import asyncio
from collections.abc import Iterator

import pytest

from flotilla import Client, GroupInUseError, LeaseExpiredError, NotFoundError
from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def test_live_members_are_counted_and_nothing_is_deleted(broker: LocalBroker, client: Client) -> None:
    client.create_topic("busy", partitions=3)
    client.alter_group("busy", "g", rate_limit_per_minute=6_000)
    client.produce("busy", b"done", partition=0)
    client.produce("busy", b"held", partition=2)
    with broker.client() as other, client.queue("busy", group="g") as one, other.queue("busy", group="g") as two:
        first, second = one.poll(1), two.poll(1)
        done = next(message for message in first + second if message.payload == b"done")
        done.ack()
        with pytest.raises(GroupInUseError, match=r"^group 'g' has 2 live members, to leave first: ") as refused:
            client.delete_group("busy", "g")
        assert one.member in str(refused.value)
        assert two.member in str(refused.value)
        two.close()
        with pytest.raises(GroupInUseError, match="has one live member"):
            client.delete_group("busy", "g")
        assert client.describe_group("busy", "g").lag == 1
        assert client.alter_group("busy", "g") == {"rate_limit_per_minute": "6000"}


def test_a_group_is_deleted_right_after_its_consumers_were_closed(broker: LocalBroker, client: Client) -> None:
    client.create_topic("quiet", partitions=4)
    for _ in range(5):
        with client.queue("quiet", group="g") as consumer:
            # Right after the creation of a topic its partitions may have no leaders.
            eventually(lambda consumer=consumer: consumer.poll(wait_ms=0) == [] and "g" in client.groups("quiet"))
        client.delete_group("quiet", "g")
    # One that iterates has polls waiting at the broker, and messages in hand.
    for number in range(4):
        client.produce("quiet", b"%d" % number, partition=number)
    with broker.client() as other:
        consumer = other.queue("quiet", group="g")
        next(consumer)
        consumer.close()
        assert client.describe_group("quiet", "g").member_count == 0
        client.delete_group("quiet", "g")
    with client.queue("quiet", group="g") as consumer:
        messages = [next(consumer) for _ in range(4)]
        assert {message.attempt for message in messages} == {1}


def test_a_coroutine_consumer_leaves_as_well(broker: LocalBroker) -> None:
    async def work() -> None:
        async with broker.async_client() as client:
            await client.produce("async", b"x")
            async with client.queue("async", group="g") as consumer:
                await consumer.poll()
                with pytest.raises(GroupInUseError):
                    await client.delete_group("async", "g")
            await client.delete_group("async", "g")

    asyncio.run(work())


def test_what_a_closed_consumer_held_comes_at_once_and_uncounted(broker: LocalBroker, client: Client) -> None:
    client.produce("held", b"x")
    with client.queue("held", group="g") as consumer:
        assert len(consumer.poll()) == 1
    with client.queue("held", group="g") as consumer:
        (message,) = consumer.poll()
        assert message.attempt == 1


def test_force_deletes_under_live_members(broker: LocalBroker, client: Client) -> None:
    client.produce("forced", b"x")
    with client.queue("forced", group="g") as consumer:
        (message,) = consumer.poll()
        message.ack()
        client.delete_group("forced", "g", force=True)
        with pytest.raises(NotFoundError):
            client.describe_group("forced", "g")
        # A member that goes on finds the group anew.
        (message,) = consumer.poll()
        assert message.payload == b"x"


def test_what_was_leased_before_the_deletion_settles_nothing_of_the_next_group(
    broker: LocalBroker, client: Client
) -> None:
    client.produce("lives", b"x")
    with broker.client() as other, client.queue("lives", group="g") as one, other.queue("lives", group="g") as two:
        (old,) = one.poll()
        client.delete_group("lives", "g", force=True)
        (new,) = two.poll()
        for settle in (old.ack, old.nack, old.reject, lambda: old.extend(1_000)):
            with pytest.raises(LeaseExpiredError):
                settle()
        new.ack()
        assert client.describe_group("lives", "g").acked_total == 1


def test_a_silent_member_without_leases_is_live_for_half_a_minute(broker: LocalBroker, client: Client) -> None:
    client.create_topic("silent")
    with client.queue("silent", group="g") as consumer:
        eventually(lambda: consumer.poll(wait_ms=0) == [] and "g" in client.groups("silent"))
        broker.advance(seconds=29)
        with pytest.raises(GroupInUseError):
            client.delete_group("silent", "g")
        broker.advance(seconds=1)
        client.delete_group("silent", "g")


def test_a_lost_member_is_live_until_it_has_had_time_to_come_back(broker: LocalBroker, client: Client) -> None:
    client.produce("lost", b"x")
    with broker.client() as other:
        consumer = other.queue("lost", group="g")
        assert len(consumer.poll()) == 1
        # As if its process was killed: the connection ends, and nobody says why.
        thread, network = other._opened()
        thread.run(network.close())
        with pytest.raises(GroupInUseError):
            client.delete_group("lost", "g")
        broker.advance(seconds=2)
        eventually(lambda: client.describe_group("lost", "g").member_count == 0)
    with client.queue("lost", group="g") as consumer:
        (message,) = consumer.poll()
        assert message.attempt == 1, "a lost connection is no failed attempt"
        message.ack()
    client.delete_group("lost", "g")


def test_a_stream_group_is_deleted_by_force_and_founded_anew(broker: LocalBroker, client: Client) -> None:
    for _ in range(3):
        client.produce("stream", b"x")
    with client.stream("stream", group="g") as consumer:
        assert len(consumer.poll(3)) == 3
        consumer.commit()
        with pytest.raises(GroupInUseError, match="has one live member"):
            client.delete_group("stream", "g")
        client.delete_group("stream", "g", force=True)
        eventually(lambda: bool(client.groups("stream")))
        found: list[bytes] = []

        def is_read_again() -> bool:
            found.extend([message.payload for message in consumer.poll(3, wait_ms=500)])
            return len(found) >= 3

        eventually(is_read_again)
