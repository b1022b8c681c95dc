"""Bytes of one connection on their way to becoming frames: u32 big-endian length, then that many bytes.

Frames are taken one at a time, because whoever takes them may have to stop between any two; what has
not been taken stays here. Small frames come through a buffer that all connections share, so that an
idle connection owns nothing; a frame that is taken gets memory of its own, exactly as much as it
needs, and the rest of a large one is received straight into it. Nothing is reserved for a frame
before its length has been judged.
"""

import struct
from collections.abc import Callable

from flotilla.types.errors import InvalidArgumentError

_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size

#: A frame that misses at least this much is received straight into its own memory.
LARGE_BYTES_MIN = 64 * 1024

_NOTHING = memoryview(b"")


class Inbox:
    __slots__ = ("_data", "_filled", "_frame", "_is_borrowed", "_start", "frame_bytes_max", "taken_count")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        #: How many frames have been taken.
        self.taken_count = 0
        #: Bytes behind the frame under way; `_start` of them are used up.
        self._data = _NOTHING
        self._start = 0
        #: `_data` is a view of memory that belongs to the caller of `put` and is about to be used again.
        self._is_borrowed = False
        #: The frame under way; `_filled` of its bytes are here.
        self._frame: bytearray | None = None
        self._filled = 0

    @property
    def is_midway(self) -> bool:
        """Whether a part of a frame is here, if only of its length."""
        return self._frame is not None or self._start < len(self._data)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes are here that belong to no whole frame that was taken."""
        return self._filled + len(self._data) - self._start

    def room(self) -> memoryview | None:
        """Where the next bytes shall be received; None: anywhere, to be handed over by `put`."""
        frame = self._frame
        if frame is None or len(frame) - self._filled < LARGE_BYTES_MIN:
            return None
        return memoryview(frame)[self._filled :]

    def received(self, count: int) -> None:
        """So many bytes were put into room()."""
        self._filled += count

    def put(self, data: memoryview) -> None:
        """More bytes of the stream. They are borrowed until `keep`."""
        if self._start < len(self._data):
            self._data = memoryview(bytes(self._data[self._start :]) + bytes(data))
            self._is_borrowed = False
        else:
            self._data = data
            self._is_borrowed = True
        self._start = 0
        if self._frame is not None:
            self._gather(self._frame)

    def keep(self) -> None:
        """Lets go of borrowed memory."""
        if self._is_borrowed:
            rest = self._data[self._start :]
            self._data = memoryview(bytes(rest)) if rest else _NOTHING
            self._start = 0
            self._is_borrowed = False

    def take(self, reserve: Callable[[int], bool]) -> bytearray | None:
        """The next frame, once it is whole. Its memory is taken when `reserve` agrees to its length, and not before.

        Raises InvalidArgumentError when the length is over the limit.
        """
        if self._frame is not None:
            return self._take_gathered(self._frame)
        data = self._data
        here = len(data)
        start = self._start + LENGTH_BYTES
        if start > here:
            return None
        length: int = _LENGTH.unpack_from(data, self._start)[0]
        if length > self.frame_bytes_max:
            raise InvalidArgumentError(f"a frame of {length} bytes is over the limit of {self.frame_bytes_max}")
        if not reserve(length):
            return None
        end = start + length
        if end > here:
            self._start = start
            self._gather(bytearray(length))
            return None
        self._start = end
        self.taken_count += 1
        return bytearray(data[start:end])

    def _gather(self, frame: bytearray) -> None:
        """Moves what is here into the frame under way."""
        count = min(len(frame) - self._filled, len(self._data) - self._start)
        frame[self._filled : self._filled + count] = self._data[self._start : self._start + count]
        self._frame = frame
        self._filled += count
        self._start += count

    def _take_gathered(self, frame: bytearray) -> bytearray | None:
        if self._filled < len(frame):
            return None
        self._frame = None
        self._filled = 0
        self.taken_count += 1
        return frame
