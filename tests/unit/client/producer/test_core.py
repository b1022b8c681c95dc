"""Records become batches: full ones at once, others when they lingered and their lane has room."""

from contextlib import nullcontext
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.client.producer import _record_buffer
from flotilla.client.producer._batch import Batch
from flotilla.client.producer._core import ProducerCore
from flotilla.client.producer._record_buffer import PROMPT_COUNT_MAX, RecordBuffer, record_bytes
from flotilla.client.producer.options import LINGER_MS_DEFAULT, ProducerOptions, producer_parameters
from flotilla.client.producer.partitioner import partition_of
from flotilla.types.errors import ConnectionClosedError, DeadlineError, InvalidArgumentError, OverloadedError
from flotilla.types.operations import CONTROLLER, AlterTopic, Produce
from flotilla.types.records import Record
from tests.unit.client.brokers import Brokers
from tests.unit.client.world import World


class Bench:
    """A producer in a world."""

    def __init__(self, partitions: int = 1, **options) -> None:
        self.options = ProducerOptions(**options)
        self.cluster = Brokers().form()
        self.cluster.create("orders", partitions)
        self.world = World(self.cluster)
        self.released: list[Batch] = []
        self.buffer = RecordBuffer(self.options, Random(1))
        self.core = ProducerCore(
            self.world.session, "orders", self.options, self.buffer, nullcontext(), self.released.append
        )
        self.world.session.resolve("orders", 10**9, lambda topic: None, self.world.now_ms)
        self.world.run()
        self.core.adapt()

    def add(self, record: Record, partition: int | None = None, timeout_ms: int = 10_000) -> Batch:
        return self.buffer.add(record, record_bytes(record), partition, self.world.now_ms, timeout_ms)

    def pump(self) -> None:
        self.core.pump(self.world.now_ms)
        self.world.run()


def test_an_idle_producer_sends_at_once():
    bench = Bench()
    bench.add(Record(b"a"))
    bench.pump()
    assert bench.cluster.stored("orders") == [b"a"]


def test_a_batch_lingers():
    bench = Bench(linger_ms=20)
    bench.add(Record(b"a"))
    bench.pump()
    bench.world.pass_ms(10)
    bench.add(Record(b"b"))
    bench.world.pass_ms(9)
    assert bench.cluster.count(Produce) == 0
    bench.world.pass_ms(1)
    assert bench.cluster.stored("orders") == [b"a", b"b"]
    assert bench.cluster.count(Produce) == 1


def test_few_records_of_a_prompt_producer_linger_only_behind_others():
    bench = Bench(linger_ms=20, is_prompt=True)
    bench.add(Record(b"a"))
    bench.core.pump(bench.world.now_ms)
    # The first one is in flight.
    bench.add(Record(b"b"))
    bench.core.pump(bench.world.now_ms)
    bench.add(Record(b"c"))
    bench.core.pump(bench.world.now_ms)
    assert not bench.released
    bench.world.run()
    assert bench.cluster.stored("orders") == [b"a", b"b", b"c"]
    assert bench.cluster.count(Produce) == 2


def test_many_records_of_a_prompt_producer_linger():
    bench = Bench(linger_ms=20, is_prompt=True)
    for _ in range(PROMPT_COUNT_MAX + 1):
        bench.add(Record(b"a"))
    bench.pump()
    bench.world.pass_ms(19)
    assert bench.cluster.count(Produce) == 0
    bench.add(Record(b"a"))
    bench.world.pass_ms(1)
    assert bench.cluster.count(Produce) == 1
    assert len(bench.cluster.stored("orders")) == PROMPT_COUNT_MAX + 2


def test_a_producer_is_prompt_unless_it_is_told_to_linger():
    assert producer_parameters("orders")[1] == ProducerOptions(linger_ms=LINGER_MS_DEFAULT, is_prompt=True)
    assert producer_parameters("orders", linger_ms=3)[1] == ProducerOptions(linger_ms=3)
    assert producer_parameters("orders", linger_ms=0)[1] == ProducerOptions()


@pytest.mark.parametrize(
    ("options", "size", "counts"),
    [({"batch_records": 3}, 1, [3, 3]), ({"batch_bytes": 1_000}, 400, [2, 2, 2]), ({"batch_bytes": 100}, 400, [1] * 6)],
)
def test_a_full_batch_does_not_linger(options, size, counts):
    bench = Bench(linger_ms=60_000, **options)
    for _ in range(6):
        bench.add(Record(b"x" * size))
    bench.pump()
    bench.core.flush(bench.world.now_ms)
    bench.world.run()
    assert [batch.count for batch in bench.released] == counts


def test_while_a_lane_is_busy_records_gather():
    bench = Bench(in_flight_max=1)
    for number in range(10):
        bench.add(Record(b"%d" % number))
        bench.core.pump(bench.world.now_ms)
    bench.world.run()
    assert [batch.count for batch in bench.released] == [1, 9]
    assert bench.cluster.stored("orders") == [b"%d" % number for number in range(10)]


def test_keys_have_their_partition_and_the_rest_is_spread_by_batches():
    bench = Bench(partitions=4, batch_records=10)
    for number in range(200):
        bench.add(Record(b"k", key=b"%d" % number))
        bench.add(Record(b"%d" % number))
    bench.core.flush(bench.world.now_ms)
    bench.world.run()
    for number in range(4):
        expected = [key for key in range(200) if partition_of(b"%d" % key, 4) == number]
        stored = [record.payload for record in bench.cluster.records("orders", number)]
        assert stored.count(b"k") == len(expected)
        assert len(stored) > len(expected)


#: None is a plain value.
KINDS = [None, None, Record(b""), Record(b"", key=b"k"), Record(b"", ttl_ms=5), Record(b"", priority=1)]


@given(
    st.lists(st.sampled_from(KINDS), max_size=40),
    st.sampled_from([{}, {"batch_records": 1}, {"batch_records": 4}, {"batch_bytes": 200}]),
)
def test_values_and_records_that_follow_each_other_keep_order_and_times(kinds, options):
    """Plain values gather without records; whatever joins them, each is stored as if it were a record."""
    bench = Bench(linger_ms=60_000, timeout_ms=10_000, **options)
    sent: dict[int, list[Record]] = {0: [], 1: []}
    for number, kind in enumerate(kinds):
        record = (kind or Record(b""))._replace(payload=b"%d" % number, timestamp_ms=1_000 + number)
        sent[record.priority].append(record)
        batch = bench.buffer.append(record.payload, record.timestamp_ms) if kind is None else None
        if batch is None:
            batch = bench.add(record)
        assert batch.count <= bench.options.batch_records
    used = bench.buffer.used_bytes
    assert used == sum(map(record_bytes, [*sent[0], *sent[1]]))
    bench.core.flush(bench.world.now_ms)
    bench.world.run()
    assert bench.buffer.used_bytes == 0
    stored = bench.cluster.records("orders")
    for priority, records in sent.items():
        assert [record for record in stored if record.priority == priority] == records


def test_values_are_appended_only_where_nothing_has_to_be_decided():
    bench = Bench(linger_ms=60_000, batch_records=4, buffer_bytes_max=400, timeout_ms=10_000)
    assert bench.buffer.append(b"a", 1) is None, "no batch was begun"
    first = bench.add(Record(b"a"))
    assert bench.buffer.append(b"b", 1) is first
    assert bench.buffer.append(b"x" * 300, 1) is None, "the buffer is full"
    assert bench.buffer.append(b"c", 1) is first
    assert bench.buffer.append(b"d", 1) is None, "the batch would be full"
    assert bench.add(Record(b"d")) is first
    assert bench.buffer.has_full
    assert bench.buffer.append(b"e", 1) is None
    bench.add(Record(b"e"), timeout_ms=5)
    assert bench.buffer.append(b"f", 1) is None, "it would have the wrong time limit"


def test_nothing_is_appended_to_a_batch_that_has_left():
    bench = Bench(timeout_ms=10_000)
    batch = bench.add(Record(b"a"))
    bench.core.pump(bench.world.now_ms)
    assert bench.buffer.append(b"b", 1) is None
    assert bench.add(Record(b"b")) is not batch


def test_records_of_one_batch_share_priority_and_time():
    bench = Bench()
    batches = [
        bench.add(Record(b"a")),
        bench.add(Record(b"b", priority=5)),
        bench.add(Record(b"c")),
        bench.add(Record(b"d", deliver_at_ms=99)),
    ]
    assert batches[0] is batches[2]
    assert len(set(batches)) == 3
    bench.pump()
    assert sorted(bench.cluster.stored("orders")) == [b"a", b"b", b"c", b"d"]


class WatchedBatch(Batch):
    """Counts the attribute reads of all instances."""

    looks = 0

    def __getattribute__(self, name):
        WatchedBatch.looks += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("linger_ms", [0, 50])
def test_the_cost_of_a_batch_does_not_grow_with_the_waiting_ones(monkeypatch, linger_ms):
    """A time of delivery takes a batch of its own: so thousands of them wait for their lane, and in it."""
    monkeypatch.setattr(_record_buffer, "Batch", WatchedBatch)

    def looks_per_batch(count):
        bench = Bench(linger_ms=linger_ms)
        WatchedBatch.looks = 0
        for first in (1, 1 + count):
            # The first half is in the lane when the second comes, which has to wait for room there.
            for number in range(first, first + count):
                bench.add(Record(b"%d" % number, deliver_at_ms=number))
                bench.core.pump(bench.world.now_ms)
            bench.world.now_ms += linger_ms
            bench.core.pump(bench.world.now_ms)
        bench.world.pass_ms(100)
        assert len(bench.released) == 2 * count
        assert bench.cluster.stored("orders") == [b"%d" % number for number in range(1, 1 + 2 * count)]
        return WatchedBatch.looks / count

    assert looks_per_batch(400) < 1.2 * looks_per_batch(50)


def test_an_early_deadline_is_kept_among_batches_that_wait_for_room():
    bench = Bench()
    bench.add(Record(b"warm"))
    bench.pump()
    bench.world.silent = {1}
    for number in range(1, 4):
        bench.add(Record(b"%d" % number, deliver_at_ms=number))
        bench.pump()
    waiting = [bench.add(Record(b"w", priority=1), timeout_ms=timeout_ms) for timeout_ms in (5_000, 200)]
    later = bench.add(Record(b"l", priority=2), timeout_ms=300)
    bench.pump()
    assert waiting[0] is waiting[1]
    bench.world.pass_ms(199)
    assert not waiting[0].is_done
    bench.world.pass_ms(1)
    assert isinstance(waiting[0].error, DeadlineError)
    assert not later.is_done
    bench.world.pass_ms(100)
    assert isinstance(later.error, DeadlineError)


def test_memory_is_bounded_and_released():
    bench = Bench(buffer_bytes_max=1_000)
    assert bench.buffer.can_take(5_000), "a large record may come alone"
    record = Record(b"x" * 400)
    for _ in range(2):
        assert bench.buffer.can_take(record_bytes(record))
        bench.add(record)
    assert not bench.buffer.can_take(record_bytes(record))
    bench.pump()
    assert bench.buffer.used_bytes == 0
    assert not bench.buffer.unresolved


def test_nothing_can_be_added_before_the_partitions_are_known():
    assert not RecordBuffer(ProducerOptions(), Random(1)).can_take(1)


def test_a_record_waits_no_longer_than_its_deadline():
    bench = Bench(linger_ms=60_000)
    batch = bench.add(Record(b"a"), timeout_ms=500)
    bench.pump()
    bench.world.pass_ms(499)
    assert not batch.is_done
    bench.world.pass_ms(1)
    assert isinstance(batch.error, DeadlineError)


def test_the_shortest_deadline_of_a_batch_holds():
    bench = Bench(linger_ms=60_000)
    batch = bench.add(Record(b"a"), timeout_ms=5_000)
    assert bench.add(Record(b"b"), timeout_ms=100) is batch
    bench.pump()
    bench.world.pass_ms(100)
    assert isinstance(batch.error, DeadlineError)


def test_more_partitions_are_used_when_they_are_known():
    bench = Bench(partitions=1)
    bench.world.call(AlterTopic("orders", 2), CONTROLLER)
    bench.world.run()
    bench.world.session.resolve("orders", bench.world.now_ms + 1_000, lambda topic: None, bench.world.now_ms)
    bench.world.run()
    bench.pump()
    assert bench.buffer.partitions == 2


def test_abandoning_ends_lingering_batches_too():
    bench = Bench(linger_ms=60_000)
    batch = bench.add(Record(b"a"))
    bench.pump()
    bench.core.abandon(ConnectionClosedError("closed"))
    assert isinstance(batch.error, ConnectionClosedError)
    assert bench.buffer.used_bytes == 0


def test_values_are_cut_into_batches():
    buffer = RecordBuffer(ProducerOptions(batch_bytes=100, batch_records=5), Random(1))
    values = [b"x" * size for size in (60, 60, 500, 1, 1, 1, 1, 1, 1)]
    assert [len(piece) for piece, _ in buffer.cut(values)] == [1, 1, 1, 5, 1]
    assert [value for piece, _ in buffer.cut(values) for value in piece] == values
    with pytest.raises(InvalidArgumentError):
        buffer.cut([b"x", 5])


def test_an_overloaded_broker_slows_down_but_loses_nothing():
    bench = Bench(batch_records=5, in_flight_max=3)
    chance = Random(5)
    bench.cluster.fault = lambda node, request: (
        OverloadedError("full") if isinstance(request, Produce) and chance.random() < 0.5 else None
    )
    for number in range(100):
        bench.add(Record(b"%03d" % number))
        bench.pump()
    bench.world.pass_ms(9_000)
    assert bench.cluster.stored("orders") == [b"%03d" % number for number in range(100)]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"batch_bytes": 0},
        {"batch_bytes": 2**30},
        {"batch_records": 100_000},
        {"in_flight_max": 0},
        {"linger_ms": -1},
        {"timeout_ms": 0},
    ],
)
def test_options_that_cannot_be(options):
    with pytest.raises(InvalidArgumentError):
        ProducerOptions(**options)
