"""Facts of a batch: complete for every batch, and none for other bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch.compression import LZ4, NONE, ZSTD
from flotilla.codec.batch.facts import facts_of, facts_of_view, span_of
from flotilla.codec.batch.header import FORMAT_FOREIGN, pack_header
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.partition.batch_facts import BatchFacts
from flotilla.raft.messages import DATA, Entry
from flotilla.types.records import Record
from tests.unit.codec.batches import FULL, batches, overwritten


@given(batches)
def test_facts_of_bytes_and_of_a_view_agree(batch):
    view = BatchView(batch)
    records = view.records()
    facts = facts_of(batch)
    assert facts == facts_of(memoryview(batch)) == facts_of_view(view)
    assert (facts.count, facts.size_bytes) == (len(records), len(batch))
    assert facts.max_time_ms == max(record.timestamp_ms for record in records)
    assert {record.priority for record in records} == {facts.priority}
    assert {record.deliver_at_ms for record in records} == {facts.deliver_at_ms}
    keys = tuple(record.idempotency_key for record in records)
    assert facts.idempotency_keys == (keys if any(keys) else ())


@pytest.mark.parametrize("compression", [NONE, LZ4, ZSTD])
def test_every_field_stands_where_it_is_read(compression):
    batch = encode_batch(FULL, compression=compression, producer_id=11, producer_epoch=12, sequence=13)
    assert facts_of(batch) == BatchFacts(0, 3, 7, 11, 12, 13, len(batch), 3, 1000, (b"once", b"", b""))


@given(st.binary(max_size=200))
def test_a_foreign_batch_has_no_directory(body):
    header = pack_header(body, count=2, first_time_ms=1, max_time_ms=5, format=FORMAT_FOREIGN, producer_id=9)
    assert facts_of(header + body) == BatchFacts(0, 2, 5, 9, 0, 0, 64 + len(body))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_batch_have_no_facts(data):
    assert facts_of(data) is None
    batch = encode_batch([Record(b"value")])
    for other in (batch + data + b"x", batch[:-1], batch[: 30 + len(data) % 60]):
        assert facts_of(other) is None
        assert span_of(Entry(1, 1, DATA, other)) is None


@pytest.mark.parametrize("at", [104, 108, 112])
def test_unchecked_columns_stop_no_replica(at):
    """The endpoint lets no such batch in; if one is stored all the same, every replica sees the same nothing."""
    batch = encode_batch([Record(b"value", idempotency_key=b"key")] * 3)
    facts = facts_of(overwritten(batch, at, "i", -7))
    assert facts is not None
    assert facts.idempotency_keys in ((), (b"key",) * 3)


@given(batches, st.data())
def test_any_bytes_behind_the_header_give_facts(batch, data):
    garbled = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 4))):
        garbled[data.draw(st.integers(64, len(batch) - 1))] = data.draw(st.integers(0, 255))
    facts = facts_of(bytes(garbled))
    assert facts is not None
    assert len(facts.idempotency_keys) in (0, facts.count)
