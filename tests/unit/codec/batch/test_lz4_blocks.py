"""Large lz4 blocks are opened in place, as the library opens them."""

from random import Random

import lz4.block
import pytest

from flotilla.codec.batch import lz4_blocks
from flotilla.codec.batch.lz4_blocks import COPIED_BYTES_MAX, open_block

BODY = Random(1).randbytes(COPIED_BYTES_MAX // 2) * 4
PACKED = lz4.block.compress(BODY, store_size=False)


@pytest.fixture(params=["in place", "by the library"])
def way(request, monkeypatch):
    if request.param == "in place":
        assert lz4_blocks._in_place() is not None
    else:
        monkeypatch.setattr(lz4_blocks, "_in_place", lambda: None)


@pytest.mark.usefixtures("way")
def test_a_large_block_is_opened():
    assert open_block(memoryview(bytearray(PACKED)), len(BODY)) == BODY


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("packed", [PACKED[:-1], PACKED + b"\0", b"", bytes(1000), b"\xff" * 1000])
def test_a_spoiled_block_is_refused(packed):
    with pytest.raises((ValueError, lz4.block.LZ4BlockError)):
        open_block(memoryview(packed), len(BODY))


@pytest.mark.parametrize("size_bytes", [len(BODY) - 1, len(BODY) + 1, 2 * len(BODY)])
def test_another_size_than_the_blocks_is_refused(size_bytes):
    with pytest.raises((ValueError, lz4.block.LZ4BlockError)):
        open_block(memoryview(PACKED), size_bytes)


def test_bytes_that_a_block_copies_from_nowhere_are_zero():
    """An offset of 0 means the byte itself, which nobody has written: it must not be what the memory had before."""
    size_bytes = 2 * COPIED_BYTES_MAX
    rest, last = divmod(size_bytes - 1 - 5 - 4 - 15, 255)
    packed = b"\x1fA\0\0" + b"\xff" * rest + bytes((last,)) + b"\x50BBBBB"
    before = b"secret" * (size_bytes // 6)
    del before
    assert open_block(memoryview(packed), size_bytes) == b"A" + bytes(size_bytes - 6) + b"BBBBB"
