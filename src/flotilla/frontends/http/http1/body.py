"""The body of an HTTP/1.1 request, taken out of what arrives: by its length, or chunk by chunk."""

import re
from typing import Final

from flotilla.frontends.http.http1.head import CHUNKED, BadRequestError, parse_field

#: The size of a chunk, and what may stand behind it, which nobody reads.
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\x00-\x08\x0a-\x1f\x7f]*|[ \t]*)")
_LINE_BYTES_MAX: Final = 256
_TRAILERS_MAX: Final = 16
_NOT_BEHIND: Final = (b"content-length", b"transfer-encoding", b"host")
_END: Final = b"\r\n"


class Body:
    """Feed it until `is_over`; what comes behind stays in the buffer."""

    __slots__ = ("_is_chunked", "_left", "_trailers", "is_over")

    def __init__(self, body_bytes: int) -> None:
        self._is_chunked = body_bytes == CHUNKED
        #: Of the body or of the chunk, with the end of line behind it. Of chunks: 0 when the next size is awaited.
        self._left = 0 if self._is_chunked else body_bytes
        #: Lines behind the last chunk; None before that.
        self._trailers: int | None = None
        self.is_over = body_bytes == 0

    def take(self, buffer: bytearray) -> bytes:
        """What has come of it, which leaves the buffer. Raises BadRequestError."""
        if not self._is_chunked:
            piece = bytes(buffer[: self._left])
            del buffer[: len(piece)]
            self._left -= len(piece)
            self.is_over = not self._left
            return piece
        pieces: list[bytes] = []
        while not self.is_over and self._step(buffer, pieces):
            pass
        return b"".join(pieces)

    def _step(self, buffer: bytearray, pieces: list[bytes]) -> bool:
        """Whether it got on."""
        if self._left > len(_END):
            piece = bytes(buffer[: self._left - len(_END)])
            del buffer[: len(piece)]
            self._left -= len(piece)
            pieces.append(piece)
            return bool(piece)
        if self._left:
            if len(buffer) < len(_END):
                return False
            if not buffer.startswith(_END):
                raise BadRequestError("a chunk is longer than it says")
            del buffer[: len(_END)]
            self._left = 0
            return True
        return self._read_line(buffer)

    def _read_line(self, buffer: bytearray) -> bool:
        end = buffer.find(_END, 0, _LINE_BYTES_MAX + len(_END))
        if end < 0:
            if len(buffer) > _LINE_BYTES_MAX:
                raise BadRequestError("the size of a chunk cannot be read")
            return False
        line = bytes(buffer[:end])
        del buffer[: end + len(_END)]
        if self._trailers is not None:
            self._trailers += 1
            self.is_over = not line
            if self._trailers > _TRAILERS_MAX:
                raise BadRequestError("too much stands behind the body")
            # What they say is dropped; what a head must say, they must not.
            if line and parse_field(line)[0] in _NOT_BEHIND:
                raise BadRequestError("a header that says how to read the request stands behind its body")
            return True
        size = _SIZE.fullmatch(line)
        if size is None:
            raise BadRequestError("the size of a chunk cannot be read")
        count = int(size[1], 16)
        if count:
            self._left = count + len(_END)
        else:
            self._trailers = 0
        return True
