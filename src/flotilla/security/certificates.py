"""Whom a certificate names, and until when it is valid.

The owner of a certificate is a URI among its names:

    flotilla://<cluster>/node/<id>      a node
    flotilla://<cluster>/user/<name>    a user

A certificate that names nobody of the cluster has no owner here, and neither has one that names two.
"""

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flotilla.types.access import NODE, USER, Principal
from flotilla.types.errors import InvalidArgumentError, UnsupportedError
from flotilla.types.ids import NodeId

if TYPE_CHECKING:
    from cryptography import x509

SCHEME: Final = "flotilla://"
USER_NAME: Final = r"[A-Za-z0-9._@-]{1,128}"
_OWNER = re.compile(
    rf"flotilla://(?P<cluster>[A-Za-z0-9._-]{{1,64}})/(?:node/(?P<node>[1-9][0-9]{{0,9}})|user/(?P<user>{USER_NAME}))"
)


def node_uri(cluster: str, node: NodeId) -> str:
    return f"{SCHEME}{cluster}/node/{node}"


def user_uri(cluster: str, name: str) -> str:
    return f"{SCHEME}{cluster}/user/{name}"


def owner_of(names: Iterable[str], cluster: str) -> Principal | None:
    """Whom of the cluster these names of a certificate mean; None: nobody, or more than one."""
    found = [match for match in map(_OWNER.fullmatch, names) if match is not None and match["cluster"] == cluster]
    if len(found) != 1:
        return None
    [match] = found
    return Principal(NODE, match["node"]) if match["node"] else Principal(USER, match["user"])


def peer_names(connection: ssl.SSLObject | ssl.SSLSocket) -> list[str]:
    """The URIs in the verified certificate of the other side; empty: it showed none."""
    certificate: Any = connection.getpeercert()
    return [name for kind, name in (certificate or {}).get("subjectAltName", ()) if kind == "URI"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a file says."""

    #: Its URIs, and its host names and addresses.
    uris: tuple[str, ...]
    hosts: tuple[str, ...]
    #: In seconds since 1970.
    begins_s: int
    expires_s: int
    is_authority: bool


def read_certificate(file: str) -> Certificate:
    """The first certificate of a PEM file. Raises InvalidArgumentError, UnsupportedError."""
    return describe(load_certificate(file))


def load_certificate(file: str) -> "x509.Certificate":
    """Raises InvalidArgumentError, UnsupportedError."""
    x509 = _x509()
    try:
        return x509.load_pem_x509_certificate(Path(file).read_bytes())  # type: ignore[no-any-return]
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the certificate {file}: {error.strerror}") from None
    except ValueError:
        raise InvalidArgumentError(f"{file} is not a certificate in PEM form") from None


def describe(certificate: "x509.Certificate") -> Certificate:
    x509 = _x509()
    try:
        names: Any = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    uris = [] if names is None else names.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = [] if names is None else names.get_values_for_type(x509.DNSName)
    addresses = [] if names is None else names.get_values_for_type(x509.IPAddress)
    return Certificate(
        tuple(uris),
        (*hosts, *map(str, addresses)),
        int(certificate.not_valid_before_utc.timestamp()),
        int(certificate.not_valid_after_utc.timestamp()),
        is_authority,
    )


def _x509() -> Any:
    try:
        from cryptography import x509
    except ImportError:
        raise UnsupportedError(
            "certificates need the package cryptography: install flotilla-mq with the extra [security]"
        ) from None
    return x509
