"""Records come out of a batch as they went in, and the bytes are those of the reference."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch.columns import COLUMNS_AT, read_directory
from flotilla.codec.batch.compression import LZ4, NONE, ZSTD
from flotilla.codec.batch.header import check, patch_base_offset
from flotilla.codec.batch.records import decode_batch, decode_payloads, encode_batch, encode_payloads
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import BATCH_RECORD_COUNT_MAX, ENTRY_BYTES_MAX, MIB
from flotilla.types.records import Record
from tests.unit.codec.batches import FULL, overwritten, record_lists

JSON = [Record(b'{"order": %d, "state": "paid", "amount": 100}' % n, timestamp_ms=n) for n in range(100)]


@given(record_lists(), st.sampled_from([NONE, LZ4, ZSTD]))
def test_round_trip(records, compression):
    batch = encode_batch(records, compression=compression)
    assert decode_batch(batch) == records
    assert decode_payloads(batch) == [record.payload for record in records]


@given(record_lists())
def test_a_view_says_the_same_one_by_one(records):
    view = BatchView(encode_batch(records))
    assert [view.record(position) for position in range(len(view))] == records
    assert list(view) == view.records() == records
    assert view.payloads() == [record.payload for record in records]
    assert view.count == len(records)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("records", [FULL, FULL[:1], [Record(b"plain")], [Record(b"")]])
def test_any_buffer_is_read(kind, records):
    buffer = kind(encode_batch(records))
    assert decode_batch(buffer) == records
    assert all(type(value) is bytes for value in decode_payloads(buffer))


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=10), st.integers(0, 7), st.integers(0, 1000))
def test_values_alone_make_the_same_batch_as_records(payloads, priority, timestamp_ms):
    records = [Record(value, timestamp_ms=timestamp_ms, priority=priority, content_type=2) for value in payloads]
    alone = encode_payloads(payloads, timestamp_ms=timestamp_ms, priority=priority, content_type=2, producer_id=3)
    assert alone == encode_batch(records, producer_id=3)


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 2**40)), min_size=1, max_size=20), st.booleans())
def test_values_with_times_of_their_own_are_what_their_records_would_be(pairs, is_uniform):
    if is_uniform:
        pairs = [(value, pairs[0][1]) for value, _ in pairs]
    values, times = [value for value, _ in pairs], [time_ms for _, time_ms in pairs]
    records = [Record(value, timestamp_ms=time_ms) for value, time_ms in pairs]
    assert encode_payloads(values, timestamps_ms=times, producer_id=3, sequence=7) == encode_batch(
        records, producer_id=3, sequence=7
    )


def test_null_and_empty_keys_differ():
    records = [Record(b"v", key=key) for key in (None, b"", b"k", None)]
    assert [record.key for record in decode_batch(encode_batch(records))] == [None, b"", b"k", None]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 65])
def test_validity_of_any_length(count):
    records = [Record(b"v", key=b"k" if n % 3 else None) for n in range(count)]
    assert decode_batch(encode_batch(records)) == records


def test_the_header_says_what_a_broker_needs():
    batch = encode_batch(FULL, producer_id=77, producer_epoch=3, sequence=12)
    header = check(batch)
    assert (header.count, header.first_time_ms, header.max_time_ms) == (3, 5, 7)
    assert (header.producer_id, header.producer_epoch, header.producer_sequence) == (77, 3, 12)
    directory = read_directory(batch)
    assert (directory.priority, directory.deliver_at_ms, directory.body_bytes) == (3, 1000, len(batch) - COLUMNS_AT)


def test_a_placed_batch_knows_its_offsets():
    placed = bytearray(encode_batch(FULL))
    patch_base_offset(placed, 500, 4)
    assert decode_batch(placed) == FULL
    assert [BatchView(placed).offset(position) for position in range(3)] == [500, 501, 502]


def test_a_field_that_all_records_share_takes_no_column():
    records = [Record(b"v" * 100, timestamp_ms=9, priority=2, content_type=3, ttl_ms=4) for _ in range(1000)]
    batch = encode_batch(records)
    assert read_directory(batch).columns == 0
    assert len(batch) == COLUMNS_AT + 4 * 1001 + 4 + 100 * 1000


# The bytes.


def test_the_bytes_of_a_plain_batch():
    batch = encode_batch([Record(b"ab", timestamp_ms=1, priority=6, content_type=2), Record(b"c", None, (), 1, 6, 2)])
    directory = struct.pack("<HBBIqqHHI", 0, 6, 2, 19, 0, 0, 0, 0, 0)
    assert batch[64:] == directory + struct.pack("<iiii", 0, 2, 3, 0) + b"abc"


def test_the_bytes_of_every_column():
    batch = encode_batch(FULL)
    columns = [
        struct.pack("<4i", 0, 5, 5, 6),  # value offsets
        struct.pack("<3q", 5, 4, 7),  # timestamps
        struct.pack("<3q", 60_000, 0, 1),  # ttls
        struct.pack("<4i", 0, 3, 3, 3),  # key offsets
        bytes([0b101]),  # key validity
        struct.pack("<4i", 0, 4, 4, 4),  # idempotency offsets
        struct.pack("<4i", 0, 2, 2, 3),  # header offsets
        struct.pack("<4i", 0, 4, 11, 15),  # header name offsets
        struct.pack("<4i", 0, 1, 1, 2),  # header value offsets
        struct.pack("<3H", 9, 0, 65_535),  # max deliveries
        bytes([2, 0, 1]),  # content types
        b"key",
        b"once",
        "namegrößename".encode(),
        b"12",
    ]
    body = b"".join(column + bytes(-len(column) % 8) for column in columns) + b"valuev"
    assert batch[64:] == struct.pack("<HBBIqqHHI", 0xFF, 3, 0, len(body), 1000, 0, 0, 0, 0) + body


def test_columns_are_views_at_multiples_of_eight():
    batch = encode_batch(FULL)
    columns = BatchView(batch).columns
    found = [columns.timestamps, columns.ttls, columns.key_validity, columns.header_offsets, columns.max_deliveries]
    found += [columns.content_types]
    for column in (
        columns.payloads,
        columns.keys,
        columns.idempotency_keys,
        columns.header_names,
        columns.header_values,
    ):
        found += [column.offsets, column.data]
    places = []
    for column in found:
        assert column.obj is batch
        places.append(batch.index(column.tobytes(), COLUMNS_AT) if len(column) > 4 else None)
    assert all(place % 8 == 0 for place in places if place is not None)


# Arrow.


def test_arrow_takes_the_columns_without_a_copy():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is an extra, for Spark")
    records = [Record(b"v%d" % n, None if n % 3 == 0 else b"k%d" % n, timestamp_ms=n) for n in range(1, 20)]
    batch = encode_batch(records)
    columns = BatchView(batch).columns
    count = columns.count
    data = [arrow.py_buffer(part) for part in (columns.payloads.offsets, columns.payloads.data)]
    keys = [arrow.py_buffer(part) for part in (columns.key_validity, columns.keys.offsets, columns.keys.data)]
    value_column = arrow.Array.from_buffers(arrow.binary(), count, [None, *data])
    key_column = arrow.Array.from_buffers(arrow.binary(), count, keys)
    time_column = arrow.Array.from_buffers(arrow.timestamp("ms"), count, [None, arrow.py_buffer(columns.timestamps)])
    table = arrow.RecordBatch.from_arrays([value_column, key_column, time_column], ["value", "key", "timestamp"])
    table.validate(full=True)
    assert table["value"].to_pylist() == [record.payload for record in records]
    assert table["key"].to_pylist() == [record.key for record in records]
    assert table["timestamp"].cast(arrow.int64()).to_pylist() == [record.timestamp_ms for record in records]


# Compression.


@pytest.mark.parametrize("compression", [LZ4, ZSTD])
def test_compressed_columns_leave_header_and_directory_plain(compression):
    plain = encode_batch(JSON)
    packed = encode_batch(JSON, compression=compression)
    assert check(packed).compression == compression
    assert len(packed) < len(plain) / 2
    assert read_directory(packed) == read_directory(plain)
    assert decode_batch(packed) == decode_batch(plain) == JSON


@pytest.mark.parametrize("compression", [LZ4, ZSTD])
@pytest.mark.parametrize(
    "value", [b"small", bytes(1 * MIB), bytes((n * n * 31 + n // 7) * 2654435761 >> 9 & 255 for n in range(3000))]
)
def test_a_small_or_dense_or_zero_payload_comes_back_unchanged(compression, value):
    batch = encode_batch([Record(value)], compression=compression)
    assert decode_batch(batch) == [Record(value)]
    if len(value) != 3000:
        assert check(batch).compression == NONE


def test_compression_is_known_or_refused():
    with pytest.raises(InvalidArgumentError, match="unknown compression 3"):
        encode_batch(JSON, compression=3)
    with pytest.raises(InvalidArgumentError, match="unknown compression 9"):
        decode_batch(overwritten(encode_batch(JSON), 22, "B", 9))


# Refusals.


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "1 to 65536 records, not 0"),
        ([Record(b"")] * (BATCH_RECORD_COUNT_MAX + 1), "records, not 65537"),
        ([Record(b"", priority=1), Record(b"", priority=2)], "share one priority"),
        ([Record(b"", deliver_at_ms=1), Record(b"")], "share one deliver-at"),
        ([Record(b"", priority=8)], "priority 8"),
        ([Record(b"", priority=-1)] * 2, "priority -1"),
        ([Record("text")], "does not fit"),
        ([Record("text")] * 2, "does not fit"),
        ([Record(None)], "does not fit"),
        ([Record(7)] * 2, "does not fit"),
        ([Record(b"", key="k")], "does not fit"),
        ([Record(b"", key=7)] * 2, "does not fit"),
        ([Record(b"", timestamp_ms=2**63)], "does not fit"),
        ([Record(b"", timestamp_ms=1.5), Record(b"")], "does not fit"),
        ([Record(b"", ttl_ms=2**63)] * 2, "does not fit"),
        ([Record(b"", ttl_ms=2**63), Record(b"")], "does not fit"),
        ([Record(b"", content_type=256)], "does not fit"),
        ([Record(b"", content_type=256), Record(b"")], "does not fit"),
        ([Record(b"", max_deliveries=65_536), Record(b"")], "does not fit"),
        ([Record(b"", headers=(("name", "text"),))], "does not fit"),
        ([Record(b"", headers=((b"name", b""),))], "does not fit"),
        ([Record(b"", headers=(("\ud800", b""),))], "does not fit"),
        ([Record(b"", headers=(("a",),))], "does not fit"),
        ([Record(b"", idempotency_key="text")], "does not fit"),
        ([Record(b"", deliver_at_ms=None)], "does not fit"),
        ([Record(b"", headers=(("", b""),) * 64)] * 4097, "262208 headers"),
        ([Record(b"x" * 9 * MIB)] * 2, "too many for one batch"),
        ([Record(b"x" * ENTRY_BYTES_MAX)], "above"),
    ],
)
def test_records_that_do_not_fit_are_refused(records, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        encode_batch(records)


def test_values_that_do_not_fit_are_refused_too():
    for bad, priority in (([], 0), (["text"], 0), ([b""], 8)):
        with pytest.raises(InvalidArgumentError):
            encode_payloads(bad, timestamp_ms=0, priority=priority)
    with pytest.raises(InvalidArgumentError):
        encode_payloads([b""], timestamp_ms=2**63)


@pytest.mark.parametrize("position", [-1, 3, 2**31])
def test_a_view_has_no_other_positions(position):
    view = BatchView(encode_batch(FULL))
    for read in (
        view.payload,
        view.key,
        view.timestamp_ms,
        view.headers,
        view.idempotency_key,
        view.offset,
        view.record,
    ):
        with pytest.raises(InvalidArgumentError, match="no record"):
            read(position)


def test_a_view_may_skip_the_checksum_and_nothing_else():
    spoiled = bytearray(encode_batch(FULL))
    spoiled[-1] ^= 1
    assert BatchView(spoiled, verify=False).payload(2) == b"w"
    with pytest.raises(InvalidArgumentError, match="checksum"):
        BatchView(spoiled)
    with pytest.raises(InvalidArgumentError):
        BatchView(spoiled[:-1], verify=False)


@pytest.mark.parametrize(
    ("at", "layout", "fields"),
    [(68, "I", (10,)), (90, "H", (1,)), (92, "I", (1,)), (96, "ii", (1, 3)), (96, "ii", (0, 2)), (96, "ii", (0, 4))],
)
def test_a_batch_of_one_is_read_as_strictly_as_any(at, layout, fields):
    with pytest.raises(InvalidArgumentError):
        decode_batch(overwritten(encode_batch([Record(b"one")]), at, layout, *fields))


@pytest.mark.parametrize(("first", "second"), [(0, -1), (0, 7), (-3, 3), (4, 3)])
def test_a_view_refuses_the_record_whose_offsets_are_wrong(first, second):
    batch = encode_batch([Record(b"one"), Record(b"two")])
    view = BatchView(overwritten(batch, COLUMNS_AT, "ii", first, second))
    with pytest.raises(InvalidArgumentError, match="outside"):
        view.payload(0)


def test_a_foreign_batch_has_no_columns():
    with pytest.raises(InvalidArgumentError, match="format 2"):
        decode_batch(overwritten(encode_batch([Record(b"x")]), 21, "B", 2))


def test_offsets_of_a_stretch_are_those_of_a_loop():
    lengths = [len(record.payload) for record in JSON]
    offsets = BatchView(encode_batch(JSON)).columns.payloads.offsets.tolist()
    assert [end - start for start, end in pairwise(offsets)] == lengths
