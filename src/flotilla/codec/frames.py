"""Frames on a byte stream: u32 big-endian length, then that many bytes. Sans-I/O.

The reader knows nothing of what a frame holds. It is bounded: a length over the limit is refused
when its four bytes have been seen, before a single byte is reserved for it, and what is buffered
never exceeds one frame plus the piece just fed. Once it has refused, the stream has lost its
place: the reader stays broken and the connection must go.
"""

import struct
from collections.abc import Iterator

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import PEER_FRAME_BYTES_MAX

#: What stands in front of a frame.
LENGTH = struct.Struct(">I")
LENGTH_BYTES = LENGTH.size
#: A frame that misses at least this much is worth being received straight into its own memory.
DIRECT_BYTES_MIN = 64 * 1024


def frame_header(length: int) -> bytes:
    """What stands in front of a frame of `length` bytes."""
    assert length >= 0
    return LENGTH.pack(length)


class FrameReader:
    """Cuts a stream into frames. Bytes in by `feed`, frames out as memoryviews.

    Frames that lie whole in the fed piece are slices of it: no copy. Only a frame that spans pieces
    is gathered, in a buffer of exactly its size, so that a large one costs one copy however it is cut.
    """

    __slots__ = ("_body", "_filled", "_frame_bytes_max", "_is_broken", "_prefix")

    def __init__(self, frame_bytes_max: int = PEER_FRAME_BYTES_MAX) -> None:
        assert frame_bytes_max > 0
        self._frame_bytes_max = frame_bytes_max
        #: The first bytes of a length that is not whole yet: fewer than four.
        self._prefix = b""
        #: The frame that spans pieces, while one does; `_filled` of its bytes are here.
        self._body: bytearray | None = None
        self._filled = 0
        self._is_broken = False

    @property
    def pending_bytes(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._prefix) + self._filled

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
        """Takes a piece of the stream at once; the frames that it completes, in order.

        The frames may be slices of `data`, which must not be changed while they are in use.
        Raises InvalidArgumentError when a length is over the limit.
        """
        if self._is_broken:
            raise InvalidArgumentError("the stream lost its place at an earlier frame")
        view = memoryview(data).toreadonly()
        frames: list[memoryview] = []
        position = self._fill_body(view, frames)
        end = len(view)
        while position < end:
            if self._prefix or end - position < LENGTH_BYTES:
                taken = min(LENGTH_BYTES - len(self._prefix), end - position)
                self._prefix += view[position : position + taken]
                position += taken
                if len(self._prefix) < LENGTH_BYTES:
                    break
                length = self._checked_length(self._prefix, 0)
                self._prefix = b""
            else:
                length = self._checked_length(view, position)
                position += LENGTH_BYTES
            if end - position >= length:
                frames.append(view[position : position + length])
                position += length
            else:
                self._body = bytearray(length)
                self._filled = 0
                position += self._fill_body(view[position:], frames)
        return iter(frames)

    def room(self) -> memoryview | None:
        """Where the rest of a large frame can be received without a copy; None: anywhere, to be given to `feed`."""
        body = self._body
        if body is None or len(body) - self._filled < DIRECT_BYTES_MIN:
            return None
        return memoryview(body)[self._filled :]

    def received(self, count: int) -> Iterator[memoryview]:
        """So many bytes were put into room(); the frame, if they complete it."""
        body = self._body
        assert body is not None
        self._filled += count
        assert self._filled <= len(body)
        if self._filled < len(body):
            return iter(())
        self._body = None
        self._filled = 0
        return iter((memoryview(body).toreadonly(),))

    def _checked_length(self, data: bytes | memoryview, position: int) -> int:
        length: int = LENGTH.unpack_from(data, position)[0]
        if length > self._frame_bytes_max:
            self._is_broken = True
            raise InvalidArgumentError(f"a frame of {length} bytes is over the limit of {self._frame_bytes_max}")
        return length

    def _fill_body(self, view: memoryview, frames: list[memoryview]) -> int:
        """Moves bytes into the frame that spans pieces, if one does; how many were taken."""
        body = self._body
        if body is None:
            return 0
        taken = min(len(body) - self._filled, len(view))
        body[self._filled : self._filled + taken] = view[:taken]
        self._filled += taken
        if self._filled == len(body):
            frames.append(memoryview(body).toreadonly())
            self._body = None
            self._filled = 0
        return taken
