"""Bearer tokens (JWT), verified offline: keys from a JWKS file, fixed algorithms, audience, expiry.

A key is found by the token's key id and used with the algorithm of its own kind only: a token cannot choose another
one, least of all `none`. The subject (`sub`) is the user. Tokens live for a day at most: one that would be good for
longer is refused. No log-in waits for the file: `read` looks whether it has changed (`fresh_file`), and one that cannot
be read keeps the keys of before.
"""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from flotilla.types.access import USER, Principal, check_user_name
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError, UnsupportedError

#: By the kind of key, and its curve where it has one.
_ALGORITHMS: Final = {("OKP", "Ed25519"): "EdDSA", ("EC", "P-256"): "ES256", ("RSA", ""): "RS256"}
#: Clocks of issuers may be off by this much.
SKEW_S: Final = 60
LIFE_S_MAX: Final = 24 * 3_600
_KNOWN_COUNT_MAX: Final = 1_024
TOKEN_CHARS_MAX: Final = 8 * 1024
_FILE_BYTES_MAX: Final = 1 << 20
_RSA_BITS_MIN: Final = 2_048


class Identity(NamedTuple):
    """Whom a token names, and until when (seconds since 1970)."""

    principal: Principal
    expires_s: int


class _Key(NamedTuple):
    algorithm: str
    key: Any


class TokenVerifier:
    def __init__(self, path: str, audience: str, issuer: str, now_s: Callable[[], int], user_prefix: str = "") -> None:
        """`issuer` empty: any. Names of users begin with `user_prefix`.

        Raises InvalidArgumentError, UnsupportedError.
        """
        try:
            import jwt
        except ImportError:
            raise UnsupportedError("tokens need the extra `security`: pip install 'flotilla-mq[security]'") from None
        self._jwt = jwt
        self._path = Path(path)
        self._audience = audience
        self._issuer = issuer
        self._user_prefix = user_prefix
        self._now_s = now_s
        self._stamp: object = None
        self._keys: dict[str, _Key] = {}
        #: Tokens that were verified, by their hash, the oldest first.
        self._known: dict[bytes, Identity] = {}
        self._load()()

    def identity(self, token: str) -> Identity:
        """Raises UnauthenticatedError."""
        if len(token) > TOKEN_CHARS_MAX:
            raise UnauthenticatedError("the token is too long")
        digest = sha256(token.encode(errors="replace")).digest()
        known = self._known.get(digest)
        if known is None:
            known = self._verified(token)
            while len(self._known) >= _KNOWN_COUNT_MAX:
                del self._known[next(iter(self._known))]
            self._known[digest] = known
        if known.expires_s <= self._now_s():
            raise UnauthenticatedError("the token has expired")
        return known

    def _verified(self, token: str) -> Identity:
        jwt = self._jwt
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.get(str(header.get("kid", "")))
            if key is None:
                raise UnauthenticatedError("the token is signed by a key that is not known here")
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                audience=self._audience,
                issuer=self._issuer or None,
                options={"require": ["exp", "aud", "sub"], "verify_exp": False, "verify_nbf": False},
            )
            expires_s, begins_s = int(claims["exp"]), int(claims.get("nbf", 0))
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
            raise UnauthenticatedError("the token is not valid here") from None
        now_s = self._now_s()
        if begins_s > now_s + SKEW_S:
            raise UnauthenticatedError("the token is not valid yet")
        if expires_s + SKEW_S <= now_s:
            raise UnauthenticatedError("the token has expired")
        if expires_s > now_s + LIFE_S_MAX + SKEW_S:
            raise UnauthenticatedError("the token is valid for more than a day")
        if not str(claims["sub"]).startswith(self._user_prefix):
            raise UnauthenticatedError(f"users of this issuer have names that begin with {self._user_prefix!r}")
        try:
            check_user_name(str(claims["sub"]))
        except InvalidArgumentError as error:
            raise UnauthenticatedError(f"the token names nobody: {error}") from None
        return Identity(Principal(USER, claims["sub"]), expires_s + SKEW_S)

    def read(self, is_forced: bool) -> Callable[[], None] | None:
        """Implements security.fresh_file.Read."""
        try:
            return self._load() if is_forced or stamp_of(self._path) != self._stamp else None
        except (InvalidArgumentError, OSError):
            # The keys of before stay.
            return None

    def _load(self) -> Callable[[], None]:
        """Reads the file; what it returns takes the keys into use. Raises InvalidArgumentError."""
        try:
            stamp = stamp_of(self._path)
            with self._path.open("rb") as file:
                found = json.loads(file.read(_FILE_BYTES_MAX))
            keys = {str(row["kid"]): self._read_key(row) for row in found["keys"]}
        except (OSError, ValueError, KeyError, TypeError, self._jwt.PyJWTError) as error:
            raise InvalidArgumentError(f"{self._path} is no file of public keys (JWKS): {error}") from None

        def take() -> None:
            self._stamp, self._keys = stamp, keys
            self._known.clear()

        return take

    def _read_key(self, row: dict[str, Any]) -> _Key:
        algorithm = _ALGORITHMS.get((str(row.get("kty")), str(row.get("crv", ""))))
        if algorithm is None:
            raise ValueError(f"key {row['kid']!r} is neither Ed25519, P-256 nor RSA")
        if "d" in row or "k" in row:
            raise ValueError(f"key {row['kid']!r} is a secret one")
        key = self._jwt.PyJWK(row, algorithm=algorithm).key
        if algorithm == "RS256" and key.key_size < _RSA_BITS_MIN:
            raise ValueError(f"key {row['kid']!r} has fewer than {_RSA_BITS_MIN} bits")
        return _Key(algorithm, key)


def stamp_of(path: Path) -> object:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
