"""The placement of new partitions: a pure function of the load of each broker.

A partition takes the brokers with the fewest replicas. Of those, the one that leads the fewest partitions comes first:
it is the preferred leader. Ties go to the lower node id, so every replica of the metadata computes the same placement.
Existing partitions are not moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flotilla.types.ids import NodeId


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a broker: all replicas, and the preferred leaders among them."""

    replicas: int = 0
    leaders: int = 0

    def plus_replica(self) -> "Load":
        return Load(self.replicas + 1, self.leaders)


_IDLE = Load()


def place(
    brokers: Sequence[NodeId],
    load: Mapping[NodeId, Load],
    *,
    partitions: int,
    replication_factor: int,
) -> list[tuple[NodeId, ...]]:
    """Replicas for each of `partitions`, the preferred leader first; never two on one broker."""
    assert brokers, "no broker can take the replicas"
    assert partitions >= 0
    assert replication_factor >= 1
    nodes = sorted(set(brokers))
    replicas = {node: load.get(node, _IDLE).replicas for node in nodes}
    leaders = {node: load.get(node, _IDLE).leaders for node in nodes}
    width = min(replication_factor, len(nodes))
    placed = []
    for _ in range(partitions):
        # Sorting is stable and `nodes` ascends, so equal loads keep the order of ids.
        chosen = sorted(nodes, key=replicas.__getitem__)[:width]
        leader = min(chosen, key=lambda node: (leaders[node], replicas[node], node))
        for node in chosen:
            replicas[node] += 1
        leaders[leader] += 1
        placed.append((leader, *[node for node in chosen if node != leader]))
    return placed
