"""A layer around the routes of a proxy: every request is made with the credentials of its caller."""

from flotilla.frontends.forwarded_callers import ForwardedCallers
from flotilla.frontends.http.authentication import address_of, header_of
from flotilla.frontends.http.framework.errors import refusal
from flotilla.frontends.http.http1.asgi import App, Receive, Scope, Send
from flotilla.types.errors import FlotillaError


class ForwardingLayer:
    def __init__(self, app: App, callers: ForwardedCallers) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = header_of(scope, b"authorization")
        is_encrypted = scope.get("scheme") == "https"
        try:
            with self._callers.serving(authorization, address_of(scope), is_encrypted=is_encrypted):
                await self._app(scope, receive, send)
        except FlotillaError as error:
            # Of the credentials: the routes answer their own.
            await refusal(error).send(send)
