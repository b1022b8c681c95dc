"""The frame in which a node tells a peer a number about itself: the time on its wall clock, or the room on its disk.

It has the place of a short frame (`short_frames`) and a fixed length: checksum u32 | 0 u32 | kind u8 | sender,
target u64, number i64. Everything is big-endian.
"""

import struct
from typing import Final

from flotilla.codec.checksum import crc32c
from flotilla.codec.frames import Buffer
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId

#: The wall clock, in milliseconds.
CLOCK: Final = 3
#: The room on the disk (runtime/leadership/rooms.py).
ROOM: Final = 4

_CHECKSUM = struct.Struct(">I")
_LAYOUT = struct.Struct(">IBQQq")
_BYTES = _CHECKSUM.size + _LAYOUT.size
_KIND_AT = 8


def encode_reading(kind: int, sender: NodeId, to: NodeId, number: int) -> bytes:
    rest = _LAYOUT.pack(0, kind, sender, to, number)
    return _CHECKSUM.pack(crc32c(rest)) + rest


def is_reading(frame: Buffer) -> bool:
    """Whether a frame has the shape of a reading; no frame with messages has."""
    return len(frame) == _BYTES and frame[_KIND_AT] in (CLOCK, ROOM) and bytes(frame[4:8]) == bytes(4)


def decode_reading(frame: Buffer) -> tuple[int, NodeId, NodeId, int]:
    """Kind, sender, target and number. Raises InvalidArgumentError when the checksum is wrong."""
    if _CHECKSUM.unpack_from(frame)[0] != crc32c(frame[_CHECKSUM.size :]):
        raise InvalidArgumentError("a reading is damaged")
    _, kind, sender, to, number = _LAYOUT.unpack_from(frame, _CHECKSUM.size)
    return kind, sender, to, number
