"""A small certificate authority in a folder, for clusters whose operators have none.

    ca.crt            every node and client trusts it
    ca.key            issues certificates: keep it away from nodes and clients
    node1.crt, .key   for node 1: its host names, and flotilla://<cluster>/node/1
    alice.crt, .key   for the user alice: flotilla://<cluster>/user/alice

Keys are P-256, made where they are issued, and readable by their owner only. Nothing is overwritten unless that is
asked for: a certificate is issued again before it expires.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from flotilla.machine import now_ms
from flotilla.security.certificates import SCHEME, USER_NAME, load_certificate, node_uri, user_uri
from flotilla.security.contexts import check_key
from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError, UnsupportedError
from flotilla.types.ids import NodeId

CA_DAYS: Final = 3_650
DAYS: Final = 365
DAYS_MAX: Final = 36_500
#: Clocks differ: a certificate is valid a little before it was made.
_EARLIER: Final = timedelta(hours=1)
_CLUSTER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_.-]{1,253}")


@dataclass(frozen=True, slots=True)
class Issued:
    certificate: Path
    key: Path
    #: Whom it names.
    uri: str


class Authority:
    def __init__(self, folder: Path) -> None:
        """One that `create` made. Raises InvalidArgumentError, UnsupportedError."""
        self._folder = folder
        self._certificate: Any = load_certificate(str(folder / "ca.crt"))
        self._key = _load_key(folder / "ca.key")
        self.cluster = _cluster_of(self._certificate, folder)

    @classmethod
    def create(cls, folder: Path, cluster: str, days: int = CA_DAYS) -> "Authority":
        """Raises AlreadyExistsError, InvalidArgumentError, UnsupportedError."""
        if not _CLUSTER.fullmatch(cluster):
            raise InvalidArgumentError(f"{cluster!r} is no name of a cluster")
        x509, _, _ = _library()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _new_key()
        name = _name(f"Flotilla {cluster}")
        builder = _builder(name, name, key.public_key(), _checked_days(days))
        uri = f"{SCHEME}{cluster}/ca"
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=True), critical=True)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=False
        )
        _write_pair(folder, "ca", builder, key, key, is_replacing=False)
        return cls(folder)

    def issue_node(self, node: NodeId, hosts: Sequence[str], days: int = DAYS, *, is_replacing: bool = False) -> Issued:
        """Raises AlreadyExistsError, InvalidArgumentError."""
        if node < 1:
            raise InvalidArgumentError(f"{node} is no id of a node")
        return self._issue(
            f"node{node}", node_uri(self.cluster, node), hosts, days, is_node=True, is_new=not is_replacing
        )

    def issue_user(self, name: str, days: int = DAYS, *, is_replacing: bool = False) -> Issued:
        """Raises AlreadyExistsError, InvalidArgumentError."""
        if not re.fullmatch(USER_NAME, name):
            raise InvalidArgumentError(f"{name!r} is no name of a user: letters, digits, dots, dashes, _ and @")
        if name == "ca" or re.fullmatch("node[0-9]+", name) or name.startswith("."):
            raise InvalidArgumentError(f"a user cannot be called {name}: its files would be those of somebody else")
        return self._issue(name, user_uri(self.cluster, name), (), days, is_node=False, is_new=not is_replacing)

    def _issue(self, stem: str, uri: str, hosts: Sequence[str], days: int, *, is_node: bool, is_new: bool) -> Issued:
        x509, _, _ = _library()
        oids = x509.oid.ExtendedKeyUsageOID
        key = _new_key()
        builder = _builder(_name(stem), self._certificate.subject, key.public_key(), _checked_days(days))
        names = [x509.UniformResourceIdentifier(uri), *map(_host_name, dict.fromkeys(hosts))]
        usages = [oids.CLIENT_AUTH, oids.SERVER_AUTH] if is_node else [oids.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._certificate.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(issuer, critical=False)
        certificate, key_file = _write_pair(self._folder, stem, builder, key, self._key, is_replacing=not is_new)
        return Issued(certificate, key_file, uri)


def _cluster_of(certificate: Any, folder: Path) -> str:
    x509, _, _ = _library()
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    for uri in [] if names is None else names.get_values_for_type(x509.UniformResourceIdentifier):
        cluster, _, rest = uri.removeprefix(SCHEME).partition("/")
        if uri.startswith(SCHEME) and rest == "ca":
            return str(cluster)
    raise InvalidArgumentError(f"{folder / 'ca.crt'} was not made by `flotilla cert init`")


def _host_name(host: str) -> Any:
    x509, _, _ = _library()
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise InvalidArgumentError(f"{host!r} is neither a host name nor an address")
    return x509.DNSName(host)


def _checked_days(days: int) -> int:
    if not 1 <= days <= DAYS_MAX:
        raise InvalidArgumentError(f"a certificate is valid for 1 to {DAYS_MAX} days, not {days}")
    return days


def _builder(subject: Any, issuer: Any, public_key: Any, days: int) -> Any:
    x509, _, _ = _library()
    now = datetime.fromtimestamp(now_ms() // 1000, UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _EARLIER).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)


def _key_usage(*, is_authority: bool) -> Any:
    x509, _, _ = _library()
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> Any:
    x509, _, _ = _library()
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text[:64])])


def _new_key() -> Any:
    _, ec, _ = _library()
    return ec.generate_private_key(ec.SECP256R1())


def _load_key(file: Path) -> Any:
    _, _, serialization = _library()
    check_key(str(file))
    try:
        return serialization.load_pem_private_key(file.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"cannot use the key {file}: {error}") from None


def _write_pair(
    folder: Path, stem: str, builder: Any, key: Any, signing_key: Any, *, is_replacing: bool
) -> tuple[Path, Path]:
    """Writes the certificate and its key. Raises AlreadyExistsError."""
    _, _, serialization = _library()
    from cryptography.hazmat.primitives.hashes import SHA256

    certificate_file, key_file = folder / f"{stem}.crt", folder / f"{stem}.key"
    if not is_replacing:
        for file in (certificate_file, key_file):
            if file.exists():
                raise AlreadyExistsError(f"{file} exists already")
    certificate = builder.sign(signing_key, SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(key_file, secret, 0o600)
    _write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return certificate_file, key_file


def _write(file: Path, content: bytes, mode: int) -> None:
    """Whole or not at all: a node may read it at any time."""
    beside = file.with_name(f".{file.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
        stream.write(content)
    beside.replace(file)


def _library() -> tuple[Any, Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise UnsupportedError(
            "certificates need the package cryptography: install flotilla-mq with the extra [security]"
        ) from None
    return x509, ec, serialization
