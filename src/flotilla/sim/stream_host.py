"""The metadata and the partitions of a topic on simulated nodes, and while a node leads one of them, a term of it.

The application of a run in which the cluster serves a stream group. It makes the machine of each replica, watched by
its books, and takes requests at every node. A host lives as long as the process: a crash takes all it knew, but for
what the logs say.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from flotilla.codec.batch_facts import facts_of
from flotilla.metadata.machine import MetadataMachine
from flotilla.queue.partition import PartitionMachine
from flotilla.raft.messages import Entry
from flotilla.raft.node import RaftNode
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.sim.checkers.stream_books import OwnershipBooks, PositionBooks
from flotilla.sim.network import Network
from flotilla.sim.node import SimNode
from flotilla.sim.queue_wire import Answered, Wire
from flotilla.sim.sometimes import Sometimes
from flotilla.sim.story import Story
from flotilla.sim.stream_plan import METADATA, PARTITION_COUNT, TOPIC, StreamPlan, group_of
from flotilla.sim.stream_terms import CoordinatorTerm, PartitionTerm
from flotilla.sim.witness import GroupWitness
from flotilla.sim.world import MS, World
from flotilla.types.errors import FlotillaError, NotLeaderError, UnavailableError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations import Request
from flotilla.types.span import Span

#: Times in the product are those of a calendar.
EPOCH_MS: Final = 1_700_000_000_000


class WatchedMetadata(MetadataMachine):
    """Metadata whose every step is compared with the books."""

    def __init__(self, node: NodeId, witness: GroupWitness, books: OwnershipBooks) -> None:
        self._node = node
        self._witness = witness
        self._books = books
        #: Known once the replica exists.
        self.raft: RaftNode | None = None
        super().__init__()

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        self._witness.log.stored(self._node, entry)
        result = super().apply(entry)
        commit = self.raft.log.committed if self.raft is not None else 0
        self._books.applied(self._node, entry, self, commit)
        return result

    def restore(self, data: bytes) -> None:
        super().restore(data)
        self._books.restored(self._node, self)


class WatchedPositions(PartitionMachine):
    """A partition whose every step is compared with the books."""

    def __init__(self, node: NodeId, witness: GroupWitness, books: PositionBooks) -> None:
        self._node = node
        self._witness = witness
        self._books = books
        #: Known once the replica exists.
        self.raft: RaftNode | None = None
        super().__init__(facts_of)

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        self._witness.log.stored(self._node, entry)
        result = super().apply(entry)
        commit = self.raft.log.committed if self.raft is not None else 0
        self._books.applied(self._node, entry, result, self, commit)
        return result

    def restore(self, data: bytes) -> None:
        super().restore(data)
        self._books.restored(self._node, self)


Watched: TypeAlias = WatchedMetadata | WatchedPositions


class _Told:
    """Whoever proposed is told."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[object], None]) -> None:
        self._callback = callback

    def answered(self, node: SimNode, result: object) -> None:
        self._callback(result)


class StreamHost:
    """One group in one process. Implements `TermPorts`."""

    def __init__(self, node: SimNode, group: GroupId, machine: Watched, app: "StreamApplication") -> None:
        self._node = node
        self._group = group
        self._machine = machine
        self._app = app
        self._replica: Replica | None = None
        self._term: CoordinatorTerm | PartitionTerm | None = None

    @property
    def replica(self) -> Replica:
        if self._replica is None:
            assert self._node.driver is not None
            self._replica = self._node.driver.replicas[self._group]
        return self._replica

    def look(self) -> None:
        """After every event of the node."""
        raft = self.replica.raft
        if self._term is not None and (raft.role != LEADER or raft.term != self._term.term):
            self._term.is_over = True
            self._term = None
        if self._term is None and raft.role == LEADER and self.replica.is_serving():
            if isinstance(self._machine, WatchedMetadata):
                first = self._app.plan.first_partitions
                self._term = CoordinatorTerm(raft.term, self._machine, self, TOPIC, first)
            else:
                self._term = PartitionTerm(raft.term, self._machine, self)

    def serve(self, request: Request, answer: Answered) -> None:
        self.look()
        if self._term is None:
            raft = self.replica.raft
            raise UnavailableError("not applied yet") if raft.role == LEADER else NotLeaderError(raft.leader)
        self._term.serve(request, answer)

    # What a term needs.

    def now_ms(self) -> int:
        return EPOCH_MS + self._app.world.now_us // MS

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._node.later(delay_ms * MS, action)

    def propose(self, data: bytes | memoryview, answered: Callable[[object], None]) -> bool:
        assert self._node.driver is not None
        return self._node.driver.propose(self._group, data, _Told(answered))

    def seen(self, name: str) -> None:
        self._app.sometimes.seen(name)

    def tell(self, text: str) -> None:
        self._app.story.tell(self._node.id, text)


class StreamApplication:
    """Everything of a run that belongs to the brokers and not to the members. Implements `Application`."""

    def __init__(self, world: World, network: Network, plan: StreamPlan, sometimes: Sometimes, story: Story) -> None:
        self.world = world
        self.plan = plan
        self.sometimes = sometimes
        self.story = story
        self.wire = Wire(world, network, self)
        self.ownership = OwnershipBooks()
        self.positions = {group_of(number): PositionBooks() for number in range(PARTITION_COUNT)}
        self._hosts: dict[tuple[NodeId, GroupId], StreamHost] = {}

    # What nodes need.

    def describe(self, entry: Entry) -> Span | None:
        return None

    def machine(self, node: SimNode, group: GroupId, witness: GroupWitness) -> Watched:
        machine: Watched = (
            WatchedMetadata(node.id, witness, self.ownership)
            if group == METADATA
            else WatchedPositions(node.id, witness, self.positions[group])
        )
        self._hosts[node.id, group] = StreamHost(node, group, machine, self)
        return machine

    def observed(self, node: SimNode) -> None:
        for group in (METADATA, *self.positions):
            host = self._hosts.get((node.id, group))
            if host is not None and node.driver is not None and group in node.driver.replicas:
                host.look()

    def serve(self, node: SimNode, group: GroupId, request: Request, answer: Answered) -> None:
        host = self._hosts.get((node.id, group))
        try:
            if host is None or group not in node.memberships:
                raise NotLeaderError()
            host.serve(request, answer)
        except FlotillaError as error:
            answer(error.with_traceback(None))
