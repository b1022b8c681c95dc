"""The placement of new partitions: a pure function of the load and the labels of each broker.

A partition takes brokers that share neither a machine nor a zone, as far as there are enough of them, and of those the
ones with the fewest replicas. The one that leads the fewest partitions comes first: it is the preferred leader. Ties go
to the lower node id, so every replica of the metadata computes the same placement. Existing partitions are not moved.

Machines and zones form a tree: a machine is named within its zone, a node without a machine is one by itself, and the
zone of a node without a zone is its machine. That is why taking one node after the other, each from the machine and the
zone with the fewest replicas so far, shares as little as any choice does. Machines come first: where there are fewer
zones than replicas, no machine gets a second replica to make the zones even.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from flotilla.types.ids import NodeId


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a broker: all replicas, and the preferred leaders among them."""

    replicas: int = 0
    leaders: int = 0

    def plus_replica(self) -> "Load":
        return Load(self.replicas + 1, self.leaders)


_IDLE = Load()

_Place: TypeAlias = NodeId | str | tuple[str, str]


class Site(NamedTuple):
    """Where a node is: what it loses its power or its network with."""

    machine: _Place
    zone: _Place


#: Of the nodes that have labels. Without any, all nodes are apart.
Sites: TypeAlias = Mapping[NodeId, Site]
NO_SITES: Final[Sites] = {}


class Sharing(NamedTuple):
    """How many pairs of a partition's replicas share a machine, and how many a zone. Less is better, machines first."""

    machines: int
    zones: int


APART: Final = Sharing(0, 0)


def site(node: NodeId, *, machine: str, zone: str) -> Site:
    place: _Place = (zone, machine) if machine else node
    return Site(place, zone or place)


def sharing(replicas: Iterable[NodeId], sites: Sites) -> Sharing:
    if not sites:
        return APART
    places = [_site_of(node, sites) for node in replicas]
    return Sharing(_pairs([place.machine for place in places]), _pairs([place.zone for place in places]))


def common_label(nodes: Collection[NodeId], sites: Sites) -> str:
    """The label that several nodes have all in common: "machine", "zone", or none. One machine is in one zone."""
    if len(nodes) > 1:
        for label in Site._fields:
            if len({getattr(_site_of(node, sites), label) for node in nodes}) == 1:
                return label
    return ""


def separating(nodes: Collection[NodeId], sites: Sites) -> Sites:
    """The sites without the label that all these nodes have in common: it separates none of them."""
    match common_label(nodes, sites):
        case "machine":
            return NO_SITES
        case "zone":
            return {node: Site(place.machine, node) for node, place in sites.items()}
    return sites


def crowding(node: NodeId, replicas: Iterable[NodeId], sites: Sites) -> Sharing:
    """How many of these replicas share the machine of a node, and how many its zone."""
    if not sites:
        return APART
    own = _site_of(node, sites)
    places = [_site_of(other, sites) for other in replicas]
    return Sharing(
        sum(place.machine == own.machine for place in places), sum(place.zone == own.zone for place in places)
    )


def spread(nodes: Sequence[NodeId], width: int, sites: Sites, beside: Collection[NodeId] = ()) -> list[NodeId]:
    """`width` of these nodes that share as little as possible with each other and with `beside`; the first ones win."""
    if not sites:
        return list(nodes[: max(width, 0)])
    chosen: list[NodeId] = []
    left = {node: _site_of(node, sites) for node in nodes}
    near = [_site_of(node, sites) for node in beside]
    machines, zones = Counter([each.machine for each in near]), Counter([each.zone for each in near])
    while left and len(chosen) < width:
        best = min(left, key=lambda node: (machines[left[node].machine], zones[left[node].zone]))
        machines[left[best].machine] += 1
        zones[left.pop(best).zone] += 1
        chosen.append(best)
    return chosen


def place(
    brokers: Sequence[NodeId],
    load: Mapping[NodeId, Load],
    *,
    partitions: int,
    replication_factor: int,
    sites: Sites = NO_SITES,
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
        chosen = spread(sorted(nodes, key=replicas.__getitem__), width, sites)
        leader = min(chosen, key=lambda node: (leaders[node], replicas[node], node))
        for node in chosen:
            replicas[node] += 1
        leaders[leader] += 1
        placed.append((leader, *[node for node in chosen if node != leader]))
    return placed


def _site_of(node: NodeId, sites: Sites) -> Site:
    return sites.get(node) or Site(node, node)


def _pairs(places: list[_Place]) -> int:
    if len(set(places)) == len(places):
        return 0
    return sum([count * (count - 1) // 2 for count in Counter(places).values()])
