"""The intact copies of every entry in a cluster, and whether they are enough to heal from.

Rot may strike any node, as long as the cluster can heal. A replica is *able* if it is intact, or can fetch what it lost
from the log of another member. Every other replica needs a leader's word or its snapshot: an able replica must lead, so
a majority must have no newer log than that one. Damaged replicas belong to the majority, since they vote.

What a node has lost is found by opening a copy of what is durable on its disk, and reading all of it: so the bound is
exact, whatever the layout of the files.
"""

from random import Random

from flotilla.replica.ports import GroupLog
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.disk import SimDisk
from flotilla.sim.ledger.watched import describe
from flotilla.sim.node import SimNode
from flotilla.storage.journal_scan import JournalScan, list_journal
from flotilla.storage.store import NodeStore
from flotilla.storage.store_format import read_salt
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import GroupId, Index, NodeId, Term
from flotilla.types.limits import MIB


class LogCopy:
    """One replica's log on its disk: which entries are intact, and which are known only by index and term."""

    __slots__ = ("damaged", "intact", "is_state_lost", "last")

    def __init__(self, log: GroupLog) -> None:
        self.intact: set[tuple[Index, Term]] = set()
        self.damaged: set[tuple[Index, Term]] = set()
        self.is_state_lost = _is_state_lost(log)
        #: What votes are compared by.
        self.last: tuple[Term, Index] = (log.term(log.last_index()), log.last_index())
        low, end = log.first_index(), log.last_index() + 1
        while low < end:
            try:
                found = log.entries(low, end, MIB)
            except CorruptionError as damage:
                high = min(max(damage.high, low + 1), end)
                self.damaged.update((index, log.term(index)) for index in range(low, high))
                low = high
            else:
                self.intact.update((entry.index, entry.term) for entry in found)
                low = found[-1].index + 1


def _is_state_lost(log: GroupLog) -> bool:
    try:
        log.read_snapshot()
    except CorruptionError:
        return True
    return False


def read_disk(cluster: Cluster, node: SimNode) -> dict[GroupId, LogCopy]:
    """What a node would find on its disk after a power loss. Raises CorruptionError when its store does not open."""
    store = NodeStore.open(_copy_disk(node), cluster.plan.store, describe)
    return {group: LogCopy(log) for group, log in store.groups.items()}


def is_at_rest(cluster: Cluster, node: SimNode, path: str) -> bool:
    """Whether the node would need this file after a power loss. Raises CorruptionError when its store does not open.

    It does not need a repaired copy of a segment before the journal names it. Then it releases the entries that it had
    repaired in the journal, which were the good ones if the copy has rotted meanwhile.
    """
    disk = _copy_disk(node)
    NodeStore.open(disk, cluster.plan.store, describe)
    return disk.exists(path)


def last_block(node: SimNode) -> int:
    """The newest block of the journal on the node's disk. Raises CorruptionError where one is missing before it.

    With two bad sectors the last block looks as if a power cut had torn it, if nothing on the disk proves that it was
    synced. Then it is dropped, which is not promised to be noticed.
    """
    disk = _copy_disk(node)
    chain = JournalScan.of(disk, list_journal(disk), read_salt(disk)).chain()
    return chain[-1].sequence if chain else 0


def _copy_disk(node: SimNode) -> SimDisk:
    disk = SimDisk(Random(0))
    disk.put_back(node.disk.durable_image())
    return disk


def can_heal(cluster: Cluster, away: frozenset[NodeId] = frozenset()) -> bool:
    """Whether the nodes that are not away hold enough to heal by themselves, if all of them are up and connected."""
    present: dict[NodeId, dict[GroupId, LogCopy]] = {}
    for node in cluster.nodes.values():
        if node.id in away or node.is_lost:
            continue
        try:
            present[node.id] = read_disk(cluster, node)
        except CorruptionError:
            continue
    return all(
        can_group_heal(cluster, group, {node: logs[group] for node, logs in present.items() if group in logs})
        for group in cluster.observers
    )


def can_group_heal(cluster: Cluster, group: GroupId, copies: dict[NodeId, LogCopy]) -> bool:
    """The same for one group, with the logs of the nodes that are there."""
    able = {own for own in copies if _is_able(own, copies)}
    if cluster.is_majority(group, able):
        return True
    # A replica with an empty log gives no vote.
    lasts = {node: copy.last for node, copy in copies.items() if copy.last > (0, 0)}
    voters = cluster.observers[group].newest_configuration.voters
    return any(
        cluster.is_majority(group, {node for node, last in lasts.items() if last <= lasts[heir]})
        for heir in able.intersection(lasts, voters)
    )


def _is_able(own: NodeId, copies: dict[NodeId, LogCopy]) -> bool:
    others = [copy.intact for node, copy in copies.items() if node != own]
    return not copies[own].is_state_lost and all(
        any(entry in intact for intact in others) for entry in copies[own].damaged
    )
