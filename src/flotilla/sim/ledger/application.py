"""The replicated list of commands on simulated nodes, with an observer beside every step."""

from flotilla.raft.messages import Entry
from flotilla.raft.node import RaftNode
from flotilla.sim.coverage import Sometimes
from flotilla.sim.devices.network import Network
from flotilla.sim.devices.world import World
from flotilla.sim.ledger.machine import Ledger
from flotilla.sim.node import SimNode
from flotilla.sim.observer import GroupObserver
from flotilla.sim.plans.run import Plan
from flotilla.sim.trace import Trace
from flotilla.sim.watch import WatchedMachine
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.snapshot_data import SnapshotData
from flotilla.types.span import Span


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


class LedgerApplication:
    """The cluster replicates a list of commands, and no client reads it by offsets. Implements `Application`."""

    __slots__ = ()

    def __init__(self, world: World, network: Network, run: Plan, sometimes: Sometimes, trace: Trace) -> None:
        """A ledger needs nothing of the run: its clients talk to the nodes directly."""

    def describe(self, entry: Entry) -> Span | None:
        return None

    def machine(self, node: SimNode, group: GroupId, observer: GroupObserver) -> WatchedMachine:
        return WatchedLedger(node.id, observer)

    def observed(self, node: SimNode) -> None:
        """The observers of the groups see all there is to see."""
