"""Compression of a batch's columns, bounded in both directions.

Columns that are small, do not shrink, or would exceed the ratio when opened are stored uncompressed. Decompressing
allocates exactly the size that the batch declares, after a check of that size against the limit and the ratio: a small
batch cannot claim much memory. lz4 is the raw block format (its size is in the directory); zstd is one frame that
declares the same size. The libraries are loaded by the first batch that needs them.
"""

from typing import Final

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import COMPRESSION_RATIO_MAX, KIB, MIB

NONE: Final = 0
LZ4: Final = 1
ZSTD: Final = 2
NAMES: Final[dict[int, str]] = {NONE: "none", LZ4: "lz4", ZSTD: "zstd"}

#: Below this size compressing costs more than it gains.
_WORTHWHILE_BYTES_MIN: Final = 1 * KIB
#: Level 1 gives most of the gain at half the cost of the default, 3.
_ZSTD_LEVEL: Final = 1
#: No batch needs a larger window.
_ZSTD_WINDOW_BYTES_MAX: Final = 32 * MIB


def compress(compression: int, body: bytes) -> tuple[int, bytes]:
    """The compression that is used, as asked or none, and the bytes to store."""
    if compression == NONE:
        return NONE, body
    if compression not in NAMES:
        raise InvalidArgumentError(f"unknown compression {compression}")
    if len(body) < _WORTHWHILE_BYTES_MIN:
        return NONE, body
    packed: bytes
    if compression == LZ4:
        import lz4.block  # type: ignore[import-untyped]

        packed = lz4.block.compress(body, store_size=False)
    else:
        import zstandard

        packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)
    if len(packed) >= len(body) or len(packed) * COMPRESSION_RATIO_MAX < len(body):
        return NONE, body
    return compression, packed


def decompress(compression: int, packed: memoryview, body_bytes: int, body_bytes_max: int) -> bytes:
    """Exactly `body_bytes` bytes. Raises InvalidArgumentError before it allocates more than is allowed."""
    if compression not in (LZ4, ZSTD):
        raise InvalidArgumentError(f"unknown compression {compression}")
    if body_bytes > body_bytes_max:
        raise InvalidArgumentError(f"the batch opens to {body_bytes} bytes, at most {body_bytes_max} are allowed")
    if body_bytes > len(packed) * COMPRESSION_RATIO_MAX:
        raise InvalidArgumentError(f"{len(packed)} bytes must not open to {body_bytes}")
    body = _lz4(packed, body_bytes) if compression == LZ4 else _zstd(packed, body_bytes)
    if len(body) != body_bytes:
        raise InvalidArgumentError(f"the batch says {body_bytes} bytes of columns and holds {len(body)}")
    return body


def _lz4(packed: memoryview, body_bytes: int) -> bytes:
    import lz4.block

    from flotilla.codec.batch.lz4_blocks import open_block

    try:
        return open_block(packed, body_bytes)
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise InvalidArgumentError(f"the batch is no lz4 block: {error}") from error


def _zstd(packed: memoryview, body_bytes: int) -> bytes:
    import zstandard

    try:
        # The library allocates what the frame declares: that is checked first.
        if zstandard.frame_content_size(packed) != body_bytes:
            raise InvalidArgumentError(f"the zstd frame does not declare {body_bytes} bytes")
        opener = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        return opener.decompress(packed, max_output_size=body_bytes, allow_extra_data=False)
    except InvalidArgumentError:
        raise
    except (zstandard.ZstdError, ValueError) as error:
        raise InvalidArgumentError(f"the batch is no zstd frame: {error}") from error
