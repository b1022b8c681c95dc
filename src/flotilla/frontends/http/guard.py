"""What holds for every request and answer, whichever route: bodies are bounded, answers dated and not kept.

A plain ASGI layer around the routes. It counts a body while it is read, so that a client which does not say
how much it sends is bounded as well; what no route reads is never in memory.
"""

from email.utils import formatdate

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flotilla.frontends.http.errors import error_response
from flotilla.types.errors import INVALID_ARGUMENT
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX

#: The body of one request; room for any batch.
BODY_BYTES_MAX = CLIENT_FRAME_BYTES_MAX


class _BodyTooLargeError(Exception):
    """Ends the reading of a body; never leaves this module."""


class Guard:
    def __init__(self, app: ASGIApp, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._app = app
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received_bytes = 0
        has_answered = False

        async def counted() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._body_bytes_max:
                raise _BodyTooLargeError
            return message

        async def dated(message: Message) -> None:
            nonlocal has_answered
            if message["type"] == "http.response.start":
                has_answered = True
                _complete(message["headers"])
            await send(message)

        try:
            if _announced_bytes(scope) > self._body_bytes_max:
                raise _BodyTooLargeError
            await self._app(scope, counted, dated)
        except _BodyTooLargeError:
            if not has_answered:
                message = f"a body has at most {self._body_bytes_max} bytes"
                # The rest of the body is not worth reading.
                refusal = error_response(INVALID_ARGUMENT, message, status=413, headers={"Connection": "close"})
                await refusal(scope, receive, dated)


def _announced_bytes(scope: Scope) -> int:
    """What the client says it sends; the protocol underneath has checked that it is one number."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return 0


def _complete(headers: list[tuple[bytes, bytes]]) -> None:
    names = {name for name, _ in headers}
    headers.append((b"date", formatdate(usegmt=True).encode()))
    if b"cache-control" not in names:
        headers.append((b"cache-control", b"no-store"))
