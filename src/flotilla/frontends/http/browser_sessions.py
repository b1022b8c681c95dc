"""Sessions of browsers at one node: who logged in on its pages, known by a cookie until they leave or are idle.

A session lives in the memory of this node alone. The cookie is random and means nothing elsewhere; the table holds its
digest. What changes something must carry the session's CSRF token besides, which a page of this node reads from
`/session` and no other page can.
"""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from flotilla.broker.security.guard import Session
from flotilla.machine import here
from flotilla.types.access import Verifier
from flotilla.types.limits import (
    HTTP_SESSION_COUNT_MAX,
    HTTP_SESSION_IDLE_MS_MAX,
    HTTP_SESSION_MS_MAX,
    HTTP_SESSION_USER_COUNT_MAX,
)

_COOKIE_BYTES: Final = 32
_CSRF_BYTES: Final = 16


@dataclass(slots=True)
class BrowserSession:
    session: Session
    #: By which the password was found right: another one ends the session.
    verifier: Verifier
    csrf: str
    begun_ms: int
    used_ms: int

    @property
    def user(self) -> str:
        return self.session.principal.name

    def is_token(self, text: str) -> bool:
        return hmac.compare_digest(self.csrf.encode(), text.encode("latin-1", "replace"))


class BrowserSessions:
    def __init__(self) -> None:
        #: By the digest of the cookie, the least recently used first.
        self._sessions: dict[bytes, BrowserSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session: Session, verifier: Verifier) -> tuple[str, BrowserSession]:
        """The value of the cookie, and the session. Beyond the bounds the least recently used ones end."""
        now_ms = here().steady_ms()
        self._forget_old(now_ms)
        made = BrowserSession(session, verifier, here().secret(_CSRF_BYTES).hex(), now_ms, now_ms)
        same = [key for key, other in self._sessions.items() if other.user == made.user]
        for key in same[: len(same) - HTTP_SESSION_USER_COUNT_MAX + 1]:
            self._end(key)
        if len(self._sessions) >= HTTP_SESSION_COUNT_MAX:
            self._end(next(iter(self._sessions)))
        cookie = here().secret(_COOKIE_BYTES).hex()
        self._sessions[_digest(cookie)] = made
        return cookie, made

    def find(self, cookie: str) -> BrowserSession | None:
        """The session of a cookie, which counts as used now."""
        now_ms = here().steady_ms()
        key = _digest(cookie)
        found = self._sessions.get(key)
        if found is None:
            return None
        if _is_old(found, now_ms) or not found.session.is_open:
            self._end(key)
            return None
        found.used_ms = now_ms
        self._sessions[key] = self._sessions.pop(key)
        return found

    def end(self, cookie: str) -> None:
        self._end(_digest(cookie))

    def _end(self, key: bytes) -> None:
        found = self._sessions.pop(key, None)
        if found is not None:
            found.session.end()

    def _forget_old(self, now_ms: int) -> None:
        for key in [key for key, found in self._sessions.items() if _is_old(found, now_ms)]:
            self._end(key)


def _is_old(found: BrowserSession, now_ms: int) -> bool:
    return now_ms - found.used_ms > HTTP_SESSION_IDLE_MS_MAX or now_ms - found.begun_ms > HTTP_SESSION_MS_MAX


def _digest(cookie: str) -> bytes:
    return sha256(cookie.encode("latin-1", "replace")).digest()
