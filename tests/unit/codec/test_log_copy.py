"""Entries as one piece of bytes: what goes in comes out, and other bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.log_copy import decode_entries, encode_entries
from flotilla.raft.messages import CONFIG, DATA, NOOP, Entry
from flotilla.types.errors import InvalidArgumentError

u64 = st.integers(0, 2**64 - 1)
entries = st.lists(st.builds(Entry, u64, u64, st.sampled_from([DATA, NOOP, CONFIG]), st.binary(max_size=30)))


@given(entries)
def test_entries_come_back(given_entries: list[Entry]) -> None:
    assert list(decode_entries(encode_entries(given_entries))) == given_entries


@given(st.binary(max_size=80))
def test_decoding_is_total(data: bytes) -> None:
    try:
        list(decode_entries(data))
    except InvalidArgumentError:
        pass


def test_a_cut_piece_is_refused() -> None:
    piece = encode_entries([Entry(1, 1, DATA, b"abc"), Entry(2, 1, DATA, b"def")])
    for end in range(1, len(piece)):
        if end != len(piece) // 2:
            with pytest.raises(InvalidArgumentError):
                list(decode_entries(piece[:end]))
