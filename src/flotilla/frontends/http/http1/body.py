"""The body of an HTTP/1.1 request, cut from the received bytes: by its length, or chunk by chunk."""

import re
from typing import Final

from flotilla.frontends.http.http1.head import CHUNKED, BadRequestError, parse_field

#: The size of a chunk, and its extension, which is ignored.
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\x00-\x08\x0a-\x1f\x7f]*|[ \t]*)")
_LINE_BYTES_MAX: Final = 256
_TRAILERS_MAX: Final = 16
_FORBIDDEN_TRAILERS: Final = (b"content-length", b"transfer-encoding", b"host")
_END: Final = b"\r\n"


class Body:
    """Takes bytes until `is_over`; bytes after the body stay in the buffer."""

    __slots__ = ("_is_chunked", "_left", "_trailers", "is_over")

    def __init__(self, body_bytes: int) -> None:
        self._is_chunked = body_bytes == CHUNKED
        #: Bytes left of the body, or of the chunk and its line end; 0 between chunks.
        self._left = 0 if self._is_chunked else body_bytes
        #: Lines after the last chunk; None before that.
        self._trailers: int | None = None
        self.is_over = body_bytes == 0

    def take(self, buffer: bytearray) -> bytes:
        """Removes the bytes of the body from the buffer and returns them. Raises BadRequestError."""
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
        """False: more bytes are needed."""
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
                raise BadRequestError("a chunk is longer than its size")
            del buffer[: len(_END)]
            self._left = 0
            return True
        return self._read_line(buffer)

    def _read_line(self, buffer: bytearray) -> bool:
        end = buffer.find(_END, 0, _LINE_BYTES_MAX + len(_END))
        if end < 0:
            if len(buffer) > _LINE_BYTES_MAX:
                raise BadRequestError("the size of a chunk is malformed")
            return False
        line = bytes(buffer[:end])
        del buffer[: end + len(_END)]
        if self._trailers is not None:
            self._trailers += 1
            self.is_over = not line
            if self._trailers > _TRAILERS_MAX:
                raise BadRequestError("too many trailers")
            # Trailers are checked and dropped.
            if line and parse_field(line)[0] in _FORBIDDEN_TRAILERS:
                raise BadRequestError("a trailer must not be Content-Length, Transfer-Encoding or Host")
            return True
        size = _SIZE.fullmatch(line)
        if size is None:
            raise BadRequestError("the size of a chunk is malformed")
        count = int(size[1], 16)
        if count:
            self._left = count + len(_END)
        else:
            self._trailers = 0
        return True
