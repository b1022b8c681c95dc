"""Copies of a node's disk that are put back later, as people do with backups and images of machines.

A node whose disk was put back has forgotten entries that it acknowledged and votes that it gave. In operation its peers
refuse it if they know of a later start of its data directory: then its disk is lost, as in the fault `wipe`.
Here they let it in, and consensus alone must notice. It can, where everything that the node forgets is also known to a
majority without it (`may_put_back`):

* all that it had acknowledged is committed, and durable on a majority of the voters that does not count this node;
* every other member has the term on disk, none of them stands in it, and this node did not stand in it;
* the members of the group are the same as when the copy was made.

Where that does not hold, two majorities may have nothing but the forgetful node in common, and nothing can be promised.
"""

from flotilla.raft.roles import FOLLOWER, LEADER
from flotilla.sim.checkers.disk_shadow import DurableLog
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.disk import Directory
from flotilla.sim.node import RUNNING, SimNode
from flotilla.types.ids import GroupId, Index


class Backup:
    """Everything durable on a node's disk, and what each of its logs was then."""

    __slots__ = ("configured_at", "image", "logs")

    def __init__(self, cluster: Cluster, node: SimNode) -> None:
        self.image: Directory = node.disk.durable_image()
        self.logs: dict[GroupId, DurableLog] = {
            group: observer.durability.shadow[node.id].durable.copy()
            for group, observer in cluster.observers.items()
            if cluster.raft(node, group) is not None
        }
        #: Where the newest configuration of each log stands.
        self.configured_at: dict[GroupId, Index] = _configured_at(cluster, node)


def tail_of(cluster: Cluster, node: SimNode, group: GroupId) -> range:
    """The entries at the end of the log on the node's disk that are not committed, and now perhaps never will be."""
    observer = cluster.observers[group]
    shadow = observer.durability.shadow.get(node.id)
    if shadow is None:
        return range(0)
    log, committed = shadow.durable, observer.log.committed
    first = log.last_index + 1
    while first - 1 > log.base and (first > len(committed) or log.terms[first - 2 - log.base] != committed[first - 1]):
        first -= 1
    return range(first, log.last_index + 1)


def has_tail(cluster: Cluster, node: SimNode) -> bool:
    return any(tail_of(cluster, node, group) for group in cluster.observers)


def may_put_back(cluster: Cluster, node: SimNode, backup: Backup) -> bool:
    """Whether consensus can cope with this node on that disk; see the module."""
    if node.status != RUNNING or _configured_at(cluster, node) != backup.configured_at:
        return False
    if any(other.is_lost or other.rots for other in cluster.nodes.values()):
        return False
    return all(_is_known_without(cluster, node, group) for group in backup.logs)


def put_back(cluster: Cluster, node: SimNode, backup: Backup) -> None:
    """Ends the process. Its next start finds the copy."""
    node.crash(power=True)
    node.disk.put_back(backup.image)
    for group, log in backup.logs.items():
        cluster.observers[group].put_back(node.id, log)


def _configured_at(cluster: Cluster, node: SimNode) -> dict[GroupId, Index]:
    rafts = {group: cluster.raft(node, group) for group in cluster.observers}
    return {group: raft.log.configurations[-1][0] for group, raft in rafts.items() if raft is not None}


def _is_known_without(cluster: Cluster, node: SimNode, group: GroupId) -> bool:
    """Whether everything that the node has on disk for a group is known to a majority without it."""
    observer = cluster.observers[group]
    shadow = observer.durability.shadow
    own, term = shadow[node.id].durable, observer.elections.newest_term
    configuration = observer.newest_configuration
    own_raft = cluster.raft(node, group)
    assert own_raft is not None
    if own.term != term or own.vote == node.id or own.last_index > observer.log.commit:
        return False
    if configuration.is_joint or own_raft.configuration != configuration:
        return False
    if own.last_index > own.base and own.terms[-1] != observer.log.committed[own.last_index]:
        return False
    for member in configuration.members():
        raft = cluster.raft(cluster.nodes[member], group)
        if raft is None or member not in shadow or raft.term != term or shadow[member].durable.term != term:
            return False
        if raft.role not in (FOLLOWER, LEADER) or raft.configuration != configuration:
            return False
    last = own.last_index
    return observer.durability.is_held_without(node.id, last, observer.log.committed[last], configuration)
