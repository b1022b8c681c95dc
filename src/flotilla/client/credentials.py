"""Who a client is, for brokers that ask: a user with a password, or a token.

Secrets come from files or from a function of the application, are read when a connection is made, and never appear in
a text. A password is used to prove itself (SCRAM): it does not leave the process.
"""

from collections.abc import Callable
from typing import TypeAlias

from flotilla.security.join_secret import JoinSecret
from flotilla.security.scram import PasswordKeys
from flotilla.security.secret_file import read_secret
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError


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


class JoinCredentials:
    """The join secret, of a node that joins or a command that founds. It is proved whether the broker asks or not."""

    __slots__ = ("keys", "user")

    def __init__(self, user: str, secret: JoinSecret) -> None:
        self.user = user
        self.keys = secret.keys

    def __call__(self) -> "JoinCredentials":
        """The provider of itself."""
        return self


Credentials: TypeAlias = Password | Token | JoinCredentials
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
        return lambda: Token(_read(token_file))
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
        text = _read(self._path)
        if self._known is None or self._known[0] != text:
            self._known = (text, Password(self._user, text))
        return self._known[1]


def _read(path: str) -> str:
    """Raises UnauthenticatedError."""
    try:
        return read_secret(path)
    except InvalidArgumentError as error:
        raise UnauthenticatedError(str(error)) from None
