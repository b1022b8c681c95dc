"""The TLS of endpoints for clients: of a node, or of a proxy."""

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from flotilla.security.certificates import Certificate, owner_of, peer_names, read_certificate
from flotilla.security.contexts import OFF, server_context, stamps_of
from flotilla.security.tls_endpoints import TlsAcceptor
from flotilla.types.access import Principal
from flotilla.types.errors import InvalidArgumentError

#: Between two looks at the files.
CERTIFICATES_MS: Final = 10_000


class TlsFiles(NamedTuple):
    certificate: str
    key: str
    #: Empty: clients are not asked for certificates, and there are no links.
    ca: str = ""


class Pem(NamedTuple):
    """The contents of the files."""

    certificate: bytes
    key: bytes
    ca: bytes | None


class EndpointTls:
    """The files may change at any time. `look` notices, and what cannot be used changes nothing."""

    def __init__(
        self, files: TlsFiles, cluster: str = "", client_certificates: str = OFF, *, is_optional: bool = False
    ) -> None:
        """`client_certificates`: off, optional or required; those of `cluster` say who a client is.

        `is_optional`: connections without TLS are accepted, too.

        Raises InvalidArgumentError, UnsupportedError.
        """
        self.files = files
        self.is_optional = is_optional
        self.cluster = cluster
        self.client_certificates = client_certificates
        self._stamps = stamps_of(files)
        self._load()

    def _load(self) -> None:
        """All or nothing. Raises InvalidArgumentError."""
        certificate = read_certificate(self.files.certificate)
        self.check(certificate)
        context = server_context(*self.files, self.client_certificates)
        pem = _read(self.files)
        #: The one in use.
        self.certificate: Certificate = certificate
        self._context: ssl.SSLContext = context
        self._pem = pem

    def check(self, certificate: Certificate) -> None:
        """Raises InvalidArgumentError for a certificate that is not for this endpoint."""

    def look(self, *, is_forced: bool = False) -> str | None:
        """Reads the files again if they have changed. Why they cannot be used; empty: they are in use; None: no change.

        Files that cannot be used are not read again until they change.
        """
        stamps = stamps_of(self.files)
        if stamps == self._stamps and not is_forced:
            return None
        self._stamps = stamps
        try:
            self._load()
        except InvalidArgumentError as error:
            return str(error)
        return ""

    def acceptor(self) -> TlsAcceptor:
        """For one listener."""
        return TlsAcceptor(lambda: self._context, is_optional=self.is_optional)

    def pem(self) -> Pem:
        """The files in use, for a library that reads them itself."""
        return self._pem

    def principal(self, transport: asyncio.BaseTransport) -> Principal | None:
        """Whom the certificate of a connection's other side names; None: it showed none, or that of a stranger."""
        connection = transport.get_extra_info("ssl_object")
        return None if connection is None else owner_of(peer_names(connection), self.cluster)


class Log(Protocol):
    def info(self, event: str, /, **facts: object) -> None: ...

    def error(self, event: str, /, **facts: object) -> None: ...


def report_look(log: Log, tls: EndpointTls, failure: str | None) -> None:
    """Logs what `look` returned."""
    if failure:
        log.error("the new certificate cannot be used: the old one stays", error=failure)
    elif failure is not None:
        expires = datetime.fromtimestamp(tls.certificate.expires_s, UTC).isoformat()
        log.info("the certificate was read again", file=tls.files.certificate, expires=expires)


def _read(files: TlsFiles) -> Pem:
    try:
        certificate, key = Path(files.certificate).read_bytes(), Path(files.key).read_bytes()
        return Pem(certificate, key, Path(files.ca).read_bytes() if files.ca else None)
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {error.filename}: {error.strerror}") from None
