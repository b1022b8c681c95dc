"""The wait of new partitions for founders of the cluster that have not registered yet.

A partition is placed on registered brokers alone. In the first moments of a cluster these are fewer than its nodes, and
a partition placed then would acknowledge messages that one disk has. So a creation is refused until there are enough
brokers, and the client tries again. A replication factor that was asked for by name waits without an end. A default
one waits for `WAIT_MS` after this node has learned of the cluster, by its monotonic clock, and from then on for a
majority of its replicas: more are added when the founders come.
"""

from typing import Final

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Outside
from flotilla.types.errors import UnavailableError

#: Nodes that run register within a second of the first election. Below the time limits of calls (30 s, over HTTP and
#: gRPC 10 s), so that the creation of a topic succeeds although a founder stays away.
WAIT_MS: Final = 8_000


class FounderWait:
    def __init__(self, catalog: Catalog, outside: Outside) -> None:
        self._catalog = catalog
        self._outside = outside
        #: Since when this node knows the cluster. None: it knows none.
        self._known_ms: int | None = None

    def look(self) -> None:
        """The metadata may have changed."""
        if self._known_ms is None and self._catalog.cluster_id:
            self._known_ms = self._outside.steady_ms()

    def check(self, replication_factor: int, *, is_exact: bool) -> None:
        """Raises UnavailableError while too few brokers have registered for new partitions with so many replicas."""
        state = self._catalog.machine.state
        needed = min(replication_factor, state.node_count())
        if not is_exact and self._is_over():
            needed = needed // 2 + 1
        if len(state.brokers) < needed:
            missing = sorted({*state.cluster.founders} - state.brokers.keys() - state.removed_nodes.keys())
            raise UnavailableError(
                "new partitions wait for nodes that founded the cluster and have not registered yet: "
                + ", ".join(map(str, missing))
            )

    def _is_over(self) -> bool:
        return self._known_ms is not None and self._outside.steady_ms() - self._known_ms >= WAIT_MS
