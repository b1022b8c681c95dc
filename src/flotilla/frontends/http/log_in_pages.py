"""The pages of a browser's session: log in, log out, and who is logged in.

GET  /login      a page with a form; its script sends the next one
POST /login      {"user", "password"}: begins a session and sets its cookie
POST /logout     ends it
GET  /session    {"user", "csrf"}: what a page sends along as `Flotilla-Csrf` with what changes something

The cookie is not for scripts (HttpOnly), is sent by pages of this node only (SameSite=Strict), and where the connection
is encrypted it is never sent without that, and by no other host (`__Host-`, Secure).
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, NamedTuple

from flotilla.frontends.caller import Callers
from flotilla.frontends.http.browser_sessions import BrowserSession, BrowserSessions
from flotilla.frontends.http.framework.operation import ANYTHING, Answer, Call, Handler, Operation, Parameter, obj, text
from flotilla.frontends.http.framework.response import Response, json_response
from flotilla.frontends.http.framework.router import Router
from flotilla.frontends.http.pages import file_page
from flotilla.types.access import ANONYMOUS, Principal
from flotilla.types.address import Address
from flotilla.types.errors import PermissionDeniedError

_NEVER_KEPT: Final = {"Cache-Control": "no-store"}
_CREDENTIALS: Final = obj(("user", "password"), user=text(1, 128), password=text(1, 1_024))


class Visitor(NamedTuple):
    """Whoever sent the request that is being served."""

    address: Address | None
    is_encrypted: bool
    #: Whom its certificate names.
    certificate: Principal | None
    cookie: str
    #: Of the cookie; None: it has none, or none that is good.
    session: BrowserSession | None

    @property
    def cookie_name(self) -> str:
        return cookie_name(is_encrypted=self.is_encrypted)


VISITOR: ContextVar[Visitor] = ContextVar("VISITOR")


def cookie_name(*, is_encrypted: bool) -> str:
    return "__Host-flotilla" if is_encrypted else "flotilla"


class LogInPages:
    def __init__(self, callers: Callers, sessions: BrowserSessions, ended: Callable[[], None]) -> None:
        """`ended` is called when a session has ended, so that its streams do, too."""
        self._callers = callers
        self._sessions = sessions
        self._ended = ended
        rows = [
            file_page("/login", "login.html", (Parameter("next", text(0, 2_000)),)),
            file_page("/login.js", "login.js"),
            file_page("/pages.css", "pages.css"),
            _operation("POST", "/login", self._log_in, _CREDENTIALS),
            _operation("POST", "/logout", self._log_out, obj()),
            _operation("GET", "/session", self._session),
        ]
        self.serve = Router(rows)
        self.paths = frozenset(row.path.encode() for row in rows)

    async def _log_in(self, call: Call) -> Response:
        visitor = VISITOR.get()
        name, password = call.body["user"], call.body["password"]
        session, verifier = await self._callers.log_in(
            name, password, visitor.address, is_encrypted=visitor.is_encrypted
        )
        if visitor.cookie:
            # Another session than before: whoever knew the old cookie learns nothing.
            self._sessions.end(visitor.cookie)
        cookie, made = self._sessions.begin(session, verifier)
        return json_response({"user": name, "csrf": made.csrf}, headers=_set(visitor, cookie))

    async def _log_out(self, call: Call) -> Response:
        visitor = VISITOR.get()
        if visitor.session is not None:
            if not visitor.session.is_token(call.headers.get("flotilla-csrf", "")):
                raise PermissionDeniedError("the page must send the CSRF token of its session (Flotilla-Csrf)")
            self._sessions.end(visitor.cookie)
            self._ended()
        return json_response({}, headers=_set(visitor, ""))

    async def _session(self, _: Call) -> Response:
        visitor = VISITOR.get()
        user = "" if visitor.certificate is None else visitor.certificate.name
        csrf = ""
        if visitor.session is not None:
            user, csrf = visitor.session.user, visitor.session.csrf
        is_open = bool(user) or self._callers.stranger is not ANONYMOUS
        return json_response({"user": user, "csrf": csrf}, 200 if is_open else 401, _NEVER_KEPT)


def _set(visitor: Visitor, cookie: str) -> dict[str, str]:
    parts = [f"{visitor.cookie_name}={cookie}", "Path=/", "HttpOnly", "SameSite=Strict"]
    if visitor.is_encrypted:
        parts.append("Secure")
    if not cookie:
        parts.append("Max-Age=0")
    return {**_NEVER_KEPT, "Set-Cookie": "; ".join(parts)}


def _operation(method: str, path: str, handler: Handler, body: object = None) -> Operation:
    return Operation(f"{method} {path}", method, path, "", "", handler, body=body, answers={200: ANYTHING})  # type: ignore[arg-type]


async def no_session(_: Call) -> Answer:
    """`/session` of a node that asks nobody who they are."""
    return Answer({"user": "", "csrf": ""})
