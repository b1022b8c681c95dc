"""Where the replicas of new partitions go: a pure function of what every broker holds already.

A partition takes the brokers with the fewest replicas, and of those the one that leads the fewest
partitions comes first: it is the preferred leader. Ties go to the lower node id, so every replica of
the metadata comes to the same answer. What was placed before is never moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flotilla.types.ids import NodeId


@dataclass(frozen=True, slots=True)
class Load:
    """What a broker holds: replicas in all, and those of them that are preferred leaders."""

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
    assert brokers, "somebody must take the replicas"
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
