"""Cuts received bytes into frames: a big-endian u32 length, then that many bytes.

The socket reads straight into the memory this class hands out. Small frames share one buffer and
are copied out of it, because what they carry outlives the next read; a large frame gets a buffer
of its own, into which the rest of it is received without another copy. An announced length above
the limit is an error before a byte of it is taken in, so memory is bounded by limit + one buffer.
"""

from typing import TypeAlias

from flotilla.codec.frames import LENGTH, LENGTH_BYTES

Buffer: TypeAlias = bytes | bytearray | memoryview

#: A frame of zero length carries nothing but a sign of life.
PING = bytes(LENGTH_BYTES)

#: One read takes at most this much of small frames.
SHARED_BUFFER_BYTES = 128 * 1024
#: A frame that does not lie whole in the shared buffer gets its own above this size.
OWN_BUFFER_BYTES_MIN = 64 * 1024


class FrameTooLongError(Exception):
    """The other side announced a frame beyond the limit. Nothing behind it can be trusted."""


class FrameBuffer:
    __slots__ = ("_end", "_filled", "_own", "_own_view", "_shared", "_start", "_view", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._shared = bytearray(SHARED_BUFFER_BYTES)
        self._view = memoryview(self._shared)
        #: Received and not yet cut: [start, end) of the shared buffer.
        self._start = 0
        self._end = 0
        #: The large frame under way, if there is one; then the shared buffer is empty.
        self._own: bytearray | None = None
        self._own_view = memoryview(b"")
        self._filled = 0

    def room(self) -> memoryview:
        """Where the next received bytes go. Never empty."""
        if self._own is not None:
            return self._own_view[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> list[bytes | bytearray]:
        """`count` bytes were put into room(). Returns the frames that are now whole, in order."""
        own = self._own
        if own is not None:
            self._filled += count
            if self._filled < len(own):
                return []
            self._own = None
            self._own_view = memoryview(b"")
            return [own]
        self._end += count
        frames = self._cut()
        if self._start == self._end:
            self._start = self._end = 0
        else:
            self._make_room()
        return frames

    def _cut(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
        view = self._view
        start, end = self._start, self._end
        while end - start >= LENGTH_BYTES:
            body = start + LENGTH_BYTES
            length: int = LENGTH.unpack_from(view, start)[0]
            if length > self.frame_bytes_max:
                raise FrameTooLongError(f"a frame of {length} bytes, where {self.frame_bytes_max} are allowed")
            if body + length > end:
                if length >= OWN_BUFFER_BYTES_MIN:
                    self._begin_own(length, view[body:end])
                    start = end
                break
            frames.append(bytes(view[body : body + length]))
            start = body + length
        self._start = start
        return frames

    def _begin_own(self, length: int, beginning: memoryview) -> None:
        self._own = bytearray(length)
        self._own_view = memoryview(self._own)
        self._filled = len(beginning)
        self._own_view[: self._filled] = beginning

    def _make_room(self) -> None:
        start, end = self._start, self._end
        if start > 0 and SHARED_BUFFER_BYTES - start < LENGTH_BYTES + OWN_BUFFER_BYTES_MIN:
            # The unfinished frame might not fit behind its beginning; it is small, so moving it is cheap.
            self._view[: end - start] = bytes(self._view[start:end])
            self._start, self._end = 0, end - start
        assert self._own is not None or self._end < SHARED_BUFFER_BYTES
