"""A layer around the routes that bounds every body and dates every answer.

It counts a body while it is read, so a body without a Content-Length is bounded as well. A body that no route reads is
never in memory.
"""

from email.utils import formatdate
from functools import lru_cache

from flotilla.frontends.http.framework.errors import error_response
from flotilla.frontends.http.http1.asgi import App, Message, Receive, Scope, Send
from flotilla.machine import now_ms
from flotilla.types.errors import INVALID_ARGUMENT
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX

#: Any batch fits.
BODY_BYTES_MAX = CLIENT_FRAME_BYTES_MAX


class _TooLargeError(Exception):
    """Ends a request; is caught in this module."""


class Guard:
    def __init__(self, app: App, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._app = app
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "only HTTP is served, neither websockets nor a lifespan"
        received_bytes = 0
        has_answered = False

        async def counted() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            self._check_body(received_bytes)
            return message

        async def dated(message: Message) -> None:
            nonlocal has_answered
            if message["type"] == "http.response.start":
                has_answered = True
                _complete(message["headers"])
            await send(message)

        try:
            self._check_body(_announced_bytes(scope))
            await self._app(scope, counted, dated)
        except _TooLargeError as error:
            if not has_answered:
                # The rest of the body is not read.
                headers = {"Connection": "close"}
                refusal = error_response(INVALID_ARGUMENT, str(error), status=413, headers=headers)
                await refusal.send(dated)

    def _check_body(self, size_bytes: int) -> None:
        if size_bytes > self._body_bytes_max:
            raise _TooLargeError(f"a body has at most {self._body_bytes_max} bytes")


def _announced_bytes(scope: Scope) -> int:
    """The Content-Length, which the protocol below has checked; 0 without one."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _complete(headers: list[tuple[bytes, bytes]]) -> None:
    names = {name for name, _ in headers}
    headers.append((b"date", _date(now_ms() // 1000)))
    if b"cache-control" not in names:
        headers.append((b"cache-control", b"no-store"))


@lru_cache(maxsize=2)
def _date(time_s: int) -> bytes:
    """Formatted once a second."""
    return formatdate(time_s, usegmt=True).encode()
