"""Warnings about the replicas of partitions that this node leads: too few, too close, down, behind, or forgetful.

Only a leader knows how its replicas are, so each node warns of the partitions that it leads, and the metadata group if
it leads that. One warning covers all partitions with the same trouble on the same node.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.group_names import GroupNames
from flotilla.metadata.placement import APART, Sharing, common_label, separating, sharing, spread
from flotilla.metadata.state import ClusterState
from flotilla.metadata.values import ACTIVE
from flotilla.raft.node import RaftNode
from flotilla.raft.progress import REPLICATE, Progress
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.limits import WARNED_PARTITIONS_MAX
from flotilla.types.operations.cluster import (
    LABELS_TOO_FEW,
    ONE_PLACE,
    REPLICA_BEHIND,
    REPLICA_DOWN,
    REPLICA_FORGETFUL,
    REPLICAS_TOGETHER,
    UNDER_REPLICATED,
    NodeWarning,
)

#: A voter that lacks more entries than this is behind. Under load, fewer are in flight.
BEHIND_ENTRIES_MAX: Final = 4_096
#: A sentence names at most this many partitions.
_NAMED_MAX: Final = 5

_SENTENCES: Final = {
    UNDER_REPLICATED: "{count} under-replicated, with fewer replicas than the topic asks for: {names}",
    REPLICAS_TOGETHER: (
        "replicas of {count} share a machine or a zone, although there are enough of them: {names}; "
        "run `flotilla topic rebalance`"
    ),
    LABELS_TOO_FEW: (
        "replicas of {count} share a machine or a zone, because there are fewer of them than replicas: {names}; add "
        "nodes on other machines and in other zones, or lower the replication factor"
    ),
    ONE_PLACE: "all nodes are {place}, which takes all replicas along when it fails",
    REPLICA_DOWN: "node {node} cannot be reached; it has a replica of {count}: {names}",
    REPLICA_BEHIND: "node {node} is behind or learns in {count}: {names}",
    REPLICA_FORGETFUL: "node {node} lost entries that it had acknowledged in {count} and learns them again: {names}",
}


class Trouble(NamedTuple):
    code: str
    #: NO_NODE: of the partition as a whole.
    node: NodeId = NO_NODE


class ReplicaWarnings:
    def __init__(self, catalog: Catalog, names: GroupNames, is_up: Callable[[NodeId], bool]) -> None:
        self._catalog = catalog
        self._names = names
        self._is_up = is_up

    def take(self, replicas: Iterable[Replica]) -> list[NodeWarning]:
        """One warning for each kind of trouble and node, in a fixed order."""
        found = list(replicas)
        troubles = [_warning(trouble, partitions) for trouble, partitions in sorted(self.troubles(found).items())]
        # One node says it for the cluster.
        is_controller = any(each.group == METADATA_GROUP and each.raft.role == LEADER for each in found)
        return [*troubles, *(_one_place(self._catalog.machine.state) if is_controller else ())]

    def troubles(self, replicas: Iterable[Replica]) -> Mapping[Trouble, list[str]]:
        """The names of the partitions that have each trouble."""
        found: dict[Trouble, list[str]] = {}
        state = self._catalog.machine.state
        closeness = Closeness(state)
        for replica in replicas:
            if replica.raft.role != LEADER:
                continue
            troubles = of_members(replica, self._is_up)
            assignment = state.assignments.get(replica.group)
            if assignment is not None and state.missing_replicas(assignment):
                troubles.append(Trouble(UNDER_REPLICATED))
            if assignment is not None and (code := closeness.trouble(assignment.place.wanted)):
                troubles.append(Trouble(code))
            for trouble in troubles:
                found.setdefault(trouble, []).append(str(self._names.of(replica.group)))
        return found


class Closeness:
    """Whether replicas share a machine or a zone that not all nodes share, and whether they need to."""

    def __init__(self, state: ClusterState) -> None:
        self._brokers = _active(state)
        self._sites = separating(self._brokers, state.sites())
        #: By the number of replicas.
        self._least: dict[int, Sharing] = {}

    def trouble(self, replicas: tuple[NodeId, ...]) -> str:
        """The code of the warning; empty: they are apart."""
        found = sharing(replicas, self._sites)
        if found == APART:
            return ""
        count = len(replicas)
        if count not in self._least:
            self._least[count] = sharing(spread(self._brokers, count, self._sites), self._sites)
        return REPLICAS_TOGETHER if found > self._least[count] else LABELS_TOO_FEW


def _active(state: ClusterState) -> list[NodeId]:
    return [node for node, broker in sorted(state.brokers.items()) if broker.state == ACTIVE]


def _one_place(state: ClusterState) -> list[NodeWarning]:
    label = common_label(_active(state), state.sites())
    place = {"machine": "on one machine", "zone": "in one zone"}.get(label)
    return [NodeWarning(ONE_PLACE, _SENTENCES[ONE_PLACE].format(place=place))] if place else []


def of_members(replica: Replica, is_up: Callable[[NodeId], bool]) -> list[Trouble]:
    """The troubles of a led group's other members, at most one for each."""
    raft = replica.raft
    troubles = []
    for node, progress in raft.progress.items():
        if node == raft.id:
            continue
        is_voter = raft.configuration.is_voter(node)
        if node in raft.forgetful or (not is_voter and node in raft.forgotten_counts):
            troubles.append(Trouble(REPLICA_FORGETFUL, node))
        elif not is_up(node):
            troubles.append(Trouble(REPLICA_DOWN, node))
        elif not is_voter or _is_behind(raft, progress):
            troubles.append(Trouble(REPLICA_BEHIND, node))
    return troubles


def _is_behind(raft: RaftNode, progress: Progress) -> bool:
    """Entries do not flow to it and it lacks some, or it lacks many."""
    is_stuck = progress.state != REPLICATE and progress.match < raft.log.committed
    return is_stuck or progress.match + BEHIND_ENTRIES_MAX < raft.log.last_index


def _warning(trouble: Trouble, partitions: list[str]) -> NodeWarning:
    partitions.sort()
    names = ", ".join(partitions[:_NAMED_MAX]) + (", ..." if len(partitions) > _NAMED_MAX else "")
    count = f"{len(partitions)} partition{'s' if len(partitions) > 1 else ''}"
    message = _SENTENCES[trouble.code].format(node=trouble.node, count=count, names=names)
    return NodeWarning(trouble.code, message, trouble.node, partitions[:WARNED_PARTITIONS_MAX])
