"""The intact copies of every entry in a cluster, and whether they are enough to heal from.

Rot may strike any node, as long as the cluster can heal: a majority of each configuration consists of replicas that are
intact, or that can fetch what they lost from the log of another member. The other replicas need a leader's word or its
snapshot. What a node has lost is found by opening a copy of what is durable on its disk, and reading all of it: so the
bound is exact, whatever the layout of the files.
"""

from random import Random

from flotilla.replica.ports import GroupLog
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.disk import SimDisk
from flotilla.sim.ledger.watched import describe
from flotilla.sim.node import SimNode
from flotilla.storage.journal_scan import JournalScan, list_journal
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import GroupId, Index, NodeId, Term
from flotilla.types.limits import MIB


class LogCopy:
    """One replica's log on its disk: which entries are intact, and which are known only by index and term."""

    __slots__ = ("damaged", "intact", "is_state_lost")

    def __init__(self, log: GroupLog) -> None:
        self.intact: set[tuple[Index, Term]] = set()
        self.damaged: set[tuple[Index, Term]] = set()
        self.is_state_lost = _is_state_lost(log)
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


def last_block(node: SimNode) -> int:
    """The newest block of the journal on the node's disk. Raises CorruptionError where one is missing before it.

    With two bad sectors the last block looks as if a power cut had torn it, if nothing on the disk proves that it was
    synced. Then it is dropped, which is not promised to be noticed.
    """
    disk = _copy_disk(node)
    chain = JournalScan.of(disk, list_journal(disk)).chain()
    return chain[-1].sequence if chain else 0


def _copy_disk(node: SimNode) -> SimDisk:
    disk = SimDisk(Random(0))
    disk.put_back(node.disk.durable_image())
    return disk


def can_heal(cluster: Cluster, away: frozenset[NodeId] = frozenset()) -> bool:
    """Whether the nodes that are not away hold enough to heal by themselves, if all of them are up and connected."""
    hopeless = set(away) | {node.id for node in cluster.nodes.values() if node.is_lost}
    present: dict[NodeId, dict[GroupId, LogCopy]] = {}
    for node in cluster.nodes.values():
        if node.id in hopeless:
            continue
        try:
            present[node.id] = read_disk(cluster, node)
        except CorruptionError:
            hopeless.add(node.id)
    for group in cluster.observers:
        copies = {node: logs[group] for node, logs in present.items() if group in logs}
        for own, copy in copies.items():
            others = [other.intact for peer, other in copies.items() if peer != own]
            if copy.is_state_lost or any(not _is_in_any(entry, others) for entry in copy.damaged):
                hopeless.add(own)
    return cluster.can_spare(hopeless)


def _is_in_any(entry: tuple[Index, Term], logs: list[set[tuple[Index, Term]]]) -> bool:
    return any(entry in log for log in logs)
