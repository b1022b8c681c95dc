"""A writer and a reader of integers, texts and bytes, for metadata commands and snapshots.

Integers are unsigned LEB128, so that ids cost a byte or two; texts are their length and UTF-8, bytes their
length and themselves. The same values always
give the same bytes. Reading is total: malformed bytes raise InvalidArgumentError and nothing else, and a length beyond
the bytes that are left is refused.
"""

from typing import Final

from flotilla.types.errors import InvalidArgumentError

INTEGER_MAX: Final = 2**64 - 1
_SHIFT_MAX: Final = 63


class Writer:
    """Collects bytes."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def integer(self, value: int) -> None:
        assert 0 <= value <= INTEGER_MAX, f"{value} is no unsigned 64 bit integer"
        data = self._data
        while value > 0x7F:
            data.append((value & 0x7F) | 0x80)
            value >>= 7
        data.append(value)

    def text(self, value: str) -> None:
        # Lone surrogates have no bytes: the rules refuse them before a command is proposed.
        encoded = value.encode("utf-8")
        self.integer(len(encoded))
        self._data += encoded

    def raw(self, value: bytes) -> None:
        self.integer(len(value))
        self._data += value

    def finish(self) -> bytes:
        return bytes(self._data)


class Reader:
    """Reads bytes in the order in which a Writer wrote them."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self._data = bytes(data)
        self._at = at

    def integer(self) -> int:
        data = self._data
        at = self._at
        value = 0
        shift = 0
        while True:
            if at >= len(data) or shift > _SHIFT_MAX:
                raise InvalidArgumentError("an integer has no end")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if value > INTEGER_MAX:
            raise InvalidArgumentError("an integer has more than 64 bits")
        self._at = at
        return value

    def count(self) -> int:
        """The count of the items that follow. Each takes at least a byte, so a larger count is refused."""
        count = self.integer()
        if count > len(self._data) - self._at:
            raise InvalidArgumentError(f"{count} items are announced and not there")
        return count

    def text(self) -> str:
        length = self.count()
        start = self._at
        self._at = start + length
        try:
            return self._data[start : self._at].decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArgumentError("a text is not UTF-8") from error

    def raw(self) -> bytes:
        length = self.count()
        start = self._at
        self._at = start + length
        return self._data[start : self._at]

    def skip_zero(self) -> bool:
        """Whether the next integer is 0; only then it is read."""
        before = self._at
        if self.integer() == 0:
            return True
        self._at = before
        return False

    def finish(self) -> None:
        """Raises InvalidArgumentError if bytes are left."""
        if self._at != len(self._data):
            raise InvalidArgumentError(f"{len(self._data) - self._at} bytes are left over")
