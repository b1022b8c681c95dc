"""The checkers of consensus beside real brokers: what replicas save, send, commit and apply must agree.

Each broker's driver gets a store that reports to the observers, and is looked at before each of its turns. Nothing that
it does changes. The first broken promise ends the run.
"""

from collections.abc import Callable
from typing import Any

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.raft.messages import Configuration, Entry, Message
from flotilla.raft.node import RaftNode
from flotilla.replica.replica import Replica
from flotilla.runtime.driver import Driver
from flotilla.server import Server
from flotilla.sim.checkers.disk_shadow import DurableLog, ReplicaShadow
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import World
from flotilla.sim.observer import GroupObserver
from flotilla.sim.trace import Trace
from flotilla.sim.watch import WatchedStore
from flotilla.sim.whole.coverage import SOMETIMES, Sometimes
from flotilla.types.ids import GroupId, Index, NodeId


class _Counted:
    """Passes on what is in the list of whole runs; the observers know more."""

    def __init__(self, sometimes: Sometimes) -> None:
        self._sometimes = sometimes

    def seen(self, event: str) -> None:
        if event in SOMETIMES:
            self._sometimes.seen(event)


class _Observers(dict[GroupId, GroupObserver]):
    """Made when a group is first heard of."""

    def __init__(self, world: World, sometimes: Sometimes) -> None:
        super().__init__()
        self._counted: Any = _Counted(sometimes)
        self._trace = Trace(world, is_traced=False)

    def __missing__(self, group: GroupId) -> GroupObserver:
        made = self[group] = _Observer(group, Configuration(), self._counted, self._trace)
        return made


class _Observer(GroupObserver):
    """Knows the groups of partitions from that of the metadata."""

    def saved(self, node: NodeId, raft: RaftNode | None, *saved: Any) -> None:
        super().saved(node, raft, *saved)
        is_moving = self.newest_configuration.is_joint or bool(self.newest_configuration.learners)
        if saved[-1] is not None and is_moving and self.group != METADATA_GROUP:
            self._sometimes.seen("snapshot installed during a move")


class _Store(WatchedStore):
    """A group that leaves a node and comes again is a new one there."""

    def __getattr__(self, name: str) -> Any:
        """What only brokers use of a store."""
        return getattr(self._store, name)

    def create_group(self, group: GroupId, configuration: Configuration) -> Any:
        # Not when it is removed: a power cut may undo that.
        self._observers[group].wiped(self._node)
        return super().create_group(group, configuration)


class ConsensusWatch:
    def __init__(
        self, world: World, sometimes: Sometimes, broken: Callable[[Violation], None], led: Callable[..., None]
    ) -> None:
        """`broken` gets broken promises. `led` is called with the broker, the group and its name when it begins."""
        self.observers: dict[GroupId, GroupObserver] = _Observers(world, sometimes)
        self._sometimes = sometimes
        self._broken = broken
        self._led = led
        self._leaders: dict[GroupId, NodeId] = {}
        #: The last entry that a replica applied in the life of its process.
        self._applied: dict[Replica, Index] = {}

    def wiped(self, node: NodeId) -> None:
        """The disk of a broker is empty."""
        for observer in self.observers.values():
            observer.wiped(node)

    def put_back(self, node: NodeId, logs: dict[GroupId, DurableLog]) -> None:
        """The disk of a broker is as it was when these were its logs."""
        self.wiped(node)
        for group, log in logs.items():
            self.observers[group].durability.shadow[node] = ReplicaShadow()
            self.observers[group].put_back(node, log)

    def attach(self, server: Server) -> None:
        """The broker has opened its store and has not begun to run."""
        self._try(self._attach, server)

    def _attach(self, server: Server) -> None:
        runtime = server.node.runtime
        driver = runtime.driver
        node = driver.node
        real: Any = driver._store
        counted: Any = _Counted(self._sometimes)
        store = _Store(node, real, self.observers, counted)
        store.machines = driver.replicas  # type: ignore[assignment]
        driver._store = server.node.store = store  # type: ignore[assignment]
        runtime.journal._run = store.write_block
        for group, stored in real.groups.items():
            self.observers[group].reopened(node, stored)
        for group, replica in driver.replicas.items():
            self.observers[group].started(node, replica.raft, real.groups[group])
        add_replica, turn, apply, send = driver.add_replica, driver._turn, driver._apply, runtime.send

        def add(group: GroupId, *arguments: Any, **more: Any) -> Replica:
            replica = add_replica(group, *arguments, **more)
            self._try(self.observers[group].started, node, replica.raft, real.groups[group])
            return replica

        def turned() -> None:
            # Before it: what a turn applies and sends follows from what has changed already.
            for group, replica in driver._touched.items():
                self._try(self._observe, server, driver, group, replica)
            turn()

        def applied(committed: list[tuple[Replica, list[Entry]]]) -> None:
            for replica, entries in committed:
                self._try(self._check_applied, node, replica, entries)
            apply(committed)

        def sent(to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
            for group, message in messages:
                self._try(self.observers[group].sent, message)
            send(to, messages)

        driver.add_replica = add  # type: ignore[method-assign]
        driver._turn = turned  # type: ignore[method-assign]
        driver._apply = applied  # type: ignore[method-assign]
        runtime.send = sent  # type: ignore[method-assign]

    def _try(self, check: Callable[..., None], *arguments: object) -> None:
        try:
            check(*arguments)
        except Violation as violation:
            self._broken(violation)

    def _observe(self, server: Server, driver: Driver, group: GroupId, replica: Replica) -> None:
        observer = self.observers[group]
        observer.observe(driver.node, replica.raft)
        leader = observer.leader
        if leader and self._leaders.get(group) != leader:
            self._leaders[group] = leader
            self._led(leader, group, name_of(server, group))

    def _check_applied(self, node: NodeId, replica: Replica, entries: list[Entry]) -> None:
        log = self.observers[replica.group].log
        before = self._applied.get(replica, replica.applied)
        for entry in entries:
            log.stored(node, entry)
            if entry.index > log.commit or log.committed[entry.index] != entry.term:
                raise Violation("applied only when committed", f"node {node} applies {entry.index} of {entry.term}")
            if entry.index != before + 1 and before >= replica.applied:
                raise Violation("applied once, in order", f"node {node} applies {entry.index} after {before}")
            before = entry.index
        self._applied[replica] = before


def name_of(server: Server, group: GroupId) -> str:
    """What people call a group."""
    if group == METADATA_GROUP:
        return "the metadata"
    for topic in server.catalog.topics():
        for number, partition in enumerate(topic.partitions):
            if partition.group == group:
                return f"{topic.name}/{number}"
    return f"group {group}"
