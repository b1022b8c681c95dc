"""The application of a server without free connections: the status pages, so that no crowd makes a node look dead.

Each connection gets one answer.
"""

from typing import Final

from flotilla.frontends.http.framework.errors import error_response
from flotilla.frontends.http.http1.asgi import App, Message, Receive, Scope, Send
from flotilla.types.errors import OVERLOADED

_PAGES: Final = (b"/health", b"/ready", b"/metrics")


class StatusOnly:
    def __init__(self, app: App, reason: str) -> None:
        """`reason` says why there is no connection for anything else."""
        self._app = app
        self._reason = reason

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["raw_path"] not in _PAGES or scope["method"] not in ("GET", "HEAD"):
            headers = {"Connection": "close", "Retry-After": "1"}
            await error_response(OVERLOADED, self._reason, status=503, headers=headers).send(send)
            return

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"connection", b"close"))
            await send(message)

        await self._app(scope, receive, last)
