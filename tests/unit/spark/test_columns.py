"""Rows to stored batches and back: unchanged, and as a client would store them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the spark extra")

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from flotilla.codec.batch.compression import LZ4, NONE
from flotilla.codec.batch.header import patch_base_offset
from flotilla.codec.batch.records import decode_batch, encode_batch
from flotilla.lake.arrow import record_batch, record_batches
from flotilla.lake.offset_range import OffsetRange
from flotilla.spark.encoding import Numbered, encode
from flotilla.spark.options import Options
from flotilla.spark.rows import BATCH_ROWS_MAX, Lane, Pending, Sorter
from flotilla.spark.schema import COLUMNS
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.records import Record

SCHEMA = to_arrow_schema(StructType([StructField(name, kind) for name, kind in COLUMNS.items()]), timezone="UTC")
HEADERS = st.lists(st.tuples(st.sampled_from(["", "h", "größe"]), st.binary(max_size=2)), max_size=2)
RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=8),
        st.none() | st.binary(max_size=4),
        HEADERS.map(tuple),
        st.integers(0, 10**12),
        st.just(3),
        st.integers(0, 255),
    ).map(lambda fields: Record(*fields)),
    min_size=1,
    max_size=6,
)


def placed(records, base_offset=0, compression=NONE):
    batch = bytearray(encode_batch(records, compression=compression))
    patch_base_offset(batch, base_offset, 1)
    return bytes(batch)


def rows_of(batch):
    return [
        Record(
            row["value"],
            row["key"],
            tuple((pair["key"], pair["value"]) for pair in row["headers"]),
            round(row["timestamp"].timestamp() * 1000),
            row["priority"],
            row["content_type"],
        )
        for row in batch.to_pylist()
    ]


@given(RECORDS, st.integers(0, 7), st.integers(0, 7), st.sampled_from([NONE, LZ4]))
def test_a_stored_batch_as_columns(records, first, end, compression):
    wanted = OffsetRange("t", 4, 100 + first, 100 + end)
    found = record_batch(placed(records, 100, compression), wanted, SCHEMA)
    found.validate(full=True)
    assert found.schema.equals(SCHEMA)
    assert rows_of(found) == records[first:end]
    assert found.column("offset").to_pylist() == list(range(100, 100 + len(records)))[first:end]
    assert set(found.column("topic").to_pylist()) <= {"t"}
    assert set(found.column("partition").to_pylist()) <= {4}


@given(st.lists(RECORDS, max_size=3))
def test_small_batches_are_joined(lists):
    stored, offset = [], 0
    for records in lists:
        stored.append(placed(records, offset))
        offset += len(records)
    found = list(record_batches(stored, OffsetRange("t", 0, 0, offset), SCHEMA))
    assert len(found) == (1 if lists else 0)
    assert [row for batch in found for row in rows_of(batch)] == [record for records in lists for record in records]


def test_a_batch_that_fails_its_checksum_is_not_given_out():
    stored = bytearray(placed([Record(b"value")]))
    stored[-1] ^= 1
    with pytest.raises(CorruptionError, match="checksum"):
        record_batch(bytes(stored), OffsetRange("t", 0, 0, 1), SCHEMA)


def table(records):
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.payload for record in records], pa.binary()),
            "headers": pa.array(
                [[{"key": name, "value": value} for name, value in record.headers] for record in records],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "timestamp": pa.array([record.timestamp_ms * 1000 for record in records], pa.timestamp("us", "UTC")),
            "content_type": pa.array([record.content_type for record in records], pa.int32()),
            "priority": pa.array([record.priority for record in records], pa.int32()),
        }
    )


def sorted_rows(batch, partitions=1, topic="t"):
    return list(Sorter(Options(topic=topic), lambda name: (partitions, partitions), 0).sort(batch))


@given(RECORDS, st.integers(0, 10))
def test_rows_become_the_batch_that_a_client_makes_of_them(records, skipped):
    # A slice: what Spark hands over may begin anywhere in its buffers.
    batch = table([*records[:1] * skipped, *records]).slice(skipped)
    ((lane, rows),) = sorted_rows(batch)
    assert lane == Lane("t", 0, 3, 0)
    made = encode(
        rows, priority=3, deliver_at_ms=0, now_ms=1, compression=NONE, numbered=Numbered(producer_id=9, sequence=4)
    )
    assert decode_batch(made) == records


@given(RECORDS, st.integers(1, 4))
def test_rows_go_where_a_client_sends_them(records, partitions):
    from flotilla.client.producer.partitioner import partition_of

    for lane, rows in sorted_rows(table(records), partitions):
        keys = rows.column("key").to_pylist()
        assert {0 if key is None else partition_of(key, partitions) for key in keys} == {lane.partition}
        # In their order.
        mine = [record for record in records if lane.partition == (
            0 if record.key is None else partition_of(record.key, partitions))]  # fmt: skip
        assert rows.column("value").to_pylist() == [record.payload for record in mine]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=20), st.lists(st.integers(1, 7), max_size=10))
def test_batches_do_not_depend_on_the_pieces_that_rows_come_in(values, sizes):
    def cut(pieces):
        pending, found = Pending(100), []
        for piece in pieces:
            found += pending.add(pa.RecordBatch.from_pydict({"value": pa.array(piece, pa.binary())}))
        found += pending.rest()
        return [batch.column("value").to_pylist() for batch in found]

    pieces, at = [], 0
    for size in sizes:
        if values[at : at + size]:
            pieces.append(values[at : at + size])
        at += size
    if values[at:]:
        pieces.append(values[at:])
    assert cut(pieces) == cut([values])
    assert [value for batch in cut(pieces) for value in batch] == values


def test_a_batch_has_no_more_rows_than_brokers_take():
    pending = Pending(1 << 30)
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b""] * (2 * BATCH_ROWS_MAX + 1), pa.binary())})
    sizes = [batch.num_rows for batch in pending.add(rows)] + [batch.num_rows for batch in pending.rest()]
    assert sizes == [BATCH_ROWS_MAX, BATCH_ROWS_MAX, 1]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": [None]}, "no value"),
        ({"value": [b"x"], "partition": [3]}, "has no partition 3"),
        ({"value": [b"x"], "partition": [-1]}, "has no partition -1"),
        ({"value": [b"x"], "priority": [8]}, "priority is from 0 to 7"),
        ({"value": [b"x"], "content_type": [256]}, "content_type is from 0 to 255"),
    ],
)
def test_an_invalid_row_is_refused(columns, words):
    kinds = {"value": pa.binary(), "partition": pa.int32(), "priority": pa.int32(), "content_type": pa.int32()}
    batch = pa.RecordBatch.from_pydict({name: pa.array(rows, kinds[name]) for name, rows in columns.items()})
    with pytest.raises(InvalidArgumentError, match=words):
        sorted_rows(batch, 2)
