"""Idempotency keys on a producer's lane: each key is stored once, and the rest of a batch goes on in order."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla import Receipt
from flotilla.client.producer._batch import Batch, Delivery
from flotilla.client.producer._partition_lane import PartitionLane
from flotilla.client.producer._record_buffer import RecordBuffer, record_bytes
from flotilla.client.producer.options import ProducerOptions
from flotilla.codec.batch.header import parse_header
from flotilla.types.errors import UnavailableError, UnknownError
from flotilla.types.operations import Produce, Produced, Route
from flotilla.types.records import Record
from tests.unit.client.queue_world import QueueWorld


class Sender:
    """One lane among brokers that know idempotency keys."""

    def __init__(self, nodes: int = 1) -> None:
        self.world = QueueWorld(nodes)
        self.lane = PartitionLane(
            self.world.session,
            Route("orders", 0),
            producer_id=7,
            in_flight_max=4,
            compression=0,
            buffer=RecordBuffer(ProducerOptions(), Random(1)),
            resolved=lambda batch: None,
            refresh=lambda: None,
        )

    def send(self, *keys: bytes) -> Batch:
        """A batch of records whose values are their keys."""
        batch = Batch(0, self.world.now_ms, self.world.now_ms + 10_000)
        batch.records = [Record(key or b"-", idempotency_key=key) for key in keys]
        batch.count = len(keys)
        self.lane.add(batch)
        return batch

    @property
    def stored(self) -> list[bytes]:
        return self.world.cluster.stored("orders")

    def numbers(self) -> list[tuple[int, int, int]]:
        headers = [parse_header(request.batch) for request in self.world.requests(Produce)]
        return [(header.producer_epoch, header.producer_sequence, header.count) for header in headers]


def receipts(batch: Batch) -> list[Receipt]:
    return [Delivery(batch, position)._receipt() for position in range(batch.count)]


def test_records_that_are_stored_are_left_out_and_the_rest_keeps_its_number():
    sender = Sender()
    sender.world.cluster.produce("orders", 0, Record(b"b", idempotency_key=b"b"), Record(b"d", idempotency_key=b"d"))
    batch = sender.send(b"a", b"b", b"c", b"d", b"")
    sender.world.run()
    assert receipts(batch) == [
        Receipt(0, 2, False),
        Receipt(0, 0, True),
        Receipt(0, 3, False),
        Receipt(0, 1, True),
        Receipt(0, 4, False),
    ]
    assert sender.stored == [b"b", b"d", b"a", b"c", b"-"]
    assert sender.numbers() == [(0, 0, 5), (0, 0, 3)]
    # What follows has the next number.
    sender.send(b"e")
    sender.world.run()
    assert sender.numbers()[-1] == (0, 3, 1)
    assert sender.stored[-1] == b"e"


def test_a_batch_of_which_nothing_is_left_ends_without_being_sent_again():
    sender = Sender()
    sender.send(b"a", b"b")
    sender.world.run()
    again = sender.send(b"b", b"a")
    sender.world.run()
    assert receipts(again) == [Receipt(0, 1, True), Receipt(0, 0, True)]
    assert sender.lane.is_empty
    sender.send(b"c")
    sender.world.run()
    assert sender.numbers() == [(0, 0, 2), (0, 2, 2), (0, 2, 1)]
    assert sender.stored == [b"a", b"b", b"c"]


def test_batches_that_follow_are_numbered_anew_and_keep_their_order():
    sender = Sender()
    sender.send(b"a")
    sender.world.run()
    batches = [sender.send(b"b", b"a"), sender.send(b"c"), sender.send(b"d", b"e")]
    sender.world.pass_ms(2_000)
    assert [receipts(batch) for batch in batches] == [
        [Receipt(0, 1, False), Receipt(0, 0, True)],
        [Receipt(0, 2, False)],
        [Receipt(0, 3, False), Receipt(0, 4, False)],
    ]
    assert sender.stored == [b"a", b"b", b"c", b"d", b"e"]
    assert sender.numbers() == [(0, 0, 1), (0, 1, 2), (0, 3, 1), (0, 4, 2), (1, 0, 1), (1, 1, 1), (1, 2, 2)]


def test_known_records_stay_known_when_the_rest_fails():
    sender = Sender()
    sender.send(b"a")
    sender.world.run()
    batch = sender.send(b"a", b"b")
    sender.world.act()
    sender.world.serve()
    sender.world.cluster.fault = lambda node, request: UnavailableError("no quorum")
    sender.world.pass_ms(20_000)
    assert Delivery(batch, 0)._receipt() == Receipt(0, 0, True)
    with pytest.raises(Exception, match="no quorum"):
        Delivery(batch, 1)._receipt()


def test_positions_that_do_not_exist_are_not_believed():
    sender = Sender()
    wrong = Produced(0, known=[(5, 0)])
    sender.world.cluster.fault = lambda node, request: wrong if isinstance(request, Produce) else None
    batch = sender.send(b"a")
    sender.world.run()
    assert isinstance(batch.error, UnknownError)


@given(
    st.lists(
        st.lists(st.sampled_from([b"", b"a", b"b", b"c", b"d", b"e"]), min_size=1, max_size=4, unique=True),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.sampled_from(["cut", "serve and cut", "nothing"]), max_size=4),
)
@settings(max_examples=25)
def test_every_key_is_stored_once_whatever_is_lost(keys, losses):
    sender = Sender()
    batches = [sender.send(*batch) for batch in keys]
    for loss in losses:
        sender.world.act()
        if loss == "serve and cut":
            sender.world.serve()
        if loss != "nothing":
            sender.world.cut(1)
        sender.world.pass_ms(100)
    sender.world.pass_ms(5_000)
    values = sender.stored
    assert all(batch.error is None for batch in batches)
    for batch, named in zip(batches, keys, strict=True):
        for receipt, key in zip(receipts(batch), named, strict=True):
            assert values[receipt.offset] == (key or b"-")
    for key in (b"a", b"b", b"c", b"d", b"e"):
        assert values.count(key) == any(key in named for named in keys)
    assert values.count(b"-") == sum(named.count(b"") for named in keys)


def test_two_records_of_one_key_do_not_share_a_batch():
    buffer = RecordBuffer(ProducerOptions(), Random(1))
    buffer.partitions = buffer.key_partitions = 8
    batches = []
    for key in (b"x", b"y", b"x", b""):
        record = Record(b"v", key=b"k", idempotency_key=key)
        batches.append(buffer.add(record, record_bytes(record), None, 0, 1_000))
    assert batches[0] is batches[1]
    assert batches[0] is not batches[2]
    assert batches[2] is batches[3]


def test_an_idempotency_key_has_its_partition():
    buffer = RecordBuffer(ProducerOptions(batch_records=1), Random(1))
    buffer.partitions = buffer.key_partitions = 16
    for key in (b"x", b"y", b"z"):
        record = Record(b"v", idempotency_key=key)
        found = {buffer.add(record, record_bytes(record), None, 0, 1_000).partition for _ in range(20)}
        assert len(found) == 1
