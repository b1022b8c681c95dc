"""Frames on a byte stream: u32 big-endian length, then that many bytes. Sans-I/O.

The reader knows nothing of what a frame holds. It is bounded: a length over the limit is refused when its
four bytes have been seen, before a single byte is reserved for it. An idle reader holds no memory, and a
frame that spans chunks is gathered in a buffer of exactly its size.
"""

import struct
from collections.abc import Callable
from typing import TypeAlias

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KIB

Buffer: TypeAlias = bytes | bytearray | memoryview

#: The length in front of a frame.
LENGTH = struct.Struct(">I")
LENGTH_BYTES = LENGTH.size
#: A frame that lacks at least this much is received straight into its own memory, without a copy.
DIRECT_BYTES_MIN = 64 * KIB

_NOTHING = memoryview(b"")


def frame_header(length: int) -> bytes:
    """The length in front of a frame of `length` bytes."""
    assert length >= 0
    return LENGTH.pack(length)


class FrameReader:
    """Cuts a stream into frames.

    `feed` takes a chunk and returns every frame that it completes. A caller that may have to stop between two
    frames uses `put`, `take` and `keep` instead; frames that were not taken stay here.

    Without `copy`, a frame that lies whole in a chunk is a read-only slice of it. A caller that reuses the
    memory of its chunks passes `copy`, which gives each frame memory of its own.

    After a refused length the stream has lost its place: the reader refuses every further chunk.
    """

    __slots__ = ("_copy", "_data", "_filled", "_frame", "_is_borrowed", "_start", "frame_bytes_max", "taken_count")

    def __init__(self, frame_bytes_max: int, copy: Callable[[memoryview], bytes | bytearray] | None = None) -> None:
        assert frame_bytes_max > 0
        self.frame_bytes_max = frame_bytes_max
        self._copy = copy
        #: How many frames `take` has returned.
        self.taken_count = 0
        #: Bytes after the frame that is being gathered; `_start` of them are used up.
        self._data = _NOTHING
        self._start = 0
        #: `_data` is a view of memory that belongs to the caller of `put` and may be reused.
        self._is_borrowed = False
        #: The frame that spans chunks, while one does; `_filled` of its bytes are here.
        self._frame: bytearray | None = None
        self._filled = 0

    @property
    def is_midway(self) -> bool:
        """Whether a part of a frame is here, if only of its length."""
        return self._frame is not None or self._start < len(self._data)

    @property
    def pending_bytes(self) -> int:
        """How many bytes are here that belong to no frame that was taken."""
        return self._filled + len(self._data) - self._start

    def room(self) -> memoryview | None:
        """Where the rest of a large frame is received without a copy; None: anywhere, for `put` or `feed`."""
        frame = self._frame
        if frame is None or len(frame) - self._filled < DIRECT_BYTES_MIN:
            return None
        return memoryview(frame)[self._filled :]

    def received(self, count: int) -> None:
        """`count` bytes were written into room()."""
        self._filled += count

    def put(self, data: memoryview) -> None:
        """Adds a chunk of the stream. It is borrowed until `keep`."""
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

    def take(self, reserve: Callable[[int], bool] | None = None) -> Buffer | None:
        """The next frame, once it is whole. `reserve` is asked before its memory is allocated; False: not now.

        Raises InvalidArgumentError when the length is over the limit.
        """
        if self._frame is not None:
            return self._take_gathered(self._frame)
        data = self._data
        here = len(data)
        start = self._start + LENGTH_BYTES
        if start > here:
            return None
        length: int = LENGTH.unpack_from(data, self._start)[0]
        if length > self.frame_bytes_max:
            raise InvalidArgumentError(f"a frame of {length} bytes is over the limit of {self.frame_bytes_max}")
        if reserve is not None and not reserve(length):
            return None
        end = start + length
        if end > here:
            self._start = start
            self._gather(bytearray(length))
            return None
        self._start = end
        self.taken_count += 1
        copy = self._copy
        return data[start:end] if copy is None else copy(data[start:end])

    def feed(self, data: Buffer | int) -> list[Buffer]:
        """The frames that a chunk completes, in order. A number is of bytes written into room().

        Without `copy` the frames may be slices of `data`, which must not change while they are in use.
        Raises InvalidArgumentError when a length is over the limit.
        """
        frames: list[Buffer] = []
        if isinstance(data, int):
            self._filled += data
        else:
            view = memoryview(data).toreadonly()
            start = 0
            if self._frame is None and self._start == len(self._data):
                # Nothing is pending, and most chunks are whole frames: without a call for each of them.
                copy, here, start = self._copy, len(view), LENGTH_BYTES
                while start <= here:
                    length: int = LENGTH.unpack_from(view, start - LENGTH_BYTES)[0]
                    end = start + length
                    if end > here or length > self.frame_bytes_max:
                        break
                    frames.append(view[start:end] if copy is None else copy(view[start:end]))
                    start = end + LENGTH_BYTES
                start -= LENGTH_BYTES
                if start == here:
                    return frames
            self.put(view[start:])
        try:
            while (frame := self.take()) is not None:
                frames.append(frame)
        finally:
            self.keep()
        return frames

    def _gather(self, frame: bytearray) -> None:
        """Moves bytes into the frame that spans chunks."""
        count = min(len(frame) - self._filled, len(self._data) - self._start)
        frame[self._filled : self._filled + count] = self._data[self._start : self._start + count]
        self._frame = frame
        self._filled += count
        self._start += count

    def _take_gathered(self, frame: bytearray) -> Buffer | None:
        if self._filled < len(frame):
            return None
        self._frame = None
        self._filled = 0
        self.taken_count += 1
        return memoryview(frame).toreadonly() if self._copy is None else frame
