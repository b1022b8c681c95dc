"""Reading bytes that came in pieces."""

from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone

import pytest

from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers, pack_text

_PAIR = Struct("<HQ")
_WRITTEN = pack_count(3) + pack_numbers([1, 2**64 - 1, 3]) + pack_text("fl\u00f6te") + _PAIR.pack(7, 8) + b"rest"


def read(reader: ByteReader) -> tuple[object, ...]:
    return (list(reader.numbers(reader.count())), reader.text(), reader.take(_PAIR), reader.bytes(4), reader.left_bytes)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 21, len(_WRITTEN)])
def test_pieces_of_any_size_read_like_the_whole(size: int) -> None:
    cut = tuple(_WRITTEN[at : at + size] for at in range(0, len(_WRITTEN), size))
    assert read(ByteReader(cut)) == read(ByteReader(_WRITTEN)) == ([1, 2**64 - 1, 3], "fl\u00f6te", (7, 8), b"rest", 0)
    short = ByteReader(tuple(piece for piece in (*cut[:-1], cut[-1][:-1]) if piece))
    with pytest.raises(StructError):
        read(short)


def test_no_pieces_are_no_bytes() -> None:
    assert ByteReader(()).left_bytes == 0
    with pytest.raises(StructError):
        ByteReader(()).count()
