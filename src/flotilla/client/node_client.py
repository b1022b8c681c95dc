"""A client that a node has of its own cluster: it shows the certificate of the node."""

from collections.abc import Sequence

from flotilla.client._duration import Duration
from flotilla.client._options import TIMEOUT_MS_DEFAULT
from flotilla.client.async_client import AsyncClient
from flotilla.client.credentials import CredentialsProvider
from flotilla.security.tls_endpoints import TlsDialler


def node_client(
    addresses: str | Sequence[str],
    tls: TlsDialler | None,
    *,
    timeout_ms: Duration = TIMEOUT_MS_DEFAULT,
    credentials: CredentialsProvider | None = None,
) -> AsyncClient:
    """`tls` dials its connections; None: they are not encrypted. `credentials` prove what no certificate does."""
    client = AsyncClient(addresses, timeout_ms=timeout_ms, credentials=credentials)
    client._dialler = tls
    return client
