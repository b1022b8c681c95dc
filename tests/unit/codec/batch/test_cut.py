"""A cut of a batch is the batch of the slice."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flotilla.codec.batch.check import validate
from flotilla.codec.batch.compression import LZ4, NONE
from flotilla.codec.batch.cut import cut
from flotilla.codec.batch.header import check, patch_base_offset
from flotilla.codec.batch.records import decode_batch, encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.records import Record
from tests.unit.codec.batches import FULL, batches, overwritten, record_lists


@given(record_lists(), st.data())
def test_a_cut_is_a_slice(records, data):
    first = data.draw(st.integers(0, len(records) - 1))
    count = data.draw(st.integers(1, len(records) - first))
    piece = cut(encode_batch(records), first, count)
    assert decode_batch(piece) == records[first : first + count]
    validate(piece)


@given(batches, st.data())
def test_a_cut_knows_its_place_and_its_producer(batch, data):
    source = check(batch)
    assume(source.count > 1)
    placed = bytearray(batch)
    patch_base_offset(placed, 10_000, 7)
    first = data.draw(st.integers(0, source.count - 1))
    piece = check(cut(placed, first, 1))
    assert (piece.base_offset, piece.term, piece.count) == (10_000 + first, 7, 1)
    assert (piece.producer_id, piece.producer_epoch) == (source.producer_id, source.producer_epoch)
    assert piece.producer_sequence == (source.producer_sequence + first) % 2**32


def test_a_sequence_begins_again_after_the_largest():
    batch = encode_batch(FULL, producer_id=1, sequence=2**32 - 1)
    assert [check(cut(batch, first, 1)).producer_sequence for first in range(3)] == [2**32 - 1, 0, 1]


def test_a_cut_of_a_cut_is_a_cut():
    records = [Record(b"v" * n, key=b"k" * (n % 5), timestamp_ms=n) for n in range(100)]
    batch = encode_batch(records)
    assert cut(cut(batch, 10, 60), 5, 20) == cut(batch, 15, 20)


def test_many_offsets_are_lowered_together():
    records = [Record(b"x" * (n % 300)) for n in range(5000)]
    piece = cut(encode_batch(records), 1234, 3000)
    assert decode_batch(piece) == records[1234:4234]


def test_the_whole_batch_is_itself():
    batch = encode_batch(FULL)
    assert cut(batch, 0, 3) == batch


def test_times_are_those_of_the_piece():
    records = [Record(b"", timestamp_ms=time_ms) for time_ms in (5, 9, 1, 2)]
    piece = check(cut(encode_batch(records), 2, 2))
    assert (piece.first_time_ms, piece.max_time_ms) == (1, 2)


def test_a_piece_of_a_compressed_batch_is_plain():
    records = [Record(b'{"order": %d}' % n, timestamp_ms=n) for n in range(1000)]
    batch = encode_batch(records, compression=LZ4)
    assert check(batch).compression == LZ4
    piece = cut(batch, 500, 10)
    assert check(piece).compression == NONE
    assert decode_batch(piece) == records[500:510]


@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 4), (-1, 2), (3, 1), (2, 2), (1, -1), (2**40, 1)])
def test_a_range_outside_of_the_batch_is_refused(first, count):
    with pytest.raises(InvalidArgumentError, match="no records"):
        cut(encode_batch(FULL), first, count)


def test_damaged_bytes_get_no_new_seal():
    batch = bytearray(encode_batch(FULL))
    batch[-1] ^= 1
    with pytest.raises(InvalidArgumentError, match="checksum"):
        cut(batch, 0, 1)


@given(st.integers(0, 80), st.integers(-(2**31), 2**31 - 1))
def test_an_unvalidated_batch_is_refused_or_stays_invalid_but_raises_nothing_else(place, value):
    batch = encode_batch(FULL)
    at = 96 + 4 * place
    assume(at + 4 <= len(batch))
    spoiled = overwritten(batch, at, "i", value)
    for position in range(3):
        try:
            BatchView(spoiled).record(position)
            decode_batch(cut(spoiled, position, 1))
        except InvalidArgumentError:
            pass
