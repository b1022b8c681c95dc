"""A reader of bytes that were written field by field, and functions that write them.

Reading beyond the end raises struct.error; the caller knows what was cut short. Numbers are u64 and little endian on
every machine.
"""

import sys
from array import array
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone
from typing import Final

from flotilla.types.snapshot_data import SnapshotData

_COUNT = Struct("<I")
_SHORT = Struct("<H")
_NUMBER_BYTES: Final = 8


class ByteReader:
    """Reads bytes in one piece or in several, one after the other."""

    __slots__ = ("_at", "_later", "_later_bytes", "_piece")

    def __init__(self, data: SnapshotData) -> None:
        #: The piece that is being read, and the place in it.
        self._piece = b""
        self._at = 0
        #: The next one last.
        self._later: list[bytes] = []
        self._later_bytes = 0
        if isinstance(data, bytes):
            self._piece = data
        else:
            self._later.extend(reversed(data))
            self._later_bytes = sum(map(len, data))

    @property
    def left_bytes(self) -> int:
        return len(self._piece) - self._at + self._later_bytes

    def take(self, layout: Struct) -> tuple[int, ...]:
        at = self._at
        if at + layout.size > len(self._piece) and self._later:
            return layout.unpack(self.bytes(layout.size))
        fields = layout.unpack_from(self._piece, at)
        self._at = at + layout.size
        return fields

    def count(self) -> int:
        return self.take(_COUNT)[0]

    def bytes(self, size: int) -> bytes:
        start = self._at
        end = start + size
        if end <= len(self._piece):
            self._at = end
            return self._piece[start:end]
        if size > self.left_bytes:
            raise StructError("cut short")
        return b"".join(self._parts(size))

    def _parts(self, size: int) -> Iterator[memoryview]:
        """The next `size` bytes, which are there."""
        while size:
            if self._at == len(self._piece):
                self._piece = self._later.pop()
                self._later_bytes -= len(self._piece)
                self._at = 0
            part = memoryview(self._piece)[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            yield part

    def text(self) -> str:
        """Raises UnicodeDecodeError, too."""
        return self.bytes(self.take(_SHORT)[0]).decode("utf-8")

    def number(self) -> int:
        return self.numbers(1)[0]

    def numbers(self, count: int) -> "array[int]":
        values = array("Q")
        values.frombytes(self.bytes(count * _NUMBER_BYTES))
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
