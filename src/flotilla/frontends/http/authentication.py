"""A layer around the routes that asks who calls: `Authorization: Basic` or `Bearer`, or a certificate.

Probes of health and readiness need no answer to that, and are told no more than yes or no then. Metrics name topics, so
they are for those who may describe all.
"""

from typing import Final

from flotilla.frontends.caller import Callers
from flotilla.frontends.http.framework.errors import refusal
from flotilla.frontends.http.framework.response import json_response
from flotilla.frontends.http.http1.asgi import App, Message, Receive, Scope, Send
from flotilla.gateway.guarded import CALLER
from flotilla.types.access import DESCRIBE, EVERYTHING, Principal
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, NotFoundError, PermissionDeniedError, UnauthenticatedError

_PROBES: Final = (b"/health", b"/ready")
_METRICS: Final = b"/metrics"
_CHALLENGE: Final = (b"www-authenticate", b'Basic realm="flotilla", charset="UTF-8", Bearer')


class AuthenticationLayer:
    def __init__(self, app: App, callers: Callers) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["raw_path"]
        try:
            session = await self._callers.session(
                _authorization(scope), _address(scope), _principal(scope), is_encrypted=scope.get("scheme") == "https"
            )
            if path == _METRICS:
                try:
                    session.require(DESCRIBE, EVERYTHING)
                except NotFoundError:
                    raise PermissionDeniedError(f"{session.principal} may not describe all topics") from None
            caller = session.enter()
        except FlotillaError as error:
            if path in _PROBES:
                await self._probe(scope, receive, send)
                return
            response = refusal(error)
            if isinstance(error, UnauthenticatedError):
                response.headers.append(_CHALLENGE)
            await response.send(send)
            return
        token = CALLER.set(session)
        try:
            await self._app(scope, receive, send)
        finally:
            CALLER.reset(token)
            session.leave(caller)

    async def _probe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The status without the reasons."""
        status = 503

        async def heard(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]

        await self._app(scope, receive, heard)
        await json_response({"ok": status == 200}, status).send(send)


def _authorization(scope: Scope) -> str:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    # Two of them would be a riddle for whoever reads the log of a proxy in front.
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _address(scope: Scope) -> Address | None:
    peer = scope.get("client")
    return Address(str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and len(peer) > 1 else None


def _principal(scope: Scope) -> Principal | None:
    found = scope.get("peer_principal")
    return found if isinstance(found, Principal) else None
