"""Settlements of a queue consumer: batched, lingering, retried, and their errors."""

from types import NoneType

import pytest

from flotilla.client.queue._settlements import LINGER_COUNT_MAX, LINGER_MS
from flotilla.client.queue.outcome import ACKED, failed, rejected, released
from flotilla.types.errors import DeadlineError, LeaseExpiredError, OutcomeUnknownError, UnavailableError
from flotilla.types.operations.queue import Settle
from tests.unit.client.queue.test_core import many
from tests.unit.client.queue_world import QueueWorld


def acknowledge_unawaited(consumer, messages):
    """One after the other, each in a turn of its own."""
    for message in messages:
        consumer.reader.settle({message._lease: message._lease.bit(message.offset)}, ACKED, None)
        consumer.pump()


# Awaited settlements.


def test_many_acks_of_one_pump_are_one_request_of_few_runs():
    world = QueueWorld()
    world.produce(*many(50))
    world.produce(*many(50))
    consumer = world.consumer()
    messages = consumer.poll(100)
    results = [consumer.settle([message]) for message in reversed(messages) if message.offset != 70]
    assert not world.requests(Settle)
    consumer.pump()
    assert results == [[None]] * 99
    (request,) = world.requests(Settle)
    assert [run[1:] for run in request.leases] == [(0, 70), (71, 100)]
    assert consumer.reader.leases.unsettled_count == 1


def test_settlements_reach_the_group():
    world = QueueWorld(nack_backoff_ms="1s")
    world.produce(*many(4))
    consumer = world.consumer()
    one, two, three, four = consumer.poll()
    results = [
        consumer.settle([one]),
        consumer.settle([two], failed("ValueError: no", 500)),
        consumer.settle([three], released(0)),
        consumer.settle([four], rejected("garbage")),
    ]
    consumer.pump()
    assert results == [[None]] * 4
    described = world.describe()
    assert (described.acked_total, described.failed_total, described.delayed) == (1, 1, 1)
    assert [(message.payload, message.attempt) for message in consumer.poll()] == [(b"2", 1)]
    world.pass_ms(600)
    assert [(message.payload, message.attempt) for message in consumer.poll()] == [(b"1", 2)]
    assert world.cluster.stored("dlq.workers.orders") == [b"3"]


def test_settling_twice_is_settling_once():
    world = QueueWorld()
    world.produce(b"a")
    consumer = world.consumer()
    messages = consumer.poll()
    assert consumer.ack(messages) is None
    assert consumer.ack(messages) is None
    assert consumer.ack(messages, failed("too late", None)) is None
    assert len(world.requests(Settle)) == 1


def test_a_lease_of_another_consumer_is_refused_by_name():
    world = QueueWorld(visibility_ms="1s", nack_backoff_ms="1ms")
    world.produce(*many(3))
    consumer = world.consumer(lease_ms_max=1)
    messages = consumer.poll()
    world.pass_ms(2_000)
    other = world.consumer("two")
    assert len(other.poll(2)) == 2
    error = consumer.ack(messages)
    assert isinstance(error, LeaseExpiredError)
    assert "offsets 0 to 1 of partition 0 of orders" in str(error)
    # No other consumer has the third: its late ack is honoured.
    assert world.describe().acked_total == 1
    assert all(message.is_settled for message in messages)
    again = consumer.ack(messages[:1])
    assert isinstance(again, LeaseExpiredError)


def test_callers_that_share_a_request_get_only_their_own_errors():
    world = QueueWorld(visibility_ms="1s", nack_backoff_ms="1ms")
    world.produce(*many(4))
    consumer = world.consumer(lease_ms_max=1)
    messages = consumer.poll()
    world.pass_ms(2_000)
    assert len(world.consumer("two").poll(2)) == 2
    before = len(world.requests(Settle))
    results = [consumer.settle([message]) for message in messages[1:]]
    consumer.reader.settle({messages[0]._lease: 1}, ACKED, None)
    consumer.pump()
    assert len(world.requests(Settle)) == before + 1
    assert [type(result) for (result,) in results] == [LeaseExpiredError, NoneType, NoneType]
    (error,) = consumer.reader.errors
    assert "offset 0 of" in str(error)
    assert "offset 1 of" in str(results[0][0])


def test_only_a_few_requests_are_in_flight_and_the_rest_is_batched():
    world = QueueWorld()
    world.produce(*many(20))
    consumer = world.consumer()
    messages = consumer.poll(20)
    results = []
    for message in messages:
        results.append(consumer.settle([message]))
        consumer.reader.pump(world.now_ms)
    assert consumer.reader.unconfirmed == 20
    world.run()
    assert results == [[None]] * 20
    assert [sum(run[2] - run[1] for run in request.leases) for request in world.requests(Settle)] == [1, 1, 18]
    assert consumer.reader.unconfirmed == 0


def test_an_ack_whose_answer_is_lost_is_sent_again():
    world = QueueWorld()
    world.produce(b"a")
    consumer = world.consumer()
    results = consumer.settle(consumer.poll())
    consumer.reader.pump(world.now_ms)
    world.act()
    world.serve()
    world.cut(1)
    world.pass_ms(1_000)
    assert results == [None]
    assert world.describe().acked_total == 1


@pytest.mark.parametrize("outcome", [ACKED, rejected("garbage")])
@pytest.mark.parametrize("other_outcome", [None, ACKED, rejected("garbage")])
def test_an_end_without_an_answer_is_done_only_if_the_message_has_ended_so(other_outcome, outcome):
    """Its attempt was never carried out, and another consumer has got the message in between."""
    world = QueueWorld(visibility_ms="2s", nack_backoff_ms="1ms")
    world.produce(b"a")
    consumer, other = world.consumer(timeout_ms=60_000), world.consumer("two")
    results = consumer.settle(consumer.poll(), outcome)
    world.cluster.fault = lambda node, request: OutcomeUnknownError("perhaps") if isinstance(request, Settle) else None
    consumer.pump()
    world.pass_ms(2_500)
    theirs = other.poll()
    assert len(theirs) == 1
    world.cluster.fault = lambda node, request: None
    if other_outcome is not None:
        assert other.settle(theirs, other_outcome) == []
        other.pump()
    world.pass_ms(5_000)
    assert [type(result) for result in results] == [NoneType if other_outcome == outcome else LeaseExpiredError]


def test_a_failure_without_an_answer_is_not_reported_twice():
    """Another consumer has got the message in between: it comes again, as the failure asked."""
    world = QueueWorld(visibility_ms="2s", nack_backoff_ms="1ms")
    world.produce(b"a")
    consumer = world.consumer(timeout_ms=60_000)
    results = consumer.settle(consumer.poll(), failed("no", 0))
    world.cluster.fault = lambda node, request: OutcomeUnknownError("perhaps") if isinstance(request, Settle) else None
    consumer.pump()
    world.pass_ms(2_500)
    assert len(world.consumer("two").poll()) == 1
    world.cluster.fault = lambda node, request: None
    world.pass_ms(5_000)
    assert results == [None]


def test_a_settlement_that_fails_can_be_tried_again():
    world = QueueWorld()
    world.produce(b"a")
    consumer = world.consumer(timeout_ms=500)
    messages = consumer.poll()
    world.cluster.fault = lambda node, request: UnavailableError("no") if isinstance(request, Settle) else None
    results = consumer.settle(messages)
    consumer.pump()
    world.pass_ms(1_000)
    assert len(results) == 1
    assert results[0] is not None
    assert not messages[0].is_settled
    world.cluster.fault = lambda node, request: None
    assert consumer.ack(messages) is None


def test_waiting_for_others_in_flight_counts_against_the_time_limit():
    world = QueueWorld(visibility_ms="20s")
    world.produce(*many(4))
    consumer = world.consumer(timeout_ms=1_000)
    messages = consumer.poll()
    world.cluster.fault = lambda node, request: UnavailableError("no") if isinstance(request, Settle) else None
    results = []
    for message in messages:
        results.append(consumer.settle([message]))
        consumer.pump()
        world.pass_ms(100)
    assert results[3] == [], "two are in flight, the others wait for them"
    world.pass_ms(650)
    assert [len(result) for result in results] == [1, 0, 0, 0]
    world.pass_ms(400)
    assert [len(result) for result in results] == [1, 1, 1, 1]


@pytest.mark.parametrize("refusal", [UnavailableError("no"), OutcomeUnknownError("perhaps")])
def test_a_message_whose_settlement_failed_is_held_no_longer(refusal):
    """Its handler is done with it: it comes again when its lease ends, and takes no slot until then."""
    world = QueueWorld(nodes=2, visibility_ms="2s", nack_backoff_ms="1ms")
    world.produce(*many(2))
    consumer = world.consumer(timeout_ms=500)
    one, two = consumer.poll()
    world.cluster.fault = lambda node, request: refusal if isinstance(request, Settle) else None
    results = consumer.settle([one])
    consumer.pump()
    world.pass_ms(1_000)
    assert type(results[0]) in (OutcomeUnknownError, DeadlineError)
    assert consumer.reader.leases.unsettled_count == 1
    world.pass_ms(2_000)
    assert [message.offset for message in world.consumer("two").poll()] == [one.offset]
    world.cluster.fault = lambda node, request: None
    assert isinstance(consumer.ack([one]), LeaseExpiredError)
    assert consumer.ack([two]) is None


def test_a_message_whose_settlement_failed_is_held_again_when_it_is_extended():
    world = QueueWorld(visibility_ms="2s", nack_backoff_ms="1ms")
    world.produce(b"a")
    consumer = world.consumer(timeout_ms=500)
    (message,) = consumer.poll()
    world.cluster.fault = lambda node, request: UnavailableError("no") if isinstance(request, Settle) else None
    results = consumer.settle([message])
    consumer.pump()
    world.pass_ms(1_000)
    consumer.reader.extend(message._lease, message._lease.full, 2_000, results.append)
    world.run()
    assert results[1] is None
    world.pass_ms(10_000)
    assert world.consumer("two").poll() == []
    world.cluster.fault = lambda node, request: None
    assert consumer.ack([message]) is None


# Unawaited settlements.


def test_unawaited_settlements_share_a_request_and_an_error():
    world = QueueWorld(visibility_ms="1s", nack_backoff_ms="1ms")
    world.produce(*many(5))
    consumer = world.consumer(lease_ms_max=1)
    messages = consumer.poll()
    world.pass_ms(2_000)
    assert len(world.consumer("two").poll(3)) == 3
    before = len(world.requests(Settle))
    for message in messages:
        consumer.reader.settle({message._lease: message._lease.bit(message.offset)}, ACKED, None)
        assert message.is_settled
    assert consumer.reader.unconfirmed == 5
    consumer.pump()
    world.pass_ms(LINGER_MS)
    assert len(world.requests(Settle)) == before + 1
    (error,) = consumer.reader.errors
    assert "offsets 0 to 2 of" in str(error)
    assert world.describe().acked_total == 2


def test_errors_of_unawaited_settlements_are_kept():
    world = QueueWorld(visibility_ms="1s", nack_backoff_ms="1ms")
    world.produce(b"a")
    consumer = world.consumer(lease_ms_max=1)
    (message,) = consumer.poll()
    world.pass_ms(2_000)
    assert world.consumer("two").poll()
    consumer.reader.settle({message._lease: message._lease.full}, ACKED, None)
    consumer.pump()
    world.pass_ms(LINGER_MS)
    (error,) = consumer.reader.errors
    assert isinstance(error, LeaseExpiredError)


def test_unawaited_settlements_linger():
    world = QueueWorld()
    world.produce(*many(4))
    consumer = world.consumer()
    one, two, three, four = consumer.poll()
    acknowledge_unawaited(consumer, [one])
    world.pass_ms(LINGER_MS - 1)
    acknowledge_unawaited(consumer, [two, three])
    assert world.requests(Settle) == []
    world.pass_ms(1)
    (request,) = world.requests(Settle)
    assert [(run.first, run.end) for run in request.leases] == [(0, 3)]
    assert world.describe().acked_total == 3
    # The next one has a moment of its own.
    acknowledge_unawaited(consumer, [four])
    assert len(world.requests(Settle)) == 1
    world.pass_ms(LINGER_MS)
    assert world.describe().acked_total == 4


@pytest.mark.parametrize(("visibility_ms", "linger_ms"), [(30_000, LINGER_MS), (200, 20), (100, 10)])
def test_settlements_linger_for_a_small_part_of_their_lease(visibility_ms, linger_ms):
    world = QueueWorld()
    world.produce(*many(1))
    consumer = world.consumer(visibility_ms=visibility_ms)
    acknowledge_unawaited(consumer, consumer.poll())
    world.pass_ms(linger_ms - 1)
    assert world.describe().acked_total == 0
    world.pass_ms(1)
    assert world.describe().acked_total == 1


def test_an_awaited_settlement_takes_lingering_ones_along():
    world = QueueWorld()
    world.produce(*many(2))
    consumer = world.consumer()
    one, two = consumer.poll()
    acknowledge_unawaited(consumer, [one])
    assert consumer.ack([two]) is None
    assert len(world.requests(Settle)) == 1
    assert world.describe().acked_total == 2


def test_nothing_lingers_when_much_is_pending():
    world = QueueWorld()
    world.produce(*many(LINGER_COUNT_MAX))
    consumer = world.consumer()
    messages = consumer.poll(LINGER_COUNT_MAX)
    assert len(messages) == LINGER_COUNT_MAX
    acknowledge_unawaited(consumer, messages[:-1])
    assert world.requests(Settle) == []
    acknowledge_unawaited(consumer, messages[-1:])
    assert world.describe().acked_total == LINGER_COUNT_MAX


def test_nothing_lingers_where_the_next_of_its_key_waits():
    world = QueueWorld()
    world.produce(*many(1))
    consumer = world.consumer(is_ordered_by_key=True)
    acknowledge_unawaited(consumer, consumer.poll())
    assert world.describe().acked_total == 1


@pytest.mark.parametrize("end", ["hurry", "stop"])
def test_nothing_lingers_at_the_end(end):
    world = QueueWorld()
    world.produce(*many(1))
    consumer = world.consumer()
    acknowledge_unawaited(consumer, consumer.poll())
    getattr(consumer.reader, end)(world.now_ms)
    world.run()
    assert world.describe().acked_total == 1
