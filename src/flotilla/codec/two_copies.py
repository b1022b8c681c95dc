"""Small files that hold their content twice, so that one bad sector loses none of it: `format`, identity, starts.

Each copy has a checksum and sectors of its own. This module knows where copies are and which of them are intact; what
they say belongs to their owners. Three rules:

1. A file is replaced as a whole, by a new one under its name: a power cut leaves the old one or the new one.
2. No write has bytes of both copies.
3. A damaged copy is written over with the content of the intact one, in place. That touches no sector of the intact
   copy, needs no room, and undoes no replacement by another thread: the old file has no name any more by then.

A text is one JSON object. The two copies of its members are one JSON object again, in which each member comes twice,
so people and earlier programs, which know nothing of copies, read the file like any other:

    {"node": 2, ..., "crc32c": "1a2b3c4d",   spaces up to the end of a sector, line feed
     "node": 2, ..., "crc32c": "1a2b3c4d"}   the same
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from flotilla.codec.checksum import crc32c

#: The unit that a disk writes, tears, loses and reads as a whole.
SECTOR_BYTES: Final = 4096

#: A place in a file, and what to write there.
Patch: TypeAlias = tuple[int, bytes]

_TEXT = re.compile(rb'[{ ](".*), "crc32c": "([0-9a-f]{8})"[,}]')


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies that a file holds."""

    #: None: no copy is intact, or the file is of an earlier version, which had one copy.
    content: bytes | None = None
    #: The copies as they must be; empty without content.
    expected: tuple[bytes, ...] = ()
    #: The numbers of those that differ from that, from 1 on.
    damaged: tuple[int, ...] = ()

    def patches(self) -> list[Patch]:
        """What mends the damaged copies."""
        return [((number - 1) * len(self.expected[0]), self.expected[number - 1]) for number in self.damaged]


#: Finds the copies in the content of a file.
Find: TypeAlias = Callable[[bytes], Copies]


class Folder(Protocol):
    """A data directory; its text is its path."""

    def has(self, name: str) -> bool: ...

    def read(self, name: str, mend: Callable[[bytes], Sequence[Patch]] | None = None) -> bytes | None:
        """The content of a file, with zeros for what the disk cannot read; None: there is no such file.

        `mend` gets the content, and returns what to write over the same file, durably. Raises DiskFullError.
        """

    def write(self, name: str, *copies: bytes) -> None:
        """Replaces a file, atomically and durably, by these one after the other. Raises DiskFullError."""


def find_copies(
    content: bytes, decode: Callable[[bytes], bytes | None], encode: Callable[[bytes], tuple[bytes, ...]]
) -> Copies:
    """`decode` returns the content of the copy at the start of some bytes; None: there is no intact one."""
    for position in range(0, len(content), SECTOR_BYTES):
        decoded = decode(content[position:])
        if decoded is None:
            continue
        expected = encode(decoded)
        size = len(expected[0])
        if position in (0, size):
            found = [content[at * size : (at + 1) * size] for at in range(len(expected))]
            damaged = tuple(at + 1 for at, copy in enumerate(expected) if found[at] != copy)
            return Copies(decoded, expected, damaged)
    return Copies()


def whole_sectors(copy: bytes, padding: bytes = b"\0") -> bytes:
    return copy.ljust(-(-len(copy) // SECTOR_BYTES) * SECTOR_BYTES, padding)


def text_copies(text: bytes) -> tuple[bytes, bytes]:
    """The copies of a JSON object in one line."""
    members = text[1:-1]
    line = members + b', "crc32c": "%08x"' % crc32c(members)
    # One byte more, for the line feed.
    first, second = (whole_sectors(copy + b" ", b" ") for copy in (b"{" + line + b",", b" " + line + b"}"))
    return first[:-1] + b"\n", second[:-1] + b"\n"


def find_text(content: bytes) -> Copies:
    return find_copies(content, _decode_text, text_copies)


def _decode_text(content: bytes) -> bytes | None:
    found = _TEXT.fullmatch(content.partition(b"\n")[0].rstrip(b" "))
    if found is None or int(found[2], 16) != crc32c(found[1]):
        return None
    return b"{" + found[1] + b"}"


def read_copies(folder: Folder, name: str, find: Find) -> Copies | None:
    """None: there is no such file."""
    content = folder.read(name)
    return None if content is None else find(content)


def mend_copies(folder: Folder, name: str, find: Find) -> Copies | None:
    """Mends the copies of a file that are damaged, and returns what was found. None: there is no such file.

    Raises DiskFullError.
    """
    content = folder.read(name, lambda content: find(content).patches())
    return None if content is None else find(content)
