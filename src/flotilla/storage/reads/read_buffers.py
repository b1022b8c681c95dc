"""Memory for reads from the page cache, used again when nothing refers to it any more.

A new buffer is filled with zeros before it is read into, and a large one costs a page fault for every 4 KiB: together
more than the read itself. A buffer is free when no view on it is left: a `bytearray` with views cannot change its size.
Belongs to the loop.
"""

from typing import Final

from flotilla.types.limits import KIB, MIB, READ_BUFFERS_BYTES_MAX

#: Smaller ones are as quick when they are new.
_SIZE_BYTES_MIN: Final = 64 * KIB
_SIZE_BYTES: Final = 1 * MIB
_BUFFERS_MAX: Final = READ_BUFFERS_BYTES_MAX // _SIZE_BYTES


class ReadBuffers:
    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, length: int) -> memoryview:
        """Writable memory of this size, with any content. It is in use while a view on it exists."""
        if not _SIZE_BYTES_MIN <= length <= _SIZE_BYTES:
            return memoryview(bytearray(length))
        for buffer in self._buffers:
            if _is_free(buffer):
                return memoryview(buffer)[:length]
        if len(self._buffers) == _BUFFERS_MAX:
            # Readers hold them all.
            return memoryview(bytearray(length))
        buffer = bytearray(_SIZE_BYTES)
        self._buffers.append(buffer)
        return memoryview(buffer)[:length]


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
