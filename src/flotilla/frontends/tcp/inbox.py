"""Bytes of one connection on their way to becoming frames: u32 big-endian length, then that many bytes.

Frames are taken one at a time, because whoever takes them may have to stop between any two; what has
not been taken stays here. Small frames come through a buffer that all connections share, so that an
idle connection owns nothing; a frame that is taken gets memory of its own, exactly as much as it
needs, and the rest of a large one is received straight into it. Nothing is reserved for a frame
before its length has been judged.
"""

import struct

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
    def is_begun(self) -> bool:
        return self._frame is not None

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
        self._fill()

    def keep(self) -> None:
        """Lets go of borrowed memory."""
        if self._is_borrowed:
            rest = self._data[self._start :]
            self._data = memoryview(bytes(rest)) if rest else _NOTHING
            self._start = 0
            self._is_borrowed = False

    def next_length(self) -> int | None:
        """How long the next frame is, once that is known. Raises InvalidArgumentError when it is over the limit."""
        assert self._frame is None
        if len(self._data) - self._start < LENGTH_BYTES:
            return None
        length: int = _LENGTH.unpack_from(self._data, self._start)[0]
        if length > self.frame_bytes_max:
            raise InvalidArgumentError(f"a frame of {length} bytes is over the limit of {self.frame_bytes_max}")
        return length

    def begin(self, length: int) -> None:
        """Takes up the next frame, whose length was found good."""
        start = self._start + LENGTH_BYTES
        end = start + length
        if end <= len(self._data):
            self._frame = bytearray(self._data[start:end])
            self._filled = length
            self._start = end
        else:
            self._frame = bytearray(length)
            self._filled = 0
            self._start = start
            self._fill()

    def take(self) -> bytearray | None:
        """The frame under way, if it is whole."""
        frame = self._frame
        if frame is None or self._filled < len(frame):
            return None
        self._frame = None
        self._filled = 0
        self.taken_count += 1
        return frame

    def _fill(self) -> None:
        frame = self._frame
        if frame is not None:
            count = min(len(frame) - self._filled, len(self._data) - self._start)
            frame[self._filled : self._filled + count] = self._data[self._start : self._start + count]
            self._filled += count
            self._start += count
