"""Several issuers of bearer tokens, from one TOML file: each with its name, its keys, its audience and its users.

    [[issuer]]
    name = "https://login.example.org"
    keys = "login.jwks"
    audience = "orders"
    user_prefix = "staff-"

The issuer that a token names (`iss`) decides by whose keys it is verified: a key of one issuer signs nothing for
another. `keys` is a JWKS file, relative to this one; `audience` is the cluster's by default; `user_prefix` is how the
names of its users begin, so that one issuer cannot name the users of another. The file is read again when it changes,
beside the loop (`fresh_file`); one that cannot be used changes nothing.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from flotilla.security.tokens import TOKEN_CHARS_MAX, Identity, TokenVerifier, stamp_of
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError

_ISSUER_COUNT_MAX: Final = 32
_FILE_BYTES_MAX: Final = 64 * 1024
_FIELDS: Final = {"name", "keys", "audience", "user_prefix"}


class TokenIssuers:
    """Implements broker.security.authentication.Tokens."""

    def __init__(self, path: str, audience: str, now_s: Callable[[], int]) -> None:
        """Raises InvalidArgumentError, UnsupportedError."""
        self._path = Path(path)
        self._audience = audience
        self._now_s = now_s
        self._stamp: object = None
        self._issuers: dict[str, TokenVerifier] = {}
        self._load()()

    def identity(self, token: str) -> Identity:
        """Raises UnauthenticatedError."""
        issuer = self._issuers.get(_issuer_of(token))
        if issuer is None:
            raise UnauthenticatedError("the token is of an issuer that is not known here")
        return issuer.identity(token)

    def read(self, is_forced: bool) -> Callable[[], None] | None:
        """Implements security.fresh_file.Read, for this file and those with keys."""
        try:
            if is_forced or stamp_of(self._path) != self._stamp:
                return self._load()
        except (InvalidArgumentError, OSError):
            # The issuers of before stay, and their keys may change.
            pass
        changes = [take for issuer in self._issuers.values() if (take := issuer.read(is_forced)) is not None]
        return _all_of(changes) if changes else None

    def _load(self) -> Callable[[], None]:
        """All or nothing; what it returns takes it into use. Raises InvalidArgumentError, UnsupportedError."""
        try:
            stamp = stamp_of(self._path)
            with self._path.open("rb") as file:
                rows = tomllib.loads(file.read(_FILE_BYTES_MAX).decode())["issuer"]
            issuers = {str(row["name"]): self._read(row) for row in rows}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(f"{self._path} is no file of issuers: {error}") from None
        if not 0 < len(rows) <= _ISSUER_COUNT_MAX:
            raise InvalidArgumentError(f"{self._path} names {len(rows)} issuers, not 1 to {_ISSUER_COUNT_MAX}")
        if len(issuers) < len(rows):
            raise InvalidArgumentError(f"{self._path} names an issuer twice")

        def take() -> None:
            self._stamp, self._issuers = stamp, issuers

        return take

    def _read(self, row: dict[str, Any]) -> TokenVerifier:
        """Raises ValueError, KeyError, TypeError, InvalidArgumentError, UnsupportedError."""
        unknown = sorted(row.keys() - _FIELDS)
        if unknown:
            raise ValueError(f"an issuer has no {unknown[0]!r}")
        if not all(isinstance(value, str) and value for value in row.values()):
            raise ValueError("what an issuer has are texts, and none is empty")
        keys = self._path.parent / row["keys"]
        audience = row.get("audience", self._audience)
        return TokenVerifier(str(keys), audience, row["name"], self._now_s, row.get("user_prefix", ""))


def _all_of(changes: list[Callable[[], None]]) -> Callable[[], None]:
    def take() -> None:
        for change in changes:
            change()

    return take


def _issuer_of(token: str) -> str:
    """Whom the token names, which proves nothing; empty: nobody."""
    import jwt

    if len(token) > TOKEN_CHARS_MAX:
        return ""
    try:
        return str(jwt.decode(token, options={"verify_signature": False}).get("iss", ""))
    except (jwt.PyJWTError, ValueError, TypeError):
        return ""
