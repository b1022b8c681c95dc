"""SCRAM-SHA-256 (RFC 5802, RFC 7677) without I/O: texts in, texts out, for both sides.

A server knows a verifier, from which nobody can log in, and never sees the password; a client learns whether the server
knows the verifier. Hashing the password, which is slow on purpose, is the client's work: a server does a few HMACs.

Nonces come from the caller, who has randomness. Channel binding is not offered: "n,," is the only header.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import pbkdf2_hmac, sha256
from typing import Final
from unicodedata import category, normalize

from flotilla.types.access import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN, KEY_BYTES, Verifier
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError

MECHANISM: Final = "SCRAM-SHA-256"
#: Bytes of randomness in the nonce of each side.
NONCE_BYTES: Final = 18
SALT_BYTES: Final = 16
#: Longer passwords and messages are refused: hashing must not become an attack.
PASSWORD_CHARS_MAX: Final = 1_024
MESSAGE_CHARS_MAX: Final = 4_096
_HEADER: Final = "n,,"
_BINDING: Final = b64encode(_HEADER.encode()).decode()
_REFUSED: Final = "the user is unknown or the password is wrong"


def derive(password: str, salt: bytes, iterations: int) -> Verifier:
    """The verifier of a password. Slow on purpose. Raises InvalidArgumentError."""
    salted = salted_password(password, salt, iterations)
    return Verifier(salt, iterations, sha256(_mac(salted, b"Client Key")).digest(), _mac(salted, b"Server Key"))


def salted_password(password: str, salt: bytes, iterations: int) -> bytes:
    return pbkdf2_hmac("sha256", prepared(password).encode(), salt, iterations)


def prepared(password: str) -> str:
    """One form of texts that look the same. Raises InvalidArgumentError for what no keyboard types."""
    text = normalize("NFKC", password)
    if not 0 < len(text) <= PASSWORD_CHARS_MAX or any(category(each) in ("Cc", "Cs") for each in text):
        raise InvalidArgumentError(
            f"a password has 1 to {PASSWORD_CHARS_MAX} characters, none of them control characters"
        )
    return text


def is_password(verifier: Verifier, password: str) -> bool:
    """Whether it is the password of the verifier. Slow on purpose: not for a loop."""
    try:
        found = derive(password, verifier.salt, verifier.iterations)
    except InvalidArgumentError:
        return False
    return hmac.compare_digest(found.stored_key, verifier.stored_key)


def fake_verifier(user: str, secret: bytes) -> Verifier:
    """A verifier that no password has: an unknown user looks like a known one, the same each time."""
    salt = _mac(secret, b"salt of " + user.encode(errors="replace"))[:SALT_BYTES]
    return Verifier(salt, ITERATIONS, bytes(KEY_BYTES), bytes(KEY_BYTES))


class ClientExchange:
    """One log-in at the client's side. Raises UnauthenticatedError when the server's answers are not those of SCRAM."""

    def __init__(self, user: str, password: "PasswordKeys", nonce: bytes) -> None:
        self._password = password
        self._nonce = _text(nonce)
        self._bare = f"n={_escaped(user)},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return (_HEADER + self._bare).encode()

    def answer(self, challenge: bytes) -> bytes:
        """The proof, for the server's challenge."""
        text = _decoded(challenge)
        parts = _attributes(text)
        nonce, salt, iterations = parts.get("r", ""), _bytes(parts.get("s", "")), _whole(parts.get("i", ""))
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise UnauthenticatedError("the server answers another log-in")
        if not salt or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise UnauthenticatedError(f"the server asks for {iterations} iterations, which is too few or too many")
        final = f"c={_BINDING},r={nonce}"
        signed = f"{self._bare},{text},{final}".encode()
        salted = self._password.salted(salt, iterations)
        client_key = _mac(salted, b"Client Key")
        proof = _xor(client_key, _mac(sha256(client_key).digest(), signed))
        self._signature = _mac(_mac(salted, b"Server Key"), signed)
        return f"{final},p={_text(proof)}".encode()

    def check(self, verdict: bytes) -> None:
        """Whether the server has proved that it knows the verifier."""
        found = _bytes(_attributes(_decoded(verdict)).get("v", ""))
        if not self._signature or not hmac.compare_digest(found, self._signature):
            raise UnauthenticatedError("the server does not know the user: it may be another one than it says")


class PasswordKeys:
    """A password, with the slow hash of it for the last salt: all connections to a cluster have the same."""

    __slots__ = ("_found", "_password")

    def __init__(self, password: str) -> None:
        self._password = password
        self._found: tuple[bytes, int, bytes] | None = None

    def __repr__(self) -> str:
        return "<PasswordKeys>"

    def salted(self, salt: bytes, iterations: int) -> bytes:
        found = self._found
        if found is None or found[:2] != (salt, iterations):
            found = self._found = (salt, iterations, salted_password(self._password, salt, iterations))
        return found[2]


class ServerExchange:
    """One log-in at the server's side: `first`, then `final`. Raises UnauthenticatedError."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = _text(nonce)
        #: Who wants to log in; empty before `first`.
        self.user = ""
        self._bare = ""
        self._challenge = ""
        self._verifier: Verifier | None = None

    def read_first(self, data: bytes) -> str:
        """The name of the user who wants to log in."""
        text = _decoded(data)
        if not text.startswith(_HEADER):
            raise UnauthenticatedError("this log-in asks for channel binding or for another user's name")
        self._bare = text[len(_HEADER) :]
        parts = _attributes(self._bare)
        self.user = _unescaped(parts.get("n", ""))
        nonce = parts.get("r", "")
        if not self.user or not nonce or "m" in parts:
            raise UnauthenticatedError("the first message of a log-in is malformed")
        self._nonce = nonce + self._nonce
        return self.user

    def challenge(self, verifier: Verifier) -> bytes:
        """What the client has to answer; the verifier is that of the user, or a fake one."""
        self._verifier = verifier
        self._challenge = f"r={self._nonce},s={_text(verifier.salt)},i={verifier.iterations}"
        return self._challenge.encode()

    def verdict(self, data: bytes) -> bytes:
        """The proof of the server, for that of the client. Raises UnauthenticatedError when it is wrong."""
        verifier = self._verifier
        assert verifier is not None, "the challenge comes first"
        text = _decoded(data)
        parts = _attributes(text)
        final = text.rpartition(",p=")[0]
        proof = _bytes(parts.get("p", ""))
        if parts.get("c") != _BINDING or parts.get("r") != self._nonce or len(proof) != KEY_BYTES:
            raise UnauthenticatedError(_REFUSED)
        signed = f"{self._bare},{self._challenge},{final}".encode()
        client_key = _xor(proof, _mac(verifier.stored_key, signed))
        if not hmac.compare_digest(sha256(client_key).digest(), verifier.stored_key):
            raise UnauthenticatedError(_REFUSED)
        return f"v={_text(_mac(verifier.server_key, signed))}".encode()


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes([a ^ b for a, b in zip(one, other, strict=True)])


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    """Empty for what is no base64, or not the one way to write its bytes."""
    try:
        found = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        return b""
    return found if _text(found) == text else b""


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _decoded(data: bytes) -> str:
    if len(data) > MESSAGE_CHARS_MAX:
        raise UnauthenticatedError("a message of a log-in is too long")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UnauthenticatedError("a message of a log-in is not UTF-8") from None


def _attributes(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
