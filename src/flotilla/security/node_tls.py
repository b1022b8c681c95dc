"""The TLS of a node: one certificate for its endpoints, for its links, and for its own requests to other nodes.

Clients check the host names in the certificate of a node. Nodes check whom it names, in both directions: a link and a
request of a node end where the certificate is not that of a node of the same cluster.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from flotilla.security.certificates import Certificate, node_uri, owner_of, peer_names, read_certificate
from flotilla.security.contexts import OFF, REQUIRED, TlsError, client_context, server_context
from flotilla.security.endpoint_tls import EndpointTls, TlsFiles
from flotilla.security.tls_endpoints import TlsAcceptor, TlsDialler
from flotilla.types.access import NODE, Principal
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.limits import PEER_HANDSHAKE_COUNT_MAX


class NodeTls(EndpointTls):
    #: For links, and for all that this node dials.
    _incoming: ssl.SSLContext
    _outgoing: ssl.SSLContext

    def __init__(
        self,
        files: TlsFiles,
        cluster: str,
        node: NodeId,
        client_certificates: str = OFF,
        *,
        is_optional: bool = False,
    ) -> None:
        """`client_certificates`: off, optional or required. `is_optional`: others need not speak TLS.

        Raises InvalidArgumentError, UnsupportedError.
        """
        self._node = node
        super().__init__(files, cluster, client_certificates, is_optional=is_optional)

    def check(self, certificate: Certificate) -> None:
        if owner_of(certificate.uris, self.cluster) != Principal(NODE, str(self._node)):
            named = ", ".join(certificate.uris) or "nobody"
            raise InvalidArgumentError(
                f"the certificate {self.files.certificate} names {named}, and this node is "
                f"{node_uri(self.cluster, self._node)}; `flotilla cert issue` makes one"
            )

    def _load(self) -> Callable[[], None]:
        files = self.files
        self.check(read_certificate(files.certificate))
        incoming = server_context(*files, REQUIRED)
        outgoing = client_context(files.ca, files.certificate, files.key, has_host_check=False)
        take_endpoints = super()._load()

        def take() -> None:
            take_endpoints()
            self._incoming, self._outgoing = incoming, outgoing

        return take

    def peers(self) -> "PeerTls":
        """For the links."""
        return PeerTls(lambda: self._incoming, self.node_dialler(), self.cluster, is_optional=self.is_optional)

    def node_dialler(self) -> "NodeDialler":
        """For requests that this node makes at others."""
        return NodeDialler(lambda: self._outgoing, self.cluster, is_optional=self.is_optional)


class NodeDialler(TlsDialler):
    """Dials nodes of the cluster, whatever their hosts are called."""

    def __init__(self, context: Callable[[], ssl.SSLContext], cluster: str, *, is_optional: bool = False) -> None:
        """`is_optional`: nodes that do not speak TLS are dialled without it."""
        super().__init__(context)
        self._cluster = cluster
        self._is_optional = is_optional

    async def connect(self, above: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> None:
        await self.connect_node(above, host, port, NO_NODE)

    async def connect_node(self, above: Callable[[], asyncio.BaseProtocol], host: str, port: int, node: NodeId) -> None:
        """The same for one node. Raises OSError."""
        try:
            await self.open(above, host, port, lambda connection: self._judge(connection, node))
        except TlsError as error:
            if not self._is_optional or not error.is_plain:
                raise
            await asyncio.get_running_loop().create_connection(above, host, port)

    def _judge(self, connection: ssl.SSLObject, node: NodeId = NO_NODE) -> str:
        owner = owner_of(peer_names(connection), self._cluster)
        if owner is None or owner.kind != NODE:
            named = ", ".join(peer_names(connection)) or "nobody"
            return f"its certificate names {named}, no node of cluster {self._cluster}"
        if node not in (NO_NODE, int(owner.name)):
            return f"its certificate is that of node {owner.name}"
        return ""


class PeerTls:
    """The links of a node: both sides show their certificates."""

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
        dialler: NodeDialler,
        cluster: str,
        *,
        is_optional: bool = False,
    ) -> None:
        """`is_optional`: nodes without TLS are accepted, too."""
        self.is_optional = is_optional
        self._context = context
        self._cluster = cluster
        self.connect_node = dialler.connect_node

    def acceptor(self, refused: Callable[[str, str], None], is_member: Callable[[str], bool]) -> TlsAcceptor:
        return TlsAcceptor(
            self._context,
            refused=refused,
            handshakes_max=PEER_HANDSHAKE_COUNT_MAX,
            is_optional=self.is_optional,
            is_member=is_member,
        )

    def node_of(self, transport: Any) -> NodeId:
        """The node that the certificate of a connection's other side names; NO_NODE: none of this cluster."""
        connection = None if transport is None else transport.get_extra_info("ssl_object")
        owner = None if connection is None else owner_of(peer_names(connection), self._cluster)
        return int(owner.name) if owner is not None and owner.kind == NODE else NO_NODE
