"""A layer around the routes that asks who calls: `Authorization: Basic` or `Bearer`, a certificate, or a session.

A session is a browser's (`log_in_pages`). With it, what changes something must carry the session's CSRF token. A
browser that asks for a page without one is sent to log in.

Probes of health and readiness need no answer to that, and are told no more than yes or no then. Metrics name topics, so
they are for those who may describe all.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from flotilla.frontends.caller import Callers
from flotilla.frontends.http.browser_sessions import BrowserSessions
from flotilla.frontends.http.framework.errors import refusal
from flotilla.frontends.http.framework.response import Response, json_response
from flotilla.frontends.http.http1.asgi import App, Message, Receive, Scope, Send
from flotilla.frontends.http.log_in_pages import VISITOR, LogInPages, Visitor, cookie_name
from flotilla.gateway.guarded import CALLER
from flotilla.types.access import DESCRIBE, EVERYTHING, Principal
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, NotFoundError, PermissionDeniedError, UnauthenticatedError

_PROBES: Final = (b"/health", b"/ready")
_METRICS: Final = b"/metrics"
#: What a page sends along with everything that changes something.
CSRF_HEADER: Final = b"flotilla-csrf"
_CHALLENGE: Final = (b"www-authenticate", b'Basic realm="flotilla", charset="UTF-8", Bearer')


class AuthenticationLayer:
    def __init__(self, app: App, callers: Callers, ended: Callable[[], None] | None = None) -> None:
        """`ended` is called when the session of a browser has ended."""
        self._app = app
        self._callers = callers
        self._sessions = BrowserSessions()
        self._pages = LogInPages(callers, self._sessions, ended or _nothing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["raw_path"]
        visitor = self._visitor(scope)
        if path in self._pages.paths:
            VISITOR.set(visitor)
            await self._pages.serve(scope, receive, send)
            return
        authorization = _authorization(scope)
        try:
            if visitor.session is not None and not authorization:
                if _is_forged(scope, visitor):
                    raise PermissionDeniedError("the page must send the CSRF token of its session (Flotilla-Csrf)")
                session = visitor.session.session
            else:
                session = await self._callers.session(
                    authorization, visitor.address, visitor.certificate, is_encrypted=visitor.is_encrypted
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
            await _refusal(error, scope).send(send)
            return
        token = CALLER.set(session)
        if (connection := scope.get("connection")) is not None:
            connection.caller = str(caller)
        try:
            await self._app(scope, receive, send)
        finally:
            CALLER.reset(token)
            session.leave(caller)

    def _visitor(self, scope: Scope) -> Visitor:
        is_encrypted = scope.get("scheme") == "https"
        cookie = _cookie(scope, cookie_name(is_encrypted=is_encrypted))
        session = self._sessions.find(cookie) if cookie else None
        if session is not None and not self._callers.is_current(session.user, session.verifier):
            self._sessions.end(cookie)
            session = None
        return Visitor(address_of(scope), is_encrypted, _principal(scope), cookie, session)

    async def _probe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The status without the reasons."""
        status = 503

        async def heard(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]

        await self._app(scope, receive, heard)
        await json_response({"ok": status == 200}, status).send(send)


def _nothing() -> None:
    """Nobody wants to know."""


def _is_forged(scope: Scope, visitor: Visitor) -> bool:
    """Whether a request that changes something lacks the token of its session."""
    if visitor.session is None or scope["method"] in ("GET", "HEAD"):
        return False
    return not visitor.session.is_token(header_of(scope, CSRF_HEADER))


def _refusal(error: FlotillaError, scope: Scope) -> Response:
    response = refusal(error)
    if not isinstance(error, UnauthenticatedError):
        return response
    is_page = scope["method"] == "GET" and "text/html" in header_of(scope, b"accept")
    if is_page and not header_of(scope, b"authorization"):
        where = quote(scope["raw_path"].decode("ascii"), safe="/")
        return Response(
            b"", "text/plain", 303, headers={"Location": f"/login?next={where}", "Cache-Control": "no-store"}
        )
    if not header_of(scope, b"sec-fetch-site"):
        # A browser would ask for a password by itself, and keep it.
        response.headers.append(_CHALLENGE)
    return response


def header_of(scope: Scope, name: bytes) -> str:
    """Empty: it is not there, or more than once."""
    found = [value for each, value in scope["headers"] if each == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _cookie(scope: Scope, name: str) -> str:
    pairs = [pair.strip().partition("=") for pair in header_of(scope, b"cookie").split(";")]
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 else ""


def _authorization(scope: Scope) -> str:
    # Two of them would be a riddle for whoever reads the log of a proxy in front.
    return header_of(scope, b"authorization")


def address_of(scope: Scope) -> Address | None:
    peer = scope.get("client")
    return Address(str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and len(peer) > 1 else None


def _principal(scope: Scope) -> Principal | None:
    found = scope.get("peer_principal")
    return found if isinstance(found, Principal) else None
