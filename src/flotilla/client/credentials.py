"""Who a client is, for brokers that ask: a user with a password, or a token.

Secrets come from files or from a function of the application, are read when a connection is made, and never appear in
a text. A password is used to prove itself (SCRAM): it does not leave the process.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from flotilla.security.scram import PasswordKeys
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError

_FILE_BYTES_MAX: Final = 16 * 1024
#: What the mode of a file says about everybody but its owner.
_OTHERS: Final = 0o077


class Password:
    """A user and its password."""

    __slots__ = ("keys", "user")

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.keys = PasswordKeys(password)

    def __repr__(self) -> str:
        return f"Password({self.user!r}, ...)"


class Token:
    """A bearer token (JWT), which names its user."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "Token(...)"


Credentials: TypeAlias = Password | Token
#: Asked for each connection; None: the client does not say who it is.
CredentialsProvider: TypeAlias = Callable[[], Credentials | None]


def read_credentials(
    user: str, password_file: str, token_file: str, credentials: CredentialsProvider | Credentials | None
) -> CredentialsProvider | None:
    """Of the ways to say who a client is, the one that was chosen. Raises InvalidArgumentError for two at once."""
    ways = [bool(user or password_file), bool(token_file), credentials is not None]
    if sum(ways) > 1:
        raise InvalidArgumentError("a client has a user and a password file, a token file, or credentials: one of them")
    if bool(user) != bool(password_file):
        raise InvalidArgumentError("a user needs a password file, and a password file a user")
    if user:
        return _PasswordFile(user, password_file)
    if token_file:
        return lambda: Token(read_secret(token_file))
    if credentials is None or callable(credentials):
        return credentials
    return lambda: credentials


class _PasswordFile:
    """Reads the file for each connection, and hashes the password again only if it has changed."""

    def __init__(self, user: str, path: str) -> None:
        self._user = user
        self._path = path
        self._known: tuple[str, Password] | None = None

    def __call__(self) -> Password:
        text = read_secret(self._path)
        if self._known is None or self._known[0] != text:
            self._known = (text, Password(self._user, text))
        return self._known[1]


def read_secret(path: str) -> str:
    """The first line of a file that only its owner may read. Raises UnauthenticatedError."""
    try:
        if sys.platform != "win32" and Path(path).stat().st_mode & _OTHERS:
            raise UnauthenticatedError(f"the secret {path} can be read by others than its owner: chmod 600 {path}")
        with Path(path).open(encoding="utf-8") as file:
            text = file.readline(_FILE_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UnauthenticatedError(f"the secret cannot be read: {error}") from None
    if not text:
        raise UnauthenticatedError(f"{path} is empty")
    return text
