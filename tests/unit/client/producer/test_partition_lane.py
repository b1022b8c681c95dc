"""A producer's records to a partition are stored once and in order, whatever happens on the way."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.client.producer._batch import Batch
from flotilla.client.producer._partition_lane import PartitionLane
from flotilla.client.producer._record_buffer import RecordBuffer
from flotilla.client.producer.options import ProducerOptions
from flotilla.codec.batch.header import parse_header
from flotilla.partition.state.producers import ProducerTable
from flotilla.types.errors import (
    ConnectionClosedError,
    DeadlineError,
    FlotillaError,
    InvalidArgumentError,
    OutcomeUnknownError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.operations import Produce
from flotilla.types.operations.request import Route
from flotilla.types.records import Record
from tests.unit.client.brokers import Brokers
from tests.unit.client.world import World


class Sender:
    """One lane in a world, and the batches that were sent on it."""

    def __init__(self, nodes: int = 1, *, in_flight_max: int = 4, seed: int = 1) -> None:
        self.cluster = Brokers(nodes).form()
        self.cluster.create("orders")
        self.world = World(self.cluster, seed=seed)
        self.resolved: list[Batch] = []
        self.lane = PartitionLane(
            self.world.session,
            Route("orders", 0),
            producer_id=7,
            in_flight_max=in_flight_max,
            compression=0,
            buffer=RecordBuffer(ProducerOptions(), Random(1)),
            resolved=self.resolved.append,
            refresh=lambda: None,
        )
        self.batches: list[Batch] = []

    def send(self, *values: bytes, timeout_ms: int = 10_000) -> Batch:
        batch = Batch(0, self.world.now_ms, self.world.now_ms + timeout_ms)
        batch.records = [Record(value) for value in values]
        batch.count = len(values)
        self.batches.append(batch)
        self.lane.add(batch)
        return batch

    @property
    def stored(self) -> list[bytes]:
        return self.cluster.stored("orders")

    @property
    def producers(self) -> ProducerTable:
        """Those that the leader remembers."""
        return self.cluster.leader("orders").partition("orders").machine.producers

    def numbers(self) -> list[tuple[int, int]]:
        """Epoch and sequence of each produce that reached a broker."""
        headers = [parse_header(request.batch) for _, request in self.cluster.requests if isinstance(request, Produce)]
        return [(header.producer_epoch, header.producer_sequence) for header in headers]

    def fail_produce(self, *errors: FlotillaError | None) -> None:
        """What the next produces are answered with instead; None lets one pass."""
        left = list(errors)
        self.cluster.fault = lambda node, request: left.pop(0) if left and isinstance(request, Produce) else None


def test_batches_are_numbered_without_gaps_and_answered_with_their_offset():
    sender = Sender()
    first, second = sender.send(b"a", b"b"), sender.send(b"c")
    sender.world.run()
    assert sender.numbers() == [(0, 0), (0, 2)]
    assert (first.base_offset, second.base_offset) == (0, 2)
    assert sender.resolved == [first, second]
    assert sender.stored == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("in_flight_max", "value_bytes", "sent", "flying"),
    [
        (1, 1, 5, 1),
        (2, 40_000, 5, 2),
        # Small ones may be more, as long as they have few bytes together and are not too many.
        (2, 1, 5, 5),
        (2, 10_000, 20, 7),
        # One place on the connection is kept for a ping.
        (2, 1, 300, 255),
    ],
)
def test_no_more_batches_are_in_flight_than_allowed(in_flight_max: int, value_bytes: int, sent: int, flying: int):
    sender = Sender(in_flight_max=in_flight_max)
    sender.send(b"x")
    sender.world.run()
    values = [(b"%03d" % number).ljust(value_bytes) for number in range(sent)]
    for value in values:
        sender.send(value)
    sender.world.act()
    sender.world.serve()
    assert sender.cluster.count(Produce) == 1 + flying
    sender.world.run()
    assert sender.stored == [b"x", *values]
    assert (sender.lane._in_flight_count, sender.lane._in_flight_bytes) == (0, 0)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_connection_lost_before_or_after_the_broker_took_the_batch(is_stored):
    sender = Sender()
    sender.send(b"warm")
    sender.world.run()
    sender.send(b"a")
    sender.send(b"b")
    sender.world.act()
    if is_stored:
        sender.world.serve()
    sender.world.cut(1)
    sender.world.pass_ms(1_000)
    assert sender.stored == [b"warm", b"a", b"b"]
    assert [batch.base_offset for batch in sender.batches] == [0, 1, 2]
    assert all(epoch == 0 for epoch, _ in sender.numbers())


def test_a_batch_that_is_refused_for_now_is_not_overtaken():
    sender = Sender()
    sender.send(b"warm")
    sender.world.run()
    sender.fail_produce(OverloadedError("full"))
    for value in (b"a", b"b", b"c"):
        sender.send(value)
    sender.world.run()
    assert sender.stored == [b"warm"]
    sender.world.pass_ms(1_000)
    assert sender.stored == [b"warm", b"a", b"b", b"c"]
    assert {epoch for epoch, _ in sender.numbers()} == {0}


def test_a_batch_that_comes_back_leaves_before_those_that_wait():
    sender = Sender(in_flight_max=1)
    sender.send(b"warm")
    sender.world.run()
    sender.fail_produce(OverloadedError("full"))
    sender.send(b"a")
    sender.send(b"b")
    sender.world.pass_ms(1_000)
    assert sender.stored == [b"warm", b"a", b"b"]
    assert [sequence for _, sequence in sender.numbers()] == [0, 1, 1, 2]


def test_leadership_that_moves_keeps_order_and_numbers():
    sender = Sender(nodes=2)
    sender.send(b"a")
    sender.world.run()
    sender.cluster.move("orders", 0, 2)
    sender.send(b"b")
    sender.send(b"c")
    sender.world.pass_ms(500)
    assert sender.stored == [b"a", b"b", b"c"]
    assert sender.cluster.requests[-1][0] == 2


def test_a_batch_that_is_wrong_fails_alone():
    sender = Sender()
    sender.send(b"a")
    sender.world.run()
    sender.fail_produce(InvalidArgumentError("too large for this topic"))
    wrong = sender.send(b"wrong")
    sender.send(b"b")
    sender.send(b"c")
    sender.world.pass_ms(1_000)
    assert isinstance(wrong.error, InvalidArgumentError)
    assert sender.stored == [b"a", b"b", b"c"]
    assert sender.numbers()[-2:] == [(1, 0), (1, 1)], "the gap ends the epoch"


def test_a_gap_that_is_known_costs_no_attempt():
    sender = Sender()
    sender.fail_produce(InvalidArgumentError("no"))
    sender.send(b"wrong")
    sender.world.run()
    sender.send(b"a")
    sender.world.run()
    assert sender.numbers() == [(0, 0), (1, 0)]


def test_nothing_is_sent_again_before_everything_is_back():
    sender = Sender()
    sender.send(b"warm")
    sender.world.run()
    sender.fail_produce(OverloadedError("full"))
    sender.send(b"a")
    sender.send(b"b")
    sender.world.act()
    sender.world.serve()
    (number, link), *_ = sender.world.links.items()
    refusal, held = link.answers
    link.answers = []
    sender.world.session.received(number, refusal, sender.world.now_ms)
    sender.world.pass_ms(1_000)
    assert sender.cluster.count(Produce) == 3
    sender.world.session.received(number, held, sender.world.now_ms)
    sender.world.pass_ms(1_000)
    assert sender.cluster.count(Produce) == 5
    assert sender.stored == [b"warm", b"a", b"b"]


def test_a_record_that_cannot_be_encoded_uses_no_number():
    sender = Sender()
    wrong = sender.send(b"a", "text")
    sender.send(b"b")
    sender.world.run()
    assert isinstance(wrong.error, InvalidArgumentError)
    assert sender.numbers() == [(0, 0)]


def test_the_end_of_one_batch_does_not_end_others_twice():
    sender = Sender(in_flight_max=1)
    sender.world.stop(1)
    waiting = [sender.send(value, timeout_ms=1_000) for value in (b"a", b"b", b"c")]
    resolved, sender.resolved = sender.resolved, []
    sender.lane._resolved = lambda batch: (resolved.append(batch), sender.send(b"next", timeout_ms=60_000))
    sender.world.pass_ms(2_000)
    assert resolved == waiting
    assert all(batch.is_done for batch in waiting)


def test_each_batch_that_waits_ends_in_its_own_time_and_the_others_keep_their_order():
    sender = Sender(in_flight_max=1)
    sender.send(b"warm")
    sender.world.run()
    sender.world.silent = {1}
    timeouts_ms = (600, 900, 300, 700, 300, 800)
    sender.send(b"flying")
    for number, timeout_ms in enumerate(timeouts_ms):
        sender.send(b"%d" % number, timeout_ms=timeout_ms)
    began_ms = sender.world.now_ms
    for now_ms in (299, 300, 599, 600, 700):
        sender.world.pass_ms(began_ms + now_ms - sender.world.now_ms)
        ended = [isinstance(batch.error, DeadlineError) for batch in sender.batches[2:]]
        assert ended == [timeout_ms <= now_ms for timeout_ms in timeouts_ms], now_ms
    sender.world.silent = set()
    sender.world.run()
    assert sender.stored == [b"warm", b"flying", b"1", b"5"]
    assert sender.lane.is_empty


def test_a_lane_has_few_timers_however_many_wait():
    sender = Sender(in_flight_max=1)
    sender.send(b"warm")
    sender.world.run()
    for number in range(100):
        sender.send(b"%d" % number, timeout_ms=10_000 + number)
    sender.world.run()
    assert len(sender.stored) == 101
    assert len(sender.world.session.timers._heap) <= 2


def test_a_deadline_before_anything_was_sent_is_certain():
    sender = Sender()
    sender.world.down = {1}
    batch = sender.send(b"a", timeout_ms=500)
    sender.world.pass_ms(499)
    assert not batch.is_done
    sender.world.pass_ms(1)
    assert isinstance(batch.error, DeadlineError)


@pytest.mark.parametrize("is_stored", [True, False])
def test_after_an_unknown_outcome_nothing_is_stored_twice_and_nothing_is_lost(is_stored):
    """The first batch ends unknown; those behind it may have been stored in its epoch, and must not be again."""
    sender = Sender()
    sender.send(b"warm")
    sender.world.run()
    unknown = sender.send(b"unknown", timeout_ms=500)
    later = [sender.send(b"b"), sender.send(b"c")]
    sender.world.act()
    sender.world.silent = {1}
    if is_stored:
        sender.world.serve()
    else:
        sender.world.links[next(iter(sender.world.links))].sent.clear()
    sender.world.pass_ms(500)
    assert isinstance(unknown.error, OutcomeUnknownError)
    sender.world.silent = set()
    sender.world.cut(1)
    sender.world.pass_ms(2_000)
    assert sender.stored == [b"warm", *([b"unknown"] if is_stored else []), b"b", b"c"]
    assert [batch.error for batch in later] == [None, None]
    sender.send(b"d")
    sender.world.pass_ms(1_000)
    assert sender.stored[-1] == b"d"


def test_a_straggler_of_an_old_epoch_is_not_stored():
    sender = Sender()
    sender.send(b"a")
    sender.world.run()
    lost = sender.send(b"straggler", timeout_ms=300)
    sender.world.act()
    link = next(iter(sender.world.links.values()))
    held, link.sent = link.sent, []
    sender.world.pass_ms(300)
    assert isinstance(lost.error, OutcomeUnknownError)
    sender.send(b"b")
    sender.world.pass_ms(500)
    link.sent = held
    sender.world.run()
    assert sender.stored == [b"a", b"b"]


def test_a_broker_that_has_forgotten_the_producer_gets_a_new_epoch():
    sender = Sender()
    sender.send(b"a")
    sender.world.run()
    sender.producers.producers.clear()
    sender.producers.ring.clear()
    batch = sender.send(b"b")
    sender.world.pass_ms(500)
    assert batch.error is None
    assert sender.stored == [b"a", b"b"]
    assert sender.numbers()[-1] == (1, 0)


def test_a_batch_of_a_forgotten_producer_is_never_stored_silently():
    sender = Sender()
    sender.send(b"a")
    sender.world.run()
    batch = sender.send(b"b")
    sender.world.act()
    sender.world.serve()
    sender.producers.producers.clear()
    sender.producers.ring.clear()
    sender.world.cut(1)
    sender.world.pass_ms(1_000)
    assert isinstance(batch.error, OutcomeUnknownError)
    assert sender.stored == [b"a", b"b"]


def test_numbers_begin_anew_after_the_last_one():
    sender = Sender()
    sender.send(b"a")
    sender.world.run()
    sender.producers.producers[7].next_sequence = 2**32 - 1
    sender.lane._next_sequence = 2**32 - 1
    sender.send(b"b", b"c")
    sender.send(b"d")
    sender.world.pass_ms(100)
    assert sender.numbers()[-2:] == [(0, 2**32 - 1), (0, 1)]
    assert sender.stored == [b"a", b"b", b"c", b"d"]


def test_epochs_end_with_another_producer_id():
    sender = Sender()
    sender.lane._epoch = 2**16 - 1
    sender.send(b"a")
    sender.world.run()
    sender.fail_produce(InvalidArgumentError("no"))
    sender.send(b"wrong")
    sender.send(b"b")
    sender.world.pass_ms(500)
    assert sender.stored == [b"a", b"b"]
    assert sender.numbers()[-1] == (0, 0)


def test_abandoning_ends_every_batch():
    sender = Sender(in_flight_max=1)
    sender.send(b"warm")
    sender.world.run()
    flying, waiting = sender.send(b"a"), sender.send(b"b")
    sender.world.act()
    sender.lane.abandon(ConnectionClosedError("closed"))
    assert isinstance(flying.error, OutcomeUnknownError)
    assert isinstance(waiting.error, ConnectionClosedError)
    sender.world.run()
    assert sender.lane.is_empty


def test_closing_the_session_ends_every_batch():
    sender = Sender(in_flight_max=1)
    sender.send(b"warm")
    sender.world.run()
    sender.world.silent = {1}
    flying, waiting = sender.send(b"a"), sender.send(b"b")
    sender.world.act()
    sender.world.session.close()
    assert isinstance(flying.error, OutcomeUnknownError)
    assert isinstance(waiting.error, ConnectionClosedError)


@given(seed=st.integers(0, 10**9), nodes=st.integers(1, 3))
def test_any_faults(seed, nodes):
    """Whatever fails: what is answered is stored once and in order, and what is certainly not stored is not."""
    chance = Random(seed)
    sender = Sender(nodes, in_flight_max=chance.choice([1, 2, 5]), seed=seed)
    world, cluster = sender.world, sender.cluster

    def fault(node, request):
        if isinstance(request, Produce) and chance.random() < 0.25:
            answer = cluster.fleet.nodes[node].call(request).result if chance.random() < 0.4 else None
            if answer is not None and not isinstance(answer, FlotillaError):
                return OutcomeUnknownError("leadership was lost")
            return chance.choice([OverloadedError("full"), UnavailableError("moving")])
        return None

    cluster.fault = fault
    for number in range(25):
        sender.send(b"%d" % number, timeout_ms=chance.choice([60, 300, 5_000]))
        step = chance.random()
        if step < 0.3:
            world.act()
        if step < 0.2:
            world.serve()
        if step < 0.15:
            world.cut(chance.randint(1, nodes))
        elif step < 0.3:
            cluster.move("orders", 0, chance.randint(1, nodes))
        elif step < 0.6:
            world.pass_ms(chance.randint(0, 120))
    cluster.fault = lambda node, request: None
    world.pass_ms(6_000)
    stored = [int(value) for value in sender.stored]
    assert len(set(stored)) == len(stored), "stored twice"
    assert stored == sorted(stored), "overtaken"
    for number, batch in enumerate(sender.batches):
        assert batch.is_done
        if batch.error is None:
            assert stored[batch.base_offset] == number
        elif not isinstance(batch.error, OutcomeUnknownError):
            assert number not in stored
    after = sender.send(b"99")
    world.pass_ms(2_000)
    assert after.error is None


@pytest.mark.parametrize("is_last_attempt_late", [True, False])
def test_a_batch_that_runs_out_of_time_names_the_last_answer(is_last_attempt_late):
    """Whether its time is up between two attempts or when one comes back: the same error."""
    sender = Sender()
    sender.send(b"warm")
    sender.world.run()
    sender.cluster.fault = lambda node, request: OverloadedError("full") if isinstance(request, Produce) else None
    batch = sender.send(b"x", timeout_ms=300)
    if is_last_attempt_late:
        sender.world.act()
        sender.world.serve()
        sender.world.now_ms += 300
        sender.world.deliver()
    else:
        sender.world.pass_ms(300)
    assert isinstance(batch.error, DeadlineError)
    assert "OVERLOADED: full" in str(batch.error)


def test_an_attempt_that_never_left_does_not_hide_the_last_answer():
    sender = Sender()
    sender.send(b"warm")
    sender.world.run()
    sender.fail_produce(OverloadedError("full"))
    batch = sender.send(b"x", timeout_ms=300)
    sender.world.run()
    sender.world.silent = {1}
    sender.world.cut(1)
    sender.world.pass_ms(300)
    assert isinstance(batch.error, DeadlineError)
    assert "OVERLOADED: full" in str(batch.error)


def test_a_batch_whose_last_attempt_has_no_answer_may_be_stored():
    sender = Sender()
    sender.send(b"warm")
    sender.world.run()
    sender.world.silent = {1}
    batch = sender.send(b"x", timeout_ms=300)
    sender.world.pass_ms(300)
    assert isinstance(batch.error, OutcomeUnknownError)
    assert str(batch.error).count("may or may not") == 1


def test_a_leader_that_falls_silent_is_left_for_the_next_and_nothing_is_stored_twice():
    sender = Sender(nodes=3)
    sender.send(b"a")
    sender.world.run()
    sender.world.silent = {1}
    sender.send(b"b")
    sender.send(b"c")
    sender.world.pass_ms(1_500)
    assert sender.stored == [b"a", b"b", b"c"], "the broker stored it, and the answer was lost"
    sender.cluster.move("orders", 0, 2)
    sender.world.pass_ms(600)
    assert [batch.base_offset for batch in sender.batches] == [0, 1, 2]
    assert sender.stored == [b"a", b"b", b"c"]


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_batch_that_is_abandoned_may_be_stored_only_if_it_was_sent(is_sent):
    sender = Sender()
    if is_sent:
        sender.send(b"warm")
        sender.world.run()
    batch = sender.send(b"x")
    sender.world.act()
    sender.lane.abandon(ConnectionClosedError("closed"))
    assert isinstance(batch.error, OutcomeUnknownError if is_sent else ConnectionClosedError)
