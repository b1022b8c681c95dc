"""lz4 blocks opened in place, by the C function of the lz4 library.

`lz4.block.decompress` opens a block into memory of its own and then copies it while it holds the interpreter's lock:
for 15 MiB that held every other thread, the event loop of a node among them, for milliseconds. Here the C function
writes into the bytes that are returned, and holds no lock. Where a build of the library does not show that function,
the library opens large blocks as well.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import lz4.block  # type: ignore[import-untyped]

from flotilla.types.limits import KIB

#: Smaller blocks are copied in a few microseconds.
COPIED_BYTES_MAX: Final = 64 * KIB


def open_block(packed: memoryview, size_bytes: int) -> bytes:
    """At most `size_bytes` bytes. Raises ValueError and LZ4BlockError."""
    in_place = _in_place() if size_bytes > COPIED_BYTES_MAX else None
    if in_place is None:
        opened: bytes = lz4.block.decompress(packed, uncompressed_size=size_bytes)
        return opened
    return in_place(bytes(packed), size_bytes)


@cache
def _in_place() -> Callable[[bytes, int], bytes] | None:
    try:
        decompress = ctypes.CDLL(lz4.block._block.__file__).LZ4_decompress_safe
        new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
    except (AttributeError, OSError):
        return None
    decompress.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
    decompress.restype = ctypes.c_int
    new_bytes.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
    new_bytes.restype = ctypes.py_object

    def in_place(packed: bytes, size_bytes: int) -> bytes:
        # Nobody else has seen these bytes, so they may still be filled.
        opened: bytes = new_bytes(None, size_bytes)
        if decompress(packed, opened, len(packed), size_bytes) != size_bytes:
            raise ValueError(f"it does not open to {size_bytes} bytes")
        return opened

    return in_place
