"""TLS of the gRPC endpoint, which the library does itself: certificates, and who a caller is by theirs.

The library takes new files for new connections. It knows clients that must show a certificate and clients that are not
asked for one; where certificates are optional, it does not ask.
"""

from typing import Any, Final, cast

import grpc

from flotilla.security.certificates import owner_of
from flotilla.security.contexts import REQUIRED
from flotilla.security.endpoint_tls import EndpointTls
from flotilla.types.access import Principal
from flotilla.types.address import Address

_NAMES: Final = "x509_subject_alternative_name"


def listen(server: grpc.aio.Server, address: Address, tls: EndpointTls | None) -> int:
    """The port. Raises RuntimeError."""
    if tls is None:
        return int(server.add_insecure_port(str(address)))
    return int(server.add_secure_port(str(address), _credentials(tls)))


def _credentials(tls: EndpointTls) -> grpc.ServerCredentials:
    loaded = tls.pem()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Called by a thread of the library for each connection; None: nothing has changed."""
        nonlocal loaded
        newest = tls.pem()
        if newest == loaded:
            return None
        loaded = newest
        return configuration()

    def configuration() -> grpc.ServerCertificateConfiguration:
        certificate, key, ca = loaded
        return grpc.ssl_server_certificate_configuration([(key, certificate)], ca)

    is_required = tls.client_certificates == REQUIRED
    return grpc.dynamic_ssl_server_credentials(configuration(), cast(Any, fetch), is_required)


def principal_of(context: Any, cluster: str) -> Principal | None:
    """Whom the certificate of a caller names; None: it showed none."""
    names = context.auth_context().get(_NAMES, ())
    return owner_of((name.decode("utf-8", "replace") for name in names), cluster)
