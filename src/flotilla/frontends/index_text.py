"""The metadata index as text, in a header of HTTP and in the metadata of a gRPC call."""

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Index

#: Of an index in decimal notation.
_DIGITS_MAX = 19


def read_index(text: str | bytes) -> Index:
    """Raises InvalidArgumentError."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise InvalidArgumentError(f"{text[:40]!r} is no metadata index: send back the number that an answer carried")
    return int(text)
