"""Responses: a status, headers, and a body that is bytes or a stream."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from flotilla.frontends.http.http1.asgi import Send

JSON_TYPE: Final = "application/json"
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Response:
    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        body: bytes | AsyncIterator[bytes],
        media_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.headers = [(b"content-type", media_type.encode())]
        if isinstance(body, bytes):
            self.headers.append((b"content-length", b"%d" % len(body)))
        for name, value in (headers or {}).items():
            self.headers.append((name.lower().encode(), value.encode()))

    async def send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        if isinstance(self.body, bytes):
            await send({"type": "http.response.body", "body": self.body})
            return
        async for piece in self.body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(body).encode(), JSON_TYPE, status, headers)


def large_json_response(body: dict[str, Any], many: str) -> Response:
    """The same of a body whose first field, `many`, is a list. Each item is encoded by itself.

    The encoder holds the interpreter's lock until it is done: for 20 MiB in one piece that is a tenth of a second.
    """
    assert next(iter(body)) == many
    items = b",".join([_encode(item).encode() for item in body[many]])
    rest = _encode({name: value for name, value in body.items() if name != many}).encode()
    separator = b"," if len(body) > 1 else b""
    return Response(b"".join((b"{", _encode(many).encode(), b":[", items, b"]", separator, rest[1:])), JSON_TYPE)
