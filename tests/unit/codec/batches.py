"""Strategies for records and batches, and ways to spoil a batch on purpose."""

import struct

from crc32c import crc32c
from hypothesis import strategies as st

from flotilla.codec.batch.compression import LZ4, NONE, ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.types.limits import DELIVERY_COUNT_MAX, PRIORITY_MAX, TIME_MS_MAX
from flotilla.types.records import Record

times = st.one_of(st.integers(0, 3), st.integers(0, TIME_MS_MAX), st.just(TIME_MS_MAX))
small = st.binary(max_size=12)
headers = st.lists(st.tuples(st.text(max_size=4), st.binary(max_size=4)), max_size=3).map(tuple)

#: Every column either the same for all records of a batch, or different from one to the next.
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "key": st.none() | small,
    "headers": headers,
    "timestamp_ms": times,
    "content_type": st.integers(0, 255),
    "ttl_ms": times,
    "idempotency_key": small,
    "max_deliveries": st.integers(0, DELIVERY_COUNT_MAX),
}


@st.composite
def record_lists(draw, count_max=12):
    shared = {"priority": draw(st.integers(0, PRIORITY_MAX)), "deliver_at_ms": draw(times)}
    varied = {}
    for name, strategy in FIELDS.items():
        kind = draw(st.sampled_from(["absent", "shared", "varied"]))
        if kind == "shared":
            shared[name] = draw(strategy)
        elif kind == "varied":
            varied[name] = strategy
    rows = st.fixed_dictionaries({"payload": st.binary(max_size=30), **varied})
    return [Record(**shared, **row) for row in draw(st.lists(rows, min_size=1, max_size=count_max))]


batches = st.builds(
    encode_batch,
    record_lists(),
    compression=st.sampled_from([NONE, LZ4, ZSTD]),
    producer_id=st.integers(0, 2**64 - 1),
    producer_epoch=st.integers(0, 2**16 - 1),
    sequence=st.integers(0, 2**32 - 1),
)

#: One record with everything, one with nothing.
FULL = [
    Record(b"value", b"key", (("name", b"1"), ("größe", b"")), 5, 3, 2, 1000, 60_000, b"once", 9),
    Record(b"", None, (), 4, 3, 0, 1000, 0, b"", 0),
    Record(b"v", b"", (("name", b"2"),), 7, 3, 1, 1000, 1, b"", 65_535),
]


def resealed(batch: bytes | bytearray) -> bytes:
    """The batch with the length and the checksum of its bytes, whatever they say."""
    spoiled = bytearray(batch)
    struct.pack_into("<I", spoiled, 12, len(spoiled))
    struct.pack_into("<I", spoiled, 16, crc32c(bytes(spoiled[20:])))
    return bytes(spoiled)


def overwritten(batch: bytes, at: int, layout: str, *fields: int) -> bytes:
    """The batch with other fields at one place, sealed again."""
    spoiled = bytearray(batch)
    struct.pack_into("<" + layout, spoiled, at, *fields)
    return resealed(spoiled)
