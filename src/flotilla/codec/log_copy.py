"""Entries of a log as one piece of bytes: what a backup reads from a broker and keeps in its files.

    for each entry, little endian: index 8, term 8, kind 1, length of the data 4; then the data

Decoding is total: other bytes raise only InvalidArgumentError.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from flotilla.raft.messages import CONFIG, DATA, NOOP, Entry
from flotilla.types.errors import InvalidArgumentError

_HEAD: Final = Struct("<QQBI")


def encode_entries(entries: Iterable[Entry]) -> bytes:
    parts: list[bytes | memoryview] = []
    for entry in entries:
        parts += (_HEAD.pack(entry.index, entry.term, entry.kind, len(entry.data)), entry.data)
    return b"".join(parts)


def decode_entries(data: bytes | memoryview) -> Iterator[Entry]:
    """Raises InvalidArgumentError when it comes to bytes that are no entry."""
    view, at = memoryview(data), 0
    while at < len(view):
        if len(view) - at < _HEAD.size:
            raise InvalidArgumentError("a piece of a log ends inside of an entry")
        index, term, kind, length = _HEAD.unpack_from(view, at)
        at += _HEAD.size
        if kind not in (DATA, NOOP, CONFIG) or length > len(view) - at:
            raise InvalidArgumentError(f"a piece of a log has an unreadable entry after index {index}")
        yield Entry(index, term, kind, view[at : at + length])
        at += length
