"""The frame in which a node tells a peer the reading of its wall clock.

It has the place of a short frame (`short_frames`) and a fixed length: checksum u32 | 0 u32 | kind u8 | sender,
target u64, milliseconds i64. Everything is big-endian.
"""

import struct

from flotilla.codec.checksum import crc32c
from flotilla.codec.frames import Buffer
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId

_KIND = 3
_CHECKSUM = struct.Struct(">I")
_LAYOUT = struct.Struct(">IBQQq")
CLOCK_BYTES = _CHECKSUM.size + _LAYOUT.size
_KIND_AT = 8


def encode_clock(sender: NodeId, to: NodeId, wall_ms: int) -> bytes:
    rest = _LAYOUT.pack(0, _KIND, sender, to, wall_ms)
    return _CHECKSUM.pack(crc32c(rest)) + rest


def is_clock(frame: Buffer) -> bool:
    """Whether a frame has the shape of a clock reading; no frame with messages has."""
    return len(frame) == CLOCK_BYTES and frame[_KIND_AT] == _KIND and bytes(frame[4:8]) == bytes(4)


def decode_clock(frame: Buffer) -> tuple[NodeId, NodeId, int]:
    """Sender, target and milliseconds. Raises InvalidArgumentError when the checksum is wrong."""
    if _CHECKSUM.unpack_from(frame)[0] != crc32c(frame[_CHECKSUM.size :]):
        raise InvalidArgumentError("a clock reading is damaged")
    _, _, sender, to, wall_ms = _LAYOUT.unpack_from(frame, _CHECKSUM.size)
    return sender, to, wall_ms
