"""A reader of bytes that were written field by field, and functions that write them.

Reading beyond the end raises struct.error; the caller knows what was cut short. Numbers are u64 and little endian on
every machine.
"""

import sys
from array import array
from collections.abc import Collection, Iterable
from itertools import chain
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone
from typing import Final

_COUNT = Struct("<I")
_SHORT = Struct("<H")
_NUMBER_BYTES: Final = 8


class ByteReader:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left_bytes(self) -> int:
        return len(self._data) - self._at

    def take(self, layout: Struct) -> tuple[int, ...]:
        fields = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return fields

    def count(self) -> int:
        return self.take(_COUNT)[0]

    def bytes(self, size: int) -> bytes:
        start = self._at
        end = start + size
        if end > len(self._data):
            raise StructError("cut short")
        self._at = end
        return self._data[start:end]

    def text(self) -> str:
        """Raises UnicodeDecodeError, too."""
        return self.bytes(self.take(_SHORT)[0]).decode("utf-8")

    def number(self) -> int:
        return self.numbers(1)[0]

    def numbers(self, count: int) -> "array[int]":
        start = self._at
        end = start + count * _NUMBER_BYTES
        if end > len(self._data):
            raise StructError("cut short")
        self._at = end
        values = array("Q")
        values.frombytes(memoryview(self._data)[start:end])
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def rows(self, width: int) -> list[tuple[int, ...]]:
        """Written by `pack_rows`."""
        numbers = self.numbers(self.count() * width)
        return list(zip(*[numbers[at::width] for at in range(width)], strict=True))

    def columns(self, count: int, width: int) -> "list[array[int]]":
        """Columns of `count` numbers each, one after the other."""
        return [self.numbers(count) for _ in range(width)]


def pack_count(count: int) -> bytes:
    return _COUNT.pack(count)


def pack_text(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return _SHORT.pack(len(encoded)) + encoded


def pack_numbers(values: Iterable[int]) -> bytes:
    """Raises OverflowError for what is no u64."""
    if isinstance(values, array) and values.typecode == "Q" and sys.byteorder == "little":
        return values.tobytes()
    column = array("Q", values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def pack_rows(rows: Collection[Iterable[int]]) -> bytes:
    """The count, then row by row."""
    return pack_count(len(rows)) + pack_numbers(chain.from_iterable(rows))
