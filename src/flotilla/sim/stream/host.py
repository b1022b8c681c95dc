"""The metadata and the partitions of a topic on simulated nodes, with a term for each one that a node leads.

The application of a run in which the cluster serves a stream group. It makes the machine of each replica, watched by
its shadow, and takes requests at every node. A host lives as long as the process: after a crash only the logs remain.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from flotilla.codec.batch.facts import facts_of
from flotilla.metadata.machine import MetadataMachine
from flotilla.partition.state.machine import PartitionMachine
from flotilla.raft.messages import Entry
from flotilla.raft.node import RaftNode
from flotilla.sim.checkers.stream_shadow import OwnershipShadow, PositionShadow
from flotilla.sim.coverage import Sometimes
from flotilla.sim.devices.clock import EPOCH_MS
from flotilla.sim.devices.network import Network
from flotilla.sim.devices.world import MS, World
from flotilla.sim.host import GroupHost, HostedApplication
from flotilla.sim.node import SimNode
from flotilla.sim.observer import GroupObserver
from flotilla.sim.plans.run import Plan
from flotilla.sim.plans.stream import METADATA, PARTITION_COUNT, TOPIC, draw_stream_plan, group_of
from flotilla.sim.stream.terms import CoordinatorTerm, PartitionTerm
from flotilla.sim.trace import Trace
from flotilla.sim.wire import Wire
from flotilla.types.ids import GroupId, NodeId, Term
from flotilla.types.snapshot_data import SnapshotData
from flotilla.types.span import Span


class WatchedMetadata(MetadataMachine):
    """Metadata whose every step is compared with the shadow."""

    def __init__(self, node: NodeId, observer: GroupObserver, shadow: OwnershipShadow) -> None:
        self._node = node
        self._observer = observer
        self._shadow = shadow
        #: Known once the replica exists.
        self.raft: RaftNode | None = None
        super().__init__()

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        self._observer.log.stored(self._node, entry)
        result = super().apply(entry)
        commit = self.raft.log.committed if self.raft is not None else 0
        self._shadow.applied(self._node, entry, self, commit)
        return result

    def restore(self, data: SnapshotData, decoded: Any = None) -> None:
        super().restore(data, decoded)
        self._shadow.restored(self._node, self)


class WatchedPositions(PartitionMachine):
    """A partition whose every step is compared with the shadow."""

    def __init__(self, node: NodeId, observer: GroupObserver, shadow: PositionShadow) -> None:
        self._node = node
        self._observer = observer
        self._shadow = shadow
        #: Known once the replica exists.
        self.raft: RaftNode | None = None
        super().__init__(facts_of)

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        self._observer.log.stored(self._node, entry)
        result = super().apply(entry)
        commit = self.raft.log.committed if self.raft is not None else 0
        self._shadow.applied(self._node, entry, result, self, commit)
        return result

    def restore(self, data: SnapshotData, decoded: Any = None) -> Iterator[None]:
        remains = super().restore(data, decoded)
        self._shadow.restored(self._node, self)
        return remains


Watched: TypeAlias = WatchedMetadata | WatchedPositions


class StreamHost(GroupHost[CoordinatorTerm | PartitionTerm]):
    """One group in one process. Implements `TermPorts`."""

    def __init__(self, node: SimNode, group: GroupId, machine: Watched, app: "StreamApplication") -> None:
        super().__init__(node, group, app.sometimes, app.trace)
        self._machine = machine
        self._app = app

    def begin(self, term: Term) -> CoordinatorTerm | PartitionTerm:
        if isinstance(self._machine, WatchedMetadata):
            return CoordinatorTerm(term, self._machine, self, TOPIC, self._app.plan.first_partitions)
        return PartitionTerm(term, self._machine, self)

    def now_ms(self) -> int:
        return EPOCH_MS + self._app.world.now_us // MS


class StreamApplication(HostedApplication[StreamHost]):
    """Everything of a run that belongs to the brokers and not to the members. Implements `Application`."""

    def __init__(self, world: World, network: Network, run: Plan, sometimes: Sometimes, trace: Trace) -> None:
        super().__init__(world, sometimes, trace)
        self.plan = draw_stream_plan(run.seed)
        self.wire = Wire(world, network, self)
        self.ownership = OwnershipShadow()
        self.positions = {group_of(number): PositionShadow() for number in range(PARTITION_COUNT)}

    # What nodes need.

    def groups(self) -> Iterable[GroupId]:
        return (METADATA, *self.positions)

    def describe(self, entry: Entry) -> Span | None:
        return None

    def machine(self, node: SimNode, group: GroupId, observer: GroupObserver) -> Watched:
        machine: Watched = (
            WatchedMetadata(node.id, observer, self.ownership)
            if group == METADATA
            else WatchedPositions(node.id, observer, self.positions[group])
        )
        self.hosts[node.id, group] = StreamHost(node, group, machine, self)
        return machine
