"""The election timeouts of the cluster's nodes, which should be alike and differ while the setting is changed.

A leader that is cut off notices it by its own election timeout. So the leader after it lets members present their
leases for the longest one that it has heard of. Every node says its own in each handshake.
"""

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Outside
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId
from flotilla.types.operations.cluster import TIMING_DIFFERS, NodeWarning
from flotilla.types.timing import grace_of

log = get_logger("cluster")


class ElectionTimeouts:
    def __init__(self, node: NodeId, own_ms: int, catalog: Catalog, outside: Outside) -> None:
        """`own_ms` in whole ticks."""
        self._node = node
        self._own_ms = own_ms
        self._catalog = catalog
        self._outside = outside
        #: What the log says already.
        self._logged = ""

    def grace_ms(self) -> int:
        """After a change of leaders, members have this long to present their leases."""
        return grace_of(max([self._own_ms, *self._outside.election_timeouts().values()]))

    def check(self) -> None:
        """Logs each difference once, on every node."""
        found = self._difference()
        if found and found != self._logged:
            log.warning("nodes have different election timeouts", node=self._node, values=found)
        self._logged = found

    def warnings(self) -> list[NodeWarning]:
        """Of this node, if it leads the metadata."""
        found = self._difference()
        try:
            self._catalog.leading()
        except FlotillaError:
            return []
        if not found:
            return []
        return [NodeWarning(TIMING_DIFFERS, f"election_timeout_ms is not alike on all nodes: {found}", self._node)]

    def _difference(self) -> str:
        """Empty: there is none."""
        nodes: dict[int, list[NodeId]] = {}
        for node, timeout_ms in sorted({**self._outside.election_timeouts(), self._node: self._own_ms}.items()):
            nodes.setdefault(timeout_ms, []).append(node)
        if len(nodes) < 2:
            return ""
        return "; ".join(f"{timeout_ms} on node {', '.join(map(str, each))}" for timeout_ms, each in nodes.items())
