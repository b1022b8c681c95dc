"""The head of an HTTP/1.1 request, read strictly: bytes in, a value or a refusal out.

What could be read in two ways is refused, because a proxy in front might read it in the other way: a length that is
given twice or in two forms, a space after a name, a folded line, a control character. The caller bounds the size.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST: Final = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])")
_FIELD: Final = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_ABSOLUTE: Final = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
#: Longer header lines are not cached.
_KNOWN_BYTES_MAX: Final = 128
#: The length of a chunked body.
CHUNKED: Final = -1


class BadRequestError(Exception):
    """The bytes are no request. What follows on the connection cannot be parsed either."""


@dataclass(slots=True)
class Head:
    method: str
    #: Without the query: as received, and decoded.
    raw_path: bytes
    path: str
    query: bytes
    #: In order, with names in lower case.
    headers: list[tuple[bytes, bytes]]
    #: Bytes of the body, or CHUNKED.
    body_bytes: int
    is_kept_alive: bool
    #: HTTP/1.0, which has no chunks.
    is_old: bool
    #: The client waits for 100 Continue before it sends the body.
    expects_continue: bool


def parse_head(data: bytes) -> Head:
    """Parses the bytes before the empty line. Raises BadRequestError."""
    first, *lines = data.split(b"\r\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise BadRequestError("the request line is not HTTP/1.1")
    headers: list[tuple[bytes, bytes]] = []
    for line in lines:
        headers.append(_known_field(line) if len(line) <= _KNOWN_BYTES_MAX else parse_field(line))
    raw_path, _, query = _origin(request[2]).partition(b"?")
    is_old = request[3] == b"0"
    words = _words(headers, b"connection")
    if not is_old and len(_values(headers, b"host")) != 1:
        raise BadRequestError("a request has exactly one Host header")
    return Head(
        method=request[1].decode("ascii"),
        raw_path=raw_path,
        path=unquote(raw_path.decode("ascii")),
        query=query.partition(b"#")[0],
        headers=headers,
        body_bytes=_body_bytes(headers, is_old=is_old),
        is_kept_alive=b"keep-alive" in words if is_old else b"close" not in words,
        is_old=is_old,
        expects_continue=not is_old and b"100-continue" in _words(headers, b"expect"),
    )


def parse_field(line: bytes) -> tuple[bytes, bytes]:
    """Name, in lower case, and value of a header line. Raises BadRequestError."""
    field = _FIELD.fullmatch(line)
    if field is None:
        raise BadRequestError("a header line is malformed")
    return field[1].lower(), field[2]


#: A client sends the same lines with every request.
_known_field = lru_cache(maxsize=1_024)(parse_field)


def _origin(target: bytes) -> bytes:
    """The target without scheme and host, which a client sends that takes this server for a proxy."""
    if target.startswith(b"/") or target == b"*":
        return target
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise BadRequestError("the target of a request is a path or a URL")
    rest = target[absolute.end() :]
    return rest if rest.startswith(b"/") else b"/" + rest


def _values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for known, value in headers if known == name]


def _words(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [word.strip().lower() for value in _values(headers, name) for word in value.split(b",")]


def _body_bytes(headers: list[tuple[bytes, bytes]], *, is_old: bool) -> int:
    codings = _words(headers, b"transfer-encoding")
    lengths = _values(headers, b"content-length")
    if codings:
        if lengths or is_old or codings != [b"chunked"]:
            raise BadRequestError("the length of the body is ambiguous")
        return CHUNKED
    if not lengths:
        return 0
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise BadRequestError("the Content-Length is not one number")
    return int(lengths[0])
