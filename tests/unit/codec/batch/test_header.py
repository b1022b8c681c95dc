"""The batch header: fixed places, and a check that nothing slips through."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch import header as batch
from flotilla.codec.batch.facts import span_of
from flotilla.raft.messages import CONFIG, DATA, NOOP, Entry
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.records import Span


def _batch(body: bytes = b"columns!", count: int = 3) -> bytearray:
    header = batch.pack_header(
        body,
        count=count,
        first_time_ms=1000,
        max_time_ms=2000,
        producer_id=0x0102030405060708,
        producer_epoch=9,
        producer_sequence=77,
    )
    return bytearray(header + body)


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [
        (0, "<Q", 500),
        (8, "<I", 6),
        (12, "<I", 72),
        (20, "<B", 1),
        (21, "<B", 1),
        (22, "<B", 0),
        (23, "<B", 0),
        (24, "<I", 3),
        (28, "<H", 9),
        (30, "<H", 0x4C46),
        (32, "<q", 1000),
        (40, "<q", 2000),
        (48, "<Q", 0x0102030405060708),
        (56, "<I", 77),
        (60, "<I", 0),
    ],
)
def test_each_field_stands_where_the_table_says(offset: int, layout: str, value: int) -> None:
    data = _batch()
    batch.patch_base_offset(data, 500, 6)
    assert struct.unpack_from(layout, data, offset) == (value,)


def test_patching_the_offset_leaves_the_checksum_valid() -> None:
    data = _batch()
    before = batch.check(data)
    batch.patch_base_offset(data, 1 << 40, 12)
    after = batch.check(memoryview(data))
    assert (after.base_offset, after.term) == (1 << 40, 12)
    assert after.crc32c == before.crc32c


@given(st.binary(max_size=200), st.data())
def test_a_flipped_bit_behind_the_patched_fields_is_refused(body: bytes, data: st.DataObject) -> None:
    content = _batch(body)
    bit = data.draw(st.integers(12 * 8, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(InvalidArgumentError):
        batch.check(content)


@given(st.binary(max_size=200))
def test_checking_is_total(content: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        batch.check(content)


@pytest.mark.parametrize("fields", [{"count": 0}, {"producer_epoch": 1 << 16}, {"producer_id": -1}])
def test_fields_that_do_not_fit_are_refused(fields: dict[str, int]) -> None:
    given = {"count": 1, "first_time_ms": 0, "max_time_ms": 0, **fields}
    with pytest.raises(InvalidArgumentError):
        batch.pack_header(b"", **given)  # type: ignore[arg-type]


def test_the_span_of_an_entry_is_its_batch() -> None:
    data = _batch()
    batch.patch_base_offset(data, 41, 2)
    assert span_of(Entry(1, 2, DATA, bytes(data))) == Span(41, 3, 2000)
    assert span_of(Entry(1, 2, DATA, memoryview(data))) == Span(41, 3, 2000)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(1, 1, NOOP, b""),
        Entry(1, 1, CONFIG, bytes(_batch())),
        Entry(1, 1, DATA, b"x" * 100),
        Entry(1, 1, DATA, bytes(_batch()) + b"more"),
        Entry(1, 1, DATA, bytes(_batch())[:60]),
    ],
)
def test_bytes_that_are_no_batch_have_no_span(entry: Entry) -> None:
    assert span_of(entry) is None
