"""A layer around the routes that keeps web pages of other sites out: a browser sends what any page tells it to.

Two rules, and neither needs a password:

- `Host` names this node: an address, localhost, a name of its own, or one of the setting `http_hosts`. A page whose
  name was pointed at this node after it was loaded (DNS rebinding) keeps its own name there.
- The page that asks is one of this node's (`Origin`, `Sec-Fetch-Site`). Only a link may lead here from elsewhere.

Programs other than browsers send neither header of the second rule. No GET changes anything, so where a browser leaves
both headers out, it can read nothing and change nothing. Probes of health may come with any `Host`.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from flotilla.frontends.http.framework.errors import error_response
from flotilla.frontends.http.framework.response import Response
from flotilla.frontends.http.http1.asgi import App, Receive, Scope, Send
from flotilla.types.errors import PERMISSION_DENIED

#: In the setting: any name.
ANY_HOST: Final = "*"
#: Load balancers and orchestrators ask for these under whatever name they know. They say little.
_PROBED: Final = (b"/health", b"/ready")
#: `Sec-Fetch-Site` of a page of this node, and of an address that a user typed.
_OWN_SITES: Final = (b"same-origin", b"none")
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
#: Verdicts to remember. Clients send the same `Host` with every request.
_KNOWN_MAX: Final = 256
_QUOTED_CHARS_MAX: Final = 100


class SiteGuard:
    def __init__(self, app: App, hosts: Iterable[str] = ()) -> None:
        """`hosts` are the names of this node, without ports."""
        self._app = app
        self._names = frozenset(("localhost", *(_normal(host) for host in hosts)))
        self._is_own = lru_cache(maxsize=_KNOWN_MAX)(self._names_this)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal.send(send)

    def _refusal(self, scope: Scope) -> Response | None:
        host: bytes | None = None
        origins, sites = [], []
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origins.append(value)
            elif name == b"sec-fetch-site":
                sites.append(value)
        # Only HTTP/1.0 may leave it out, and no browser does.
        if host is not None and not self._is_own(host) and scope["raw_path"] not in _PROBED:
            shown = host.decode("latin-1")[:_QUOTED_CHARS_MAX]
            message = f"this node is not called {shown!r}; its setting http_hosts can allow the name"
            return error_response(PERMISSION_DENIED, message, status=421)
        if not origins and not sites:
            return None
        if all(_is_origin(origin, host) for origin in origins) and all(site in _OWN_SITES for site in sites):
            return None
        if not origins and _is_link(scope):
            return None
        return error_response(PERMISSION_DENIED, "a web page of another site must not use this node")

    def _names_this(self, host: bytes) -> bool:
        name = _without_port(host.decode("latin-1"))
        # A page cannot be loaded under an address that is not its server's.
        if ANY_HOST in self._names or _is_address(name):
            return True
        return _normal(name) in self._names or _normal(name).endswith(".localhost")


def _normal(name: str) -> str:
    return name.removesuffix(".").lower()


def _without_port(host: str) -> str:
    """An address of IPv6 keeps its brackets."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _is_address(name: str) -> bool:
    is_bracketed = name.startswith("[") and name.endswith("]")
    try:
        return (ip_address(name[1:-1] if is_bracketed else name).version == 6) == is_bracketed
    except ValueError:
        return False


def _is_origin(origin: bytes, host: bytes | None) -> bool:
    """Whether a page of that origin was loaded from `host`. TLS may end in front of this node: any scheme will do."""
    scheme, _, authority = origin.decode("latin-1").lower().partition("://")
    if scheme not in _DEFAULT_PORTS or not host:
        return False
    port = _DEFAULT_PORTS[scheme]
    return authority.removesuffix(port) == host.decode("latin-1").lower().removesuffix(port)


def _is_link(scope: Scope) -> bool:
    """A user follows a link: the answer replaces the page, which learns nothing of it. A frame is no link."""
    found = dict(scope["headers"])
    is_page = (found.get(b"sec-fetch-mode"), found.get(b"sec-fetch-dest")) == (b"navigate", b"document")
    return is_page and scope["method"] in ("GET", "HEAD")
