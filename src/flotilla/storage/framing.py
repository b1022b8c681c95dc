"""Byte layouts shared by journal and segments. Little endian; checksums are CRC32C.

A *frame head* describes one entry. The same 56 bytes go into the journal's directory and, later,
before the body in a segment, so that a flush copies buffers and computes no checksum again:

    offset size field
         0   4  crc32c over bytes 4..56 and the body, from a start value on that depends on the store's salt
         4   1  tag: ENTRY, REPAIRED (journal only), ABSENT (segments only: the body was lost)
         5   1  kind of the entry
         6   2  zero
         8   4  length of the body
        12   4  records in the body; 0: nothing for readers (then base offset and time are 0)
        16   8  group
        24   8  index
        32   8  term
        40   8  base offset
        48   8  newest record time, ms

Every other journal record is `u32 length, u8 tag, 3 zero bytes, payload`. The tag is at byte 4 in
both, so that a directory is read record by record. Nothing here does I/O.
"""

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from flotilla.codec import two_copies
from flotilla.codec.checksum import crc32c
from flotilla.codec.log import decode_configuration, encode_configuration
from flotilla.raft.messages import Entry, HardState, SnapshotMeta
from flotilla.storage.ports import Buffer
from flotilla.types.ids import GroupId, Index, Term
from flotilla.types.records import Span

#: No write touches a sector that holds durable bytes.
SECTOR_BYTES = two_copies.SECTOR_BYTES
#: Frames in a segment start at multiples of this, so that padding is never too short to be recognised.
FRAME_ALIGN_BYTES = 8

ENTRY = 1
REPAIRED = 2
ABSENT = 3
HARD_STATE = 4
TRUNCATE = 5
START = 6
CREATE = 7
REMOVE = 8
SNAPSHOT_TAKEN = 9
RESET = 10
CHECKPOINT_NODE = 11
CHECKPOINT_GROUP = 12

_CRC = Struct("<I")
_REST = Struct("<BBHIIQQQQq")
_FRAME = Struct("<IBBHIIQQQQq")
FRAME_BYTES = _FRAME.size
#: The position of the group in a frame head, by which a search finds the next intact frame.
FRAME_GROUP_AT = 16

_RECORD = Struct("<IB3x")
RECORD_BYTES = _RECORD.size
_TAG_AT = 4
_HARD_STATE = Struct("<QQQQ")
_HARD_STATE_RECORD = Struct("<IB3xQQQQ")
_META = Struct("<QQQQQI")
PAIR = Struct("<QQ")
TRIPLE = Struct("<QQQ")


@dataclass(slots=True)
class Frame:
    """A parsed frame head. It is valid only if `is_intact` holds for it and the body."""

    crc: int
    tag: int
    kind: int
    zero: int
    length: int
    count: int
    group: GroupId
    index: Index
    term: Term
    base_offset: int
    timestamp_ms: int

    @property
    def span(self) -> Span | None:
        """Its records."""
        return Span(self.base_offset, self.count, self.timestamp_ms) if self.count else None


@lru_cache(maxsize=4096)
def salted(salt: int, length: int) -> int:
    """The start value of a checksum over a body or a list of records of `length` bytes; 0 without a salt.

    CRCs are linear: over bytes that hold another checksum with the same start value, at the right distance, the salt
    would cancel out. A frame around another one is longer, so another length gives another start value. Cached, because
    entries of few lengths are sealed and verified all the time.
    """
    return salt * (length + (1 << 32)) >> 32 & 0xFFFFFFFF


def seal(tag: int, group: GroupId, entry: Entry, span: Span | None, salt: int) -> bytes:
    """The frame head of an entry."""
    data = entry.data
    if span is None:
        rest = _REST.pack(tag, entry.kind, 0, len(data), 0, group, entry.index, entry.term, 0, 0)
    else:
        rest = _REST.pack(
            tag,
            entry.kind,
            0,
            len(data),
            span.count,
            group,
            entry.index,
            entry.term,
            span.base_offset,
            span.timestamp_ms,
        )
    return _CRC.pack(crc32c(data, crc32c(rest, salted(salt, len(data))))) + rest


def seal_absent(group: GroupId, index: Index, term: Term, salt: int, span: Span | None = None) -> bytes:
    """The frame head of a placeholder in a segment, for an entry whose body was lost and is not repaired yet."""
    return seal(ABSENT, group, Entry(index, term, 0, b""), span, salt)


def sealed_again(frame: Frame, body: memoryview, salt: int) -> bytes:
    """The frame head of an intact entry with a checksum of this salt."""
    return seal(frame.tag, frame.group, Entry(frame.index, frame.term, frame.kind, body), frame.span, salt)


def parse_frame(buffer: Buffer, position: int) -> Frame:
    return Frame(*_FRAME.unpack_from(buffer, position))


def is_intact(crc: int, head: Buffer, body: Buffer, salt: int) -> bool:
    return crc32c(body, crc32c(head[4:], salted(salt, len(body)))) == crc


def padded(size: int) -> int:
    """The size of a frame's body with its padding."""
    return (size + FRAME_ALIGN_BYTES - 1) & -FRAME_ALIGN_BYTES


def sectors(size: int) -> int:
    """`size` rounded up to whole sectors, in bytes."""
    return (size + SECTOR_BYTES - 1) & -SECTOR_BYTES


def record(tag: int, payload: bytes) -> bytes:
    return _RECORD.pack(len(payload), tag) + payload


def parse_record(buffer: Buffer, position: int) -> tuple[int, int]:
    """The tag and the length on disk of the record (or frame head) at `position`."""
    length, tag = _RECORD.unpack_from(buffer, position)
    if tag in (ENTRY, REPAIRED, ABSENT):
        return tag, FRAME_BYTES
    return tag, RECORD_BYTES + length


def hard_state_record(group: GroupId, state: HardState) -> bytes:
    return _HARD_STATE_RECORD.pack(_HARD_STATE.size, HARD_STATE, group, state.term, state.vote, state.commit)


def parse_hard_state(payload: Buffer) -> tuple[GroupId, HardState]:
    group, term, vote, commit = _HARD_STATE.unpack_from(payload)
    return group, HardState(term, vote, commit)


def encode_meta(meta: SnapshotMeta) -> bytes:
    configuration = encode_configuration(meta.configuration)
    numbers = (meta.index, meta.term, meta.log_index, meta.log_term, meta.size_bytes)
    return _META.pack(*numbers, len(configuration)) + configuration


def decode_meta(buffer: Buffer, position: int) -> tuple[SnapshotMeta, int]:
    """The meta at `position`, and its end."""
    index, term, log_index, log_term, size, length = _META.unpack_from(buffer, position)
    position += _META.size
    configuration = decode_configuration(bytes(buffer[position : position + length]))
    return SnapshotMeta(index, term, log_index, log_term, configuration, size), position + length
