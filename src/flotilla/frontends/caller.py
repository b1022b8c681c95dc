"""The caller of an HTTP request or a gRPC call: who it is, by what it sent along.

The endpoint proves it once for each request and puts the caller's session into the context of the task that serves
it. Everything that the task asks of the cluster is decided by that session (`gateway/guarded`): a task without one may
do nothing.

Checking a password is slow on purpose: it is done on a thread, a bounded number at a time, and the outcome is kept
until the password changes.
"""

import asyncio
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from contextlib import suppress
from hashlib import sha256
from typing import Final, NamedTuple

from flotilla.broker.security.gate import Gate
from flotilla.broker.security.guard import Session
from flotilla.machine import Lane, here
from flotilla.security.scram import is_password
from flotilla.types.access import ANONYMOUS, USER, Principal, Verifier
from flotilla.types.address import Address
from flotilla.types.errors import OverloadedError, UnauthenticatedError

_KNOWN_COUNT_MAX: Final = 1_024
_CHECK_COUNT_MAX: Final = 64
_HEADER_CHARS_MAX: Final = 16 * 1024
_REFUSED: Final = "the user is unknown or the password is wrong"


class _Known(NamedTuple):
    session: Session
    #: By which the password was found right.
    verifier: Verifier


class Callers:
    def __init__(self, gate: Gate, endpoint: str) -> None:
        self._gate = gate
        self._endpoint = endpoint
        #: Sessions by a digest of what was sent and from where, the oldest first.
        self._known: dict[bytes, _Known] = {}
        self._checks = 0
        self._lane: Lane | None = None

    async def session(
        self, authorization: str, address: Address | None, certificate: Principal | None, *, is_encrypted: bool
    ) -> Session:
        """The session of a caller. Raises UnauthenticatedError, OverloadedError.

        `authorization` is the header of that name; `certificate` is whom the caller's certificate names, if it showed
        one.
        """
        if certificate is not None:
            return self._proved(certificate, "certificate", address)
        if not authorization and self._gate.guard.stranger is not ANONYMOUS:
            return self._session(self._gate.guard.stranger, address)
        scheme, _, value = authorization.partition(" ")
        if not value or len(authorization) > _HEADER_CHARS_MAX:
            raise UnauthenticatedError("log in first: this cluster asks who its clients are")
        _check_safe(address, is_encrypted=is_encrypted)
        if scheme.lower() == "basic":
            return await self._by_password(value.strip(), address)
        if scheme.lower() == "bearer" and self._gate.authentication.tokens is not None:
            return self._by_token(value.strip(), address)
        raise UnauthenticatedError(f"the Authorization {scheme[:32]!r} is not known here")

    @property
    def stranger(self) -> Principal:
        """Who a caller is that does not log in."""
        return self._gate.guard.stranger

    async def log_in(
        self, user: str, password: str, address: Address | None, *, is_encrypted: bool
    ) -> tuple[Session, Verifier]:
        """A session of its own, for more than one request. Raises UnauthenticatedError, OverloadedError."""
        _check_safe(address, is_encrypted=is_encrypted)
        value = b64encode(f"{user}:{password}".encode()).decode()
        found = await self._by_password(value, address, "session")
        verifier = self._gate.authentication.known_verifier(user)
        if verifier is None:
            raise UnauthenticatedError(_REFUSED)
        return self._session(found.principal, address, is_listed=True), verifier

    def is_current(self, user: str, verifier: Verifier) -> bool:
        """Whether the user still has the password of the verifier."""
        return self._gate.authentication.known_verifier(user) == verifier

    def _session(
        self, principal: Principal, address: Address | None, *, is_listed: bool = False, expires_s: int = 0
    ) -> Session:
        session = Session(self._gate.guard, self._endpoint, str(address or ""))
        session.authenticated(principal, is_listed=is_listed, expires_s=expires_s)
        return session

    def _proved(self, principal: Principal, mechanism: str, address: Address | None, expires_s: int = 0) -> Session:
        session = self._session(principal, address, expires_s=expires_s)
        self._gate.guard.audit.proved(principal, mechanism, self._endpoint, session.address)
        return session

    def _by_token(self, token: str, address: Address | None) -> Session:
        tokens = self._gate.authentication.tokens
        assert tokens is not None
        try:
            identity = tokens.identity(token)
            return self._proved(identity.principal, "bearer", address, identity.expires_s)
        except UnauthenticatedError as error:
            self._gate.guard.audit.not_logged_in("", "bearer", self._endpoint, str(address or ""), str(error))
            raise

    async def _by_password(self, value: str, address: Address | None, mechanism: str = "basic") -> Session:
        audit, where = self._gate.guard.audit, str(address or "")
        name, password = read_basic(value)
        verifier = self._gate.authentication.known_verifier(name)
        host = "" if address is None else address.host
        key = sha256(f"{host}\n{value}".encode()).digest()
        known = self._known.get(key)
        if known is not None and known.verifier == verifier:
            noted = audit.proved if mechanism == "basic" else audit.proved_anew
            noted(known.session.principal, mechanism, self._endpoint, where)
            return known.session
        is_right = await self._check(verifier or self._gate.authentication.verifier(name), password)
        if verifier is None or not is_right:
            audit.not_logged_in(name, mechanism, self._endpoint, where, _REFUSED)
            raise UnauthenticatedError(_REFUSED)
        session = self._session(Principal(USER, name), address, is_listed=True)
        audit.proved_anew(session.principal, mechanism, self._endpoint, where)
        self._known[key] = _Known(session, verifier)
        while len(self._known) > _KNOWN_COUNT_MAX:
            del self._known[next(iter(self._known))]
        return session

    async def _check(self, verifier: Verifier, password: str) -> bool:
        if self._checks >= _CHECK_COUNT_MAX:
            raise OverloadedError("too many log-ins are being checked")
        if self._lane is None:
            self._lane = here().lane("passwords")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def settle(is_right: bool) -> None:
            if not answer.done():
                answer.set_result(is_right)

        def check() -> None:
            is_right = is_password(verifier, password)
            with suppress(RuntimeError):
                # The loop may be closed by now.
                loop.call_soon_threadsafe(settle, is_right)

        self._checks += 1
        self._lane.put(check)
        try:
            return await answer
        finally:
            self._checks -= 1

    def close(self) -> None:
        if self._lane is not None:
            self._lane.close(0)
            self._lane = None


def _check_safe(address: Address | None, *, is_encrypted: bool) -> None:
    if not is_encrypted and (address is None or not address.is_loopback):
        raise UnauthenticatedError("passwords and tokens are refused on connections that are not encrypted")


def read_basic(value: str) -> tuple[str, str]:
    """Name and password. Raises UnauthenticatedError."""
    try:
        name, colon, password = b64decode(value, validate=True).decode().partition(":")
    except (Base64Error, ValueError):
        raise UnauthenticatedError("the Authorization is not base64 of user:password") from None
    if not colon:
        raise UnauthenticatedError("the Authorization is not base64 of user:password")
    return name, password
