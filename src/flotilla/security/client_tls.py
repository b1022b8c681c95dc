"""How a client's connections are encrypted: the files that it trusts, and those that say who it is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Final

from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    import ssl

    from flotilla.security.contexts import FreshContext

#: For clients only: a node ignores them.
CA_VARIABLE: Final = "FLOTILLA_CLIENT_CA"
CERTIFICATE_VARIABLE: Final = "FLOTILLA_CLIENT_CERTIFICATE"
KEY_VARIABLE: Final = "FLOTILLA_CLIENT_KEY"
VARIABLES: Final = (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)


@dataclass(frozen=True)
class Tls:
    """Encrypted connections: a client with this speaks TLS 1.3 to brokers, and to nobody else.

    ca: the file with the authorities whose certificates brokers may have; by default those that the system trusts
    certificate, key: files that say who the client is, for brokers that ask for it. Only the owner may read the key

    The name or address in the list of servers must stand in the broker's certificate. Files that change are read again
    for the next connection.
    """

    ca: str | PathLike[str] = ""
    certificate: str | PathLike[str] = ""
    key: str | PathLike[str] = ""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise InvalidArgumentError("a certificate and its key go together")


def read_tls(ca: str, certificate: str, key: str) -> Tls | None:
    """From flags or options, where nothing is an empty text; None: all are. Raises InvalidArgumentError."""
    return Tls(ca, certificate, key) if ca or certificate or key else None


def tls_of_environment(environ: Mapping[str, str] = os.environ) -> Tls | None:
    """What the variables for clients say; None: nothing. Raises InvalidArgumentError."""
    return read_tls(*(environ.get(name, "") for name in VARIABLES))


def fresh_context(tls: Tls) -> "FreshContext":
    """For the connections of one client. Raises InvalidArgumentError."""
    # Imported late: most commands need no more than the variables.
    from flotilla.security.contexts import FreshContext, client_context

    ca, certificate, key = os.fspath(tls.ca), os.fspath(tls.certificate), os.fspath(tls.key)

    def make() -> "ssl.SSLContext":
        return client_context(ca, certificate, key)

    return FreshContext((ca, certificate, key), make)
