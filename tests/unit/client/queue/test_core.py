"""The core of a queue consumer against the real queue engine: polls, leases and failover."""

import pytest

from flotilla.client.queue.outcome import RELEASED
from flotilla.types.errors import (
    FlotillaError,
    LeaseExpiredError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
)
from flotilla.types.operations import LATEST, AlterTopic
from flotilla.types.operations.queue import (
    ACK,
    FROM_OFFSET,
    Extend,
    LeaseRange,
    Poll,
    Polled,
    ResetGroup,
    Settle,
    Start,
)
from flotilla.types.timing import Timing
from tests.unit.client.queue_world import QueueWorld, payloads


def many(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


# Polling.


def test_a_poll_brings_messages_with_everything_they_have():
    world = QueueWorld()
    world.produce(b"a", b"b", key=b"k", headers=(("h", b"v"),), priority=3, timestamp_ms=7)
    consumer = world.consumer()
    first, second = consumer.poll()
    assert (first.payload, first.key, first.headers, first.timestamp_ms) == (b"a", b"k", (("h", b"v"),), 7)
    assert (first.topic, first.partition, first.offset, first.attempt, first.priority) == ("orders", 0, 0, 1, 3)
    assert (second.offset, second.is_settled) == (1, False)
    assert consumer.reader.leases.unsettled_count == 2


def test_an_acknowledged_message_never_comes_again():
    world = QueueWorld()
    world.produce(*many(10))
    consumer = world.consumer()
    assert consumer.ack(consumer.poll(6)) is None
    assert payloads(consumer.poll(10)) == many(4, first=6)
    assert world.describe().acked_total == 6
    assert world.requests(Settle)[0].leases[0][1:] == (0, 6)


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (Start(), many(3)),
        (Start(LATEST), []),
        (Start(FROM_OFFSET, 2), many(1, first=2)),
    ],
)
def test_a_new_group_begins_at_its_start_option(start, found):
    world = QueueWorld()
    world.produce(*many(3))
    assert payloads(world.consumer(start=start).poll()) == found


def test_a_poll_waits_for_the_first_message():
    world = QueueWorld()
    consumer = world.consumer()
    consumer.reader.want(16, world.now_ms + 60_000, world.now_ms)
    world.pass_ms(12_000)
    assert not consumer.reader.ready
    # Parked for five seconds at a time, not asking all the time.
    assert len(world.requests(Poll)) == 3
    world.produce(b"late")
    world.run()
    assert payloads(consumer.reader.take(16)) == [b"late"]


def test_a_poll_that_does_not_wait_asks_every_leader_once():
    world = QueueWorld(nodes=3, partitions=3)
    world.produce(b"there", partition=2)
    consumer = world.consumer()
    assert payloads(consumer.poll(wait_ms=0)) == [b"there"]
    assert consumer.poll(wait_ms=0) == []
    assert not consumer.reader.is_searching
    assert len(world.requests(Poll)) <= 6
    assert {request.wait_ms for request in world.requests(Poll)} == {0}


def test_leaders_are_asked_in_turn():
    world = QueueWorld(nodes=3, partitions=3)
    for number in range(3):
        world.produce(*many(10), partition=number)
    consumer = world.consumer()
    found = [consumer.poll(2)[0].partition for _ in range(6)]
    assert sorted(found) == [0, 0, 1, 1, 2, 2]


def test_leaders_that_had_nothing_are_polled_last_for_a_moment():
    world = QueueWorld(nodes=3, partitions=3)
    world.produce(*many(40), partition=1)
    consumer = world.consumer()
    consumer.poll(1)
    before = len(world.requests(Poll))
    for _ in range(12):
        assert len(consumer.poll(1)) == 1
    # Each of the other two once more at the most.
    assert len(world.requests(Poll)) - before <= 12 + 2
    world.produce(b"cold", partition=2)
    world.pass_ms(100)
    assert b"cold" in payloads([*consumer.poll(1), *consumer.poll(1), *consumer.poll(1)])


def test_a_topic_without_a_leader_for_long_is_an_outage():
    world = QueueWorld(nodes=3)
    consumer = world.consumer(timeout_ms=4_000)
    assert consumer.poll() == []
    for node in (1, 2):
        world.cluster.fleet.kill(node)
        world.stop(node)
    consumer.flow()
    world.pass_ms(20_000)
    assert {type(error) for error in consumer.reader.errors} == {UnavailableError}


def test_one_poll_goes_to_a_leader_for_all_its_partitions():
    world = QueueWorld(nodes=2, partitions=4)
    consumer = world.consumer()
    consumer.reader.want(5, world.now_ms + 1_000, world.now_ms)
    world.run()
    parked = [request for request in world.requests(Poll) if request.wait_ms]
    assert sorted(request.partitions for request in parked) == [[0, 2], [1, 3]]


def test_surplus_messages_are_kept_for_the_next_poll():
    world = QueueWorld(nodes=2, partitions=2)
    consumer = world.consumer()
    consumer.reader.want(1, world.now_ms + 5_000, world.now_ms)
    world.run()
    world.produce(b"a", partition=0)
    world.produce(b"b", partition=1)
    world.run()
    assert len(consumer.reader.ready) == 2
    polls = len(world.requests(Poll))
    assert sorted(payloads(consumer.poll(1) + consumer.poll(1))) == [b"a", b"b"]
    assert len(world.requests(Poll)) <= polls + 4


def test_untaken_messages_are_released_when_half_of_their_lease_is_over():
    world = QueueWorld(visibility_ms="10s")
    world.produce(*many(4))
    consumer = world.consumer()
    consumer.reader.want(4, world.now_ms + 100, world.now_ms)
    world.run()
    taken = consumer.reader.take(1)
    world.pass_ms(5_500)
    assert payloads(taken) == [b"0"]
    assert world.describe().leased == 1
    other = world.consumer("two")
    assert [(message.payload, message.attempt) for message in other.poll(16)] == [(b"1", 1), (b"2", 1), (b"3", 1)]


@pytest.mark.parametrize("is_unsure", [False, True])
def test_untaken_messages_whose_release_fails_come_again(is_unsure):
    """Nobody has them any more, so nobody renews their leases."""
    world = QueueWorld(visibility_ms="2s", nack_backoff_ms="1ms")
    world.produce(*many(4))
    consumer = world.consumer(timeout_ms=500)
    consumer.reader.want(4, world.now_ms + 100, world.now_ms)
    world.run()
    world.cluster.fault = lambda node, request: _refusal(is_unsure) if isinstance(request, Settle) else None
    world.pass_ms(2_500)
    assert world.requests(Settle)
    world.pass_ms(2_000)
    assert len(world.consumer("two").poll(16)) == 4
    assert consumer.reader.leases.unsettled_count == 0


def _refusal(is_unsure: bool) -> FlotillaError:
    return OutcomeUnknownError("perhaps") if is_unsure else UnavailableError("no")


# Iterating.


def test_iterating_keeps_as_many_messages_as_there_are_slots():
    world = QueueWorld()
    world.produce(*many(100))
    consumer = world.consumer(prefetch=8)
    consumer.flow()
    assert len(consumer.reader.ready) == 8
    handled = consumer.reader.take(3)
    consumer.ack(handled)
    # Five are here: not worth a request yet.
    assert consumer.reader.leases.unsettled_count == 5
    consumer.ack(consumer.reader.take(1))
    assert consumer.reader.leases.unsettled_count == 8
    assert world.describe().leased == 8


@pytest.mark.parametrize("prefetch", [1, 8])
def test_a_poll_of_an_iterating_consumer_ends_when_nothing_comes(prefetch):
    world = QueueWorld(nodes=3, partitions=3)
    for number in range(3):
        world.produce(b"there", partition=number)
    consumer = world.consumer(prefetch=prefetch)
    held = consumer.poll(1)
    consumer.flow()
    held += consumer.reader.take(2)
    for _ in range(2):
        assert consumer.poll(wait_ms=0) == []
        world.pass_ms(1_000)
        assert not consumer.reader.is_searching


def test_a_slow_handler_blocks_one_slot_only():
    world = QueueWorld()
    world.produce(*many(100))
    consumer = world.consumer(prefetch=4)
    consumer.flow()
    slow, *quick = consumer.reader.take(4)
    done = []
    while quick:
        consumer.ack(quick)
        done += payloads(quick)
        quick = consumer.reader.take(3)
    assert done == many(99, first=1)
    assert not slow.is_settled
    assert consumer.ack([slow]) is None


def test_slots_that_all_handlers_but_slow_ones_have_are_filled():
    """With more than half of the slots blocked, the others still get their messages."""
    world = QueueWorld()
    world.produce(*many(40))
    consumer = world.consumer(prefetch=4)
    consumer.flow()
    *slow, quick = consumer.reader.take(4)
    assert len(slow) == 3
    for _ in range(10):
        consumer.ack([quick])
        (quick,) = consumer.reader.take(4)


def test_leaders_that_have_nothing_hold_no_slot_of_the_others():
    world = QueueWorld(nodes=3, partitions=3)
    world.produce(*many(20), partition=1)
    consumer = world.consumer(prefetch=2)
    consumer.flow()
    slow, *_ = consumer.reader.take(1)
    found = []
    for _ in range(19):
        consumer.pump()
        (quick,) = consumer.reader.take(1)
        consumer.ack([quick])
        found.append(quick.payload)
    assert len(set(found) | {slow.payload}) == 20


def test_without_push_nothing_is_asked_for_ahead():
    world = QueueWorld()
    world.produce(*many(10))
    consumer = world.consumer(prefetch=4, is_push=False)
    consumer.flow()
    consumer.ack(consumer.reader.take(3))
    assert world.describe().leased == 1
    consumer.ack(consumer.reader.take(1))
    assert len(consumer.reader.ready) == 4


def test_credit_is_shared_among_leaders():
    world = QueueWorld(nodes=3, partitions=3)
    for number in range(3):
        world.produce(*many(50), partition=number)
    consumer = world.consumer(prefetch=9)
    consumer.flow()
    assert consumer.reader.leases.unsettled_count == 9
    assert sorted({message.partition for message in consumer.reader.ready}) == [0, 1, 2]


def test_delayed_messages_are_not_prefetched():
    world = QueueWorld()
    world.produce(b"later", deliver_at_ms=world.now_ms + 20_000)
    world.produce(b"now")
    consumer = world.consumer(prefetch=8)
    consumer.flow()
    assert payloads(consumer.reader.take(8)) == [b"now"]
    world.pass_ms(19_900)
    assert not consumer.reader.ready
    world.pass_ms(200)
    assert payloads(consumer.reader.take(8)) == [b"later"]


def test_auto_ack_leaves_nothing_to_settle():
    world = QueueWorld()
    world.produce(*many(10))
    consumer = world.consumer(prefetch=4, is_auto_ack=True)
    consumer.flow()
    found = []
    while taken := consumer.reader.take(1):
        assert taken[0].is_settled
        found += taken
        consumer.pump()
    assert payloads(found) == many(10)
    assert consumer.reader.leases.unsettled_count == 0
    assert world.describe().acked_total == 10
    assert not world.requests(Settle)


# Renewals.


def test_leases_are_renewed_while_a_handler_runs_up_to_a_bound():
    world = QueueWorld(visibility_ms="2s", nack_backoff_ms="1ms")
    world.produce(*many(3))
    consumer = world.consumer(lease_ms_max=10_000)
    messages = consumer.poll()
    other = world.consumer("two")
    world.pass_ms(9_000)
    assert other.poll() == []
    # One request renews everything that a poll brought.
    assert 5 <= len(world.requests(Extend)) <= 10
    assert [run[1:] for run in world.requests(Extend)[0].leases] == [(0, 3)]
    assert consumer.ack(messages[:1]) is None
    world.pass_ms(5_000)
    assert [(message.offset, message.attempt) for message in other.poll()] == [(1, 2), (2, 2)]


def test_a_lease_extended_by_hand_is_not_shortened_by_renewals():
    world = QueueWorld(visibility_ms="2s", nack_backoff_ms="1ms")
    world.produce(*many(2))
    consumer = world.consumer(lease_ms_max=4_000)
    first, second = consumer.poll()
    results = []
    consumer.reader.extend(first._lease, first._lease.bit(first.offset), 60_000, results.append)
    world.run()
    assert results == [None]
    world.pass_ms(20_000)
    assert [message.offset for message in world.consumer("two").poll()] == [second.offset]
    assert consumer.ack([first]) is None
    consumer.reader.extend(second._lease, second._lease.bit(second.offset), 1_000, results.append)
    world.run()
    assert isinstance(results[-1], LeaseExpiredError)


def test_a_lease_that_was_lost_is_not_renewed_for_ever():
    world = QueueWorld(visibility_ms="2s")
    world.produce(b"a")
    consumer = world.consumer()
    (message,) = consumer.poll()
    world.cluster.answer("orders", 0, ResetGroup("orders", 0, "workers", Start()))
    world.pass_ms(5_000)
    assert message.is_settled
    assert isinstance(consumer.ack([message]), LeaseExpiredError)


# Failover.


@pytest.mark.parametrize("is_asking", [False, True])
def test_leases_are_presented_to_a_new_leader(is_asking):
    """Also by a consumer that asks for nothing at the moment, whose connection to the old leader breaks."""
    world = QueueWorld(nodes=3, nack_backoff_ms="1ms")
    world.produce(*many(5))
    consumer = world.consumer()
    messages = consumer.poll(3)
    if is_asking:
        consumer.ack(consumer.poll(16))
        consumer.reader.want(16, world.now_ms + 60_000, world.now_ms)
        world.run()
    world.kill(1)
    world.pass_ms(1_500)
    extends = [(node, request) for node, request in world.cluster.requests if isinstance(request, Extend)]
    assert extends[0][0] == world.cluster.leader("orders").node
    assert [run[1:] for run in extends[0][1].leases] == [(0, 3)]
    # After the grace period of the new leader no other consumer gets them.
    world.pass_ms(5_000)
    other = world.consumer("two")
    assert payloads(other.poll()) == ([] if is_asking else many(2, first=3))
    assert consumer.ack(messages) is None
    assert world.describe().failed_total == 0


def test_a_leader_that_hands_over_is_followed():
    world = QueueWorld(nodes=2)
    world.produce(*many(3))
    consumer = world.consumer()
    messages = consumer.poll(2)
    world.cluster.move("orders", 0, 2)
    assert consumer.ack(messages[:1]) is None
    world.run()
    # The ack was redirected, which makes the consumer present its leases.
    extends = [(node, request) for node, request in world.cluster.requests if isinstance(request, Extend)]
    assert [(node, request.presented_term) for node, request in extends] == [(2, 0), (2, world.cluster.term("orders"))]
    world.pass_ms(3_000)
    assert payloads(world.consumer("two").poll()) == [b"2"]


def test_a_parked_poll_reports_that_its_leader_hands_over():
    world = QueueWorld(nodes=2)
    world.produce(*many(3))
    consumer = world.consumer()
    held = consumer.poll()
    consumer.reader.want(16, world.now_ms + 60_000, world.now_ms)
    world.run()
    world.cluster.move("orders", 0, 2)
    world.pass_ms(100)
    assert payloads(held) == many(3)
    extends = [(node, request.leases[0][1:]) for node, request in world.cluster.requests if isinstance(request, Extend)]
    assert extends == [(2, (0, 3))] * 2, "the second is the promise"


def test_a_partition_in_trouble_does_not_hold_up_others_of_its_leader():
    world = QueueWorld(nodes=1, partitions=3)
    world.cluster.fault = lambda node, request: (
        UnavailableError("handing over") if isinstance(request, Poll) and 2 in request.partitions else None
    )
    consumer = world.consumer(prefetch=4)
    consumer.flow()
    world.pass_ms(1_000)
    for number in range(10):
        world.produce(b"%d" % number, partition=number % 2)
        world.run()
        taken = consumer.reader.take(4)
        assert payloads(taken) == [b"%d" % number]
        consumer.ack(taken)
        world.pass_ms(300)


def test_a_parked_poll_follows_its_partition():
    world = QueueWorld(nodes=2, partitions=2)
    consumer = world.consumer()
    consumer.reader.want(16, world.now_ms + 60_000, world.now_ms)
    world.run()
    world.cluster.move("orders", 0, 2)
    world.produce(b"moved", partition=0)
    world.pass_ms(Timing().grace_ms + 1_000)
    assert payloads(consumer.reader.take(16)) == [b"moved"]


def test_iterating_goes_on_after_every_kind_of_loss():
    """No worker that is alive and consumes nothing after a reconnect."""
    world = QueueWorld(nodes=3, partitions=3)
    consumer = world.consumer(prefetch=8)
    consumer.flow()
    found: list[bytes] = []
    for number in range(12):
        if number % 4 == 1:
            world.cut(1 + number % 3)
        if number % 4 == 2:
            world.cluster.move("orders", number % 3, 1 + (number + 1) % 3)
        if number % 4 == 3:
            world.silent.add(2)
        world.produce(b"%d" % number, partition=number % 3)
        world.pass_ms(1_500)
        world.silent.clear()
        world.pass_ms(1_500)
        taken = consumer.reader.take(16)
        consumer.ack(taken)
        found += payloads(taken)
    world.pass_ms(30_000)
    found += payloads(consumer.reader.take(16))
    assert sorted(set(found), key=int) == many(12)


def test_partitions_that_a_topic_gets_later_are_asked_for():
    world = QueueWorld()
    consumer = world.consumer(prefetch=4)
    consumer.flow()
    world.cluster.fleet.controller().call(AlterTopic("orders", 2))
    world.produce(b"new", partition=1)
    world.pass_ms(20_000)
    assert payloads(consumer.reader.take(4)) == [b"new"]


def test_a_lasting_failure_is_an_error():
    world = QueueWorld()
    consumer = world.consumer()
    world.cluster.fault = lambda node, request: NotFoundError("gone") if isinstance(request, Poll) else None
    consumer.reader.want(16, world.now_ms + 60_000, world.now_ms)
    world.pass_ms(5_000)
    assert isinstance(consumer.reader.errors[0], NotFoundError)


def test_trouble_is_an_error_when_it_lasts_beyond_the_time_limit():
    world = QueueWorld()
    consumer = world.consumer(timeout_ms=3_000)
    world.cluster.fault = lambda node, request: UnavailableError("no quorum") if isinstance(request, Poll) else None
    consumer.reader.want(16, world.now_ms + 60_000, world.now_ms)
    world.pass_ms(2_000)
    assert not consumer.reader.errors
    world.pass_ms(3_000)
    assert isinstance(consumer.reader.errors[0], UnavailableError)
    # Backing off, not asking in a circle.
    assert len(world.requests(Poll)) < 40


def test_a_broker_that_says_nothing_at_once_is_not_asked_in_a_circle():
    world = QueueWorld()
    consumer = world.consumer()
    world.cluster.fault = lambda node, request: Polled([], 30_000) if isinstance(request, Poll) else None
    consumer.reader.want(16, world.now_ms + 10_000, world.now_ms)
    world.pass_ms(5_000)
    assert 5 < len(world.requests(Poll)) < 30


# The end.


def test_closing_releases_untaken_messages_and_keeps_those_in_handlers():
    world = QueueWorld()
    world.produce(*many(8))
    consumer = world.consumer(prefetch=8)
    consumer.flow()
    working = consumer.reader.take(2)
    consumer.reader.stop(world.now_ms)
    world.run()
    assert world.describe().leased == 2
    assert consumer.ack(working[:1]) is None
    consumer.reader.abandon(world.now_ms)
    world.run()
    described = world.describe()
    assert (described.leased, described.acked_total, described.failed_total) == (0, 1, 0)
    assert [message.attempt for message in world.consumer("two").poll()] == [1] * 7


def test_messages_that_arrive_after_the_end_are_released():
    world = QueueWorld()
    consumer = world.consumer()
    consumer.reader.want(16, world.now_ms + 5_000, world.now_ms)
    world.run()
    consumer.reader.abandon(world.now_ms)
    world.produce(b"late")
    world.run()
    assert world.describe().leased == 0
    assert consumer.reader.is_idle
    assert not world.session.watchers
    assert payloads(world.consumer("two").poll()) == [b"late"]


def test_a_delivery_damaged_in_transit_fails_and_is_an_error():
    world = QueueWorld()
    world.produce(b"good")
    handle = world.cluster.handle

    def damaged(node, request, done, *needed):
        def answered(result):
            for delivery in result.deliveries if isinstance(result, Polled) else ():
                delivery.batch = bytes(delivery.batch)[:-1] + b"?"
            done(result)

        return handle(node, request, answered, *needed)

    world.cluster.handle = damaged
    consumer = world.consumer()
    assert consumer.poll() == []
    assert "offset 0" in str(consumer.reader.errors[0])
    assert world.describe().failed_total == 1


def test_unsettled_runs_are_in_order():
    world = QueueWorld()
    world.produce(*many(10))
    consumer = world.consumer()
    messages = consumer.poll(10)
    consumer.ack([message for message in messages if message.offset % 3 == 1])
    (lease,) = consumer.reader.leases
    name = lease.lease_id
    assert list(lease.runs(lease.unsettled)) == [
        LeaseRange(name, 0, 1),
        LeaseRange(name, 2, 4),
        LeaseRange(name, 5, 7),
        LeaseRange(name, 8, 10),
    ]
    assert consumer.ack(messages, RELEASED) is None
    assert [request.kind for request in world.requests(Settle)] == [ACK, 2]
