"""The TLS of endpoints for clients: of a node, or of a proxy."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from flotilla.security.certificates import Certificate, owner_of, peer_names, read_certificate
from flotilla.security.contexts import OFF, server_context, stamps_of
from flotilla.security.fresh_file import FreshFile
from flotilla.security.tls_endpoints import TlsAcceptor
from flotilla.types.access import Principal
from flotilla.types.errors import InvalidArgumentError


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
    """The files may change at any time. `read` notices, and what cannot be used changes nothing."""

    #: The one in use.
    certificate: Certificate
    _context: ssl.SSLContext
    _pem: Pem

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
        self._load()()

    def _load(self) -> Callable[[], None]:
        """Reads the files; what it returns takes them into use. All or nothing. Raises InvalidArgumentError."""
        certificate = read_certificate(self.files.certificate)
        self.check(certificate)
        context = server_context(*self.files, self.client_certificates)
        pem = _read(self.files)

        def take() -> None:
            self.certificate, self._context, self._pem = certificate, context, pem

        return take

    def check(self, certificate: Certificate) -> None:
        """Raises InvalidArgumentError for a certificate that is not for this endpoint."""

    def read(self, *, is_forced: bool = False) -> Callable[[], str] | None:
        """Reads the files again if they have changed, on any thread. None: no change.

        What it returns takes them into use, on the loop, and says why they cannot be used; empty: they are in use.
        Files that cannot be used are not read again until they change.
        """
        stamps = stamps_of(self.files)
        if stamps == self._stamps and not is_forced:
            return None
        self._stamps = stamps
        try:
            take = self._load()
        except InvalidArgumentError as error:
            failure = str(error)
            return lambda: failure

        def taken() -> str:
            take()
            return ""

        return taken

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


def fresh_certificates(tls: EndpointTls, log: Log) -> FreshFile:
    """Keeps the files of an endpoint fresh, and logs what came of it."""

    def read(is_forced: bool) -> Callable[[], None] | None:
        take = tls.read(is_forced=is_forced)
        return None if take is None else lambda: _report(log, tls, take())

    return FreshFile(read)


def _report(log: Log, tls: EndpointTls, failure: str) -> None:
    if failure:
        log.error("the new certificate cannot be used: the old one stays", error=failure)
        return
    expires = datetime.fromtimestamp(tls.certificate.expires_s, UTC).isoformat()
    log.info("the certificate was read again", file=tls.files.certificate, expires=expires)


def _read(files: TlsFiles) -> Pem:
    try:
        certificate, key = Path(files.certificate).read_bytes(), Path(files.key).read_bytes()
        return Pem(certificate, key, Path(files.ca).read_bytes() if files.ca else None)
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {error.filename}: {error.strerror}") from None
