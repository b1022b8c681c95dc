"""The replicated list of commands on simulated nodes, with an observer beside every step."""

from flotilla.raft.messages import Entry
from flotilla.raft.node import RaftNode
from flotilla.sim.ledger.machine import Ledger
from flotilla.sim.observer import GroupObserver
from flotilla.types.ids import NodeId
from flotilla.types.records import Span
from flotilla.types.snapshot_data import SnapshotData


class WatchedLedger(Ledger):
    """A ledger whose every step is compared with the shadow."""

    __slots__ = ("_node", "_observer", "raft")

    def __init__(self, node: NodeId, observer: GroupObserver) -> None:
        super().__init__()
        self._node = node
        self._observer = observer
        #: Known once the replica exists.
        self.raft: RaftNode | None = None

    def apply(self, entry: Entry) -> object:
        self._observer.log.stored(self._node, entry)
        position = super().apply(entry)
        commit = self.raft.log.committed if self.raft is not None else 0
        application = self._observer.application
        application.applied(self._node, entry.index, len(self.commands) - 1, self.commands[-1], self.digest, commit)
        return position

    def restore(self, data: SnapshotData, decoded: object = None) -> None:
        super().restore(data, decoded)
        self._observer.application.restored(self._node, len(self.commands), self.digest)


def describe(entry: Entry) -> Span | None:
    """What an entry holds for readers by offset: nothing."""
    return None
