"""The endpoint lets in what is right, and refuses everything else with one type of error."""

import struct
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch.check import validate
from flotilla.codec.batch.columns import COLUMNS_AT, DIRECTORY, KEY_VALIDITY, KEYS
from flotilla.codec.batch.compression import LZ4, ZSTD
from flotilla.codec.batch.header import HEADER_BYTES, pack_header
from flotilla.codec.batch.records import decode_batch, encode_batch
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import MIB, TIME_MS_MAX
from flotilla.types.records import Record, RecordLimits
from tests.unit.codec.batches import batches, overwritten, resealed

PATCHED_BYTES = 12
PLAIN = encode_batch([Record(b"one", timestamp_ms=5), Record(b"two", timestamp_ms=9)])
LARGE = [Record(b'{"order": %d}' % n, timestamp_ms=n) for n in range(1000)]
TIGHT = RecordLimits(
    payload_bytes_max=10,
    key_bytes_max=4,
    idempotency_key_bytes_max=4,
    header_count_max=2,
    header_bytes_max=14,
    record_count_max=3,
    batch_bytes_max=600,
)


@given(batches)
def test_a_batch_that_the_codec_writes_is_valid(batch):
    view = validate(batch)
    assert view.records() == decode_batch(batch)


@given(batches, st.data())
def test_every_flipped_bit_outside_of_the_patched_fields_is_refused(batch, data):
    bit = data.draw(st.integers(PATCHED_BYTES * 8, len(batch) * 8 - 1))
    spoiled = bytearray(batch)
    spoiled[bit >> 3] ^= 1 << (bit & 7)
    with pytest.raises(InvalidArgumentError):
        validate(spoiled)
    with pytest.raises(InvalidArgumentError):
        decode_batch(spoiled)


@given(st.integers(0, PATCHED_BYTES * 8 - 1))
def test_the_patched_fields_may_be_anything(bit):
    placed = bytearray(PLAIN)
    placed[bit >> 3] ^= 1 << (bit & 7)
    validate(placed)


def answers(spoiled: bytes) -> None:
    """Both readers refuse by type or agree: what passes the endpoint can be decoded."""
    try:
        view = validate(spoiled)
    except InvalidArgumentError:
        try:
            decode_batch(spoiled)
        except InvalidArgumentError:
            pass
    else:
        assert view.records() == decode_batch(spoiled)
        assert [view.record(position) for position in range(view.count)] == view.records()


@given(st.binary(max_size=300))
def test_any_bytes_get_an_answer(data):
    answers(data)


@given(batches, st.data())
def test_any_truncation_gets_an_answer(batch, data):
    size_bytes = data.draw(st.integers(0, len(batch) - 1))
    with pytest.raises(InvalidArgumentError):
        validate(batch[:size_bytes])
    if size_bytes > HEADER_BYTES:
        answers(resealed(batch[:size_bytes]))


@given(batches, st.data())
def test_any_lie_with_a_right_checksum_gets_an_answer(batch, data):
    spoiled = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(20, len(batch) - 1))
        piece = data.draw(st.binary(min_size=1, max_size=4))
        spoiled[at : at + len(piece)] = piece[: len(batch) - at]
    answers(resealed(spoiled))


@given(st.binary(max_size=200), st.integers(0, 2), st.integers(1, 2**32 - 1), st.integers(0, 0x1FF))
def test_any_body_behind_a_right_header_gets_an_answer(body, compression, count, present):
    directory = DIRECTORY.pack(present, 0, 0, len(body), 0, 0, 0, 0, 0)
    rest = directory + body
    answers(pack_header(rest, count=count, first_time_ms=0, max_time_ms=0, compression=compression) + rest)


@pytest.mark.parametrize(
    ("at", "layout", "fields", "reason"),
    [
        (22, "B", (3,), "unknown compression"),
        (23, "B", (2,), "reserved bits"),
        (23, "B", (1,), "only a transaction"),
        (24, "I", (1,), "do not fill"),
        (24, "I", (3,), "do not fill|beyond|out of order"),
        (24, "I", (60_000,), "beyond"),
        (24, "I", (65_537,), "65537 records"),
        (24, "I", (2**32 - 1,), "4294967295 records"),
        (32, "q", (6,), "times in the batch header"),
        (40, "q", (10,), "times in the batch header"),
        (64, "H", (0x101,), "unknown columns 0x100"),
        (64, "H", (KEY_VALIDITY | 1,), "but no keys"),
        (64, "H", (KEYS | 1,), "beyond|negative|fill"),
        (64, "H", (0,), "fill"),
        (66, "B", (8,), "priority 8"),
        (68, "I", (0,), "bytes of columns"),
        (68, "I", (2**32 - 1,), "bytes of columns"),
        (72, "q", (-1,), "deliver_at_ms"),
        (72, "q", (TIME_MS_MAX + 1,), "deliver_at_ms"),
        (80, "q", (-1,), "ttl_ms"),
        (90, "H", (1,), "reserved bytes"),
        (92, "I", (1,), "reserved bytes"),
        (96, "i", (1,), "out of order"),
        (96, "iii", (0, 7, 6), "out of order"),
        (96, "iii", (0, -1, 6), "out of order"),
        (96, "iii", (0, 3, 7), "do not fill"),
        (96, "iii", (0, 3, -6), "do not fill"),
        (112, "q", (6,), "times in the batch header"),
        (112, "qq", (5, 8), "times in the batch header"),
    ],
)
def test_each_lie_is_named(at, layout, fields, reason):
    validate(PLAIN)
    with pytest.raises(InvalidArgumentError, match=reason):
        validate(overwritten(PLAIN, at, layout, *fields))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record(b"v" * 11), "a payload of 11 bytes"),
        (Record(b"", b"12345"), "a key of 5 bytes"),
        (Record(b"", idempotency_key=b"12345"), "an idempotency key of 5 bytes"),
        (Record(b"", headers=(("a", b""),) * 3), "more than 2 headers"),
        (Record(b"", headers=(("a" * 8, b"1234567"),)), "more than 14 bytes of headers"),
        (Record(b"", ttl_ms=-1), "ttl_ms"),
        (Record(b"", ttl_ms=TIME_MS_MAX + 1), "ttl_ms"),
        (Record(b"", timestamp_ms=-1), "timestamp_ms"),
        (Record(b"", timestamp_ms=TIME_MS_MAX + 1), "timestamp_ms"),
    ],
)
def test_one_record_over_a_limit_refuses_the_batch(record, reason):
    # The other two are as large as is allowed, so that no sum hides the one.
    allowed = Record(b"v" * 10, b"1234", (("a" * 7, b"1234567"),), idempotency_key=b"1234")
    validate(encode_batch([allowed] * 3), TIGHT)
    for position in range(3):
        records = [allowed] * 3
        records[position] = record
        with pytest.raises(InvalidArgumentError, match=reason):
            validate(encode_batch(records), TIGHT)


def test_count_and_bytes_of_the_batch_are_limited():
    with pytest.raises(InvalidArgumentError, match="4 records is above 3"):
        validate(encode_batch([Record(b"")] * 4), TIGHT)
    with pytest.raises(InvalidArgumentError, match="is above 600"):
        validate(encode_batch([Record(b"v" * 600)]), TIGHT)


@pytest.mark.parametrize("name", [b"\xff", b"\xc3\xc3", b"\xed\xa0\x80"])
def test_header_names_are_text(name):
    good = encode_batch([Record(b"", headers=(("é" * 3, b""),)), Record(b"", headers=(("x", b""),))])
    at = good.index("é".encode())
    spoiled = bytearray(good)
    spoiled[at : at + len(name)] = name
    with pytest.raises(InvalidArgumentError, match="not UTF-8"):
        validate(resealed(spoiled))
    with pytest.raises(InvalidArgumentError, match="not UTF-8"):
        decode_batch(resealed(spoiled))


def test_a_character_cut_in_two_by_an_offset_is_not_text():
    batch = encode_batch([Record(b"", headers=(("é", b""), ("é", b"")))])
    offsets = struct.pack("<iii", 0, 2, 4)
    with pytest.raises(InvalidArgumentError, match="not UTF-8"):
        validate(overwritten(batch, batch.index(offsets), "iii", 0, 1, 4))


def test_headers_of_a_batch_are_counted_before_they_are_read():
    batch = encode_batch([Record(b"", headers=(("é", b""), ("é", b"")))])
    for lie in (262_145, 2**31 - 1):
        with pytest.raises(InvalidArgumentError, match=f"{lie} headers"):
            validate(overwritten(batch, COLUMNS_AT + 8 + 4, "i", lie))
    with pytest.raises(InvalidArgumentError, match="negative"):
        validate(overwritten(batch, COLUMNS_AT + 8 + 4, "i", -1))


# Compression.


@pytest.mark.parametrize("compression", [LZ4, ZSTD])
def test_the_size_of_a_compressed_batch_is_what_it_says(compression):
    batch = encode_batch(LARGE, compression=compression)
    (body_bytes,) = struct.unpack_from("<I", batch, 68)
    assert validate(batch).records() == LARGE
    for lie in (0, 1, body_bytes - 1, body_bytes + 1, 2**31, 2**32 - 1):
        with pytest.raises(InvalidArgumentError):
            validate(overwritten(batch, 68, "I", lie))
    with pytest.raises(InvalidArgumentError, match="opens to"):
        validate(batch, RecordLimits(batch_bytes_max=body_bytes - 1))


@pytest.mark.parametrize("compression", [LZ4, ZSTD])
@given(st.data())
def test_spoiled_compressed_bytes_get_an_answer(compression, data):
    spoiled = bytearray(encode_batch(LARGE, compression=compression))
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(COLUMNS_AT, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    answers(resealed(spoiled))


def bomb(declared: int, packed: bytes, compression: int) -> bytes:
    rest = DIRECTORY.pack(0, 0, 0, declared, 0, 0, 0, 0, 0) + packed
    return pack_header(rest, count=1, first_time_ms=0, max_time_ms=0, compression=compression) + rest


@pytest.mark.parametrize(
    "batch",
    [
        bomb(16 * MIB, zstandard.ZstdCompressor().compress(bytes(16 * MIB)), ZSTD),
        bomb(1000, zstandard.ZstdCompressor().compress(bytes(16 * MIB)), ZSTD),
        # A frame that declares an exabyte, and one that declares nothing.
        bomb(1000, b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little") + b"\x01\x00\x00", ZSTD),
        bomb(1000, zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1000)), ZSTD),
        bomb(2**32 - 1, bytes(64), LZ4),
        bomb(16 * MIB, b"\x1f\x00\x01\x00" + b"\xff" * 200 + b"\x00" * 6, LZ4),
    ],
)
def test_a_bomb_does_not_go_off(batch):
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError):
            validate(batch)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 200_000


def test_something_behind_the_frame_is_refused():
    batch = encode_batch(LARGE, compression=ZSTD)
    with pytest.raises(InvalidArgumentError):
        validate(resealed(batch + b"more"))
