"""A broker's own client of its cluster, for requests that another node must answer."""

from collections.abc import Callable, Sequence
from typing import Final

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import CallResult
from flotilla.client._options import new_session
from flotilla.client.credentials import CredentialsProvider
from flotilla.security.tls_endpoints import TlsDialler
from flotilla.types.address import Address
from flotilla.types.errors import UnavailableError
from flotilla.types.operations import REPEATABLE, Request

TIMEOUT_MS: Final = 10_000


class ClusterElsewhere:
    """Implements `broker.ports.Elsewhere`. The first request connects."""

    def __init__(
        self,
        addresses: Callable[[], Sequence[Address]],
        tls: TlsDialler | None = None,
        credentials: CredentialsProvider | None = None,
    ) -> None:
        """`addresses` returns the known brokers of the cluster. With `tls` connections to them are encrypted.

        `credentials` are how this node proves itself to them.
        """
        self._addresses = addresses
        self._tls = tls
        self._credentials = credentials
        self._network: Network | None = None

    def ask(self, request: Request, done: Callable[[CallResult], None]) -> None:
        if self._network is None:
            addresses = self._addresses()
            if not addresses:
                done(UnavailableError("no broker of this cluster is known yet"))
                return
            self._network = Network(new_session(addresses, "broker", credentials=self._credentials), tls=self._tls)
        # Repeatable whatever the request says: the callers treat "it exists already" as success.
        self._network.submit(request, TIMEOUT_MS, done, effect=REPEATABLE)

    async def close(self) -> None:
        if self._network is not None:
            await self._network.close()
