"""A cluster of RaftNodes in one process, turned by hand: one Ready, one write, one message at a time.

The network is a list of messages and the disk a pair of logs, so every interleaving that a test wants
can be had. Nothing happens by itself except within `settle`. Every step is checked by
`Safety` and described in `trace`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random

from flotilla.raft.configuration import decode_configuration
from flotilla.raft.messages import (
    CONFIG,
    DATA,
    Configuration,
    Entry,
    HardState,
    Message,
    ReadState,
    Ready,
    Snapshot,
    SnapshotMeta,
)
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import ROLE_NAMES
from flotilla.types.ids import Index, NodeId, Term
from flotilla.types.snapshot_data import whole
from tests.scenarios.notation import format_configuration, format_entry, format_message
from tests.scenarios.safety import Safety
from tests.scenarios.store import MemoryLog

#: A cluster that is still busy after this many rounds will never be quiet.
ROUNDS_MAX = 1000


class Chance(Random):
    """No chance at all: node n waits n - 1 ticks longer than the shortest election timeout, and ids count up."""

    def __init__(self, node_id: NodeId, starts: int) -> None:
        super().__init__(0)
        self._node_id = node_id
        self._starts = starts

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return (self._node_id - 1) % start

    def getrandbits(self, k: int, /) -> int:
        return self._starts


class Member:
    """One replica with its disk and its state machine, which keeps the bodies of all DATA entries."""

    def __init__(
        self,
        node_id: NodeId,
        disk: MemoryLog,
        *,
        options: RaftOptions,
        chance: Callable[[NodeId, int], Random],
        safety: Safety,
    ) -> None:
        self.id = node_id
        self.options = options
        self.disk = disk
        #: Writes stay in flight until a test finishes them.
        self.is_slow = False
        #: A snapshot is taken after every applied entry.
        self.always_snapshots = False
        self._chance = chance
        self._safety = safety
        self._starts = 0
        self.start()

    def start(self) -> None:
        """Comes up with what was durable. The first start is one too."""
        self.is_up = True
        self.store = self.disk.copy()
        #: Taken, but nothing of them has been sent or written.
        self.prepared: deque[Ready] = deque()
        #: Being written, oldest first.
        self.writes: deque[Ready] = deque()
        snapshot = self.store.newest_snapshot
        self.state: list[bytes] = []
        self.applied: Index = 0
        #: Answers to reads, in the order they came out.
        self.reads: list[ReadState] = []
        self.configuration = self.store.configuration()
        if snapshot is not None:
            self._restore(snapshot)
        self.node = RaftNode(
            self.id,
            self.store,
            random=self._chance(self.id, self._starts),
            options=self.options,
            hard_state=self.store.hard_state,
            configuration=self.configuration,
            configuration_entries=self.store.configuration_entries(),
            applied=self.applied,
            damaged=self.store.damaged_ranges(),
            doubtful=[(index, index + 1) for index in sorted(self.store.doubtful & self.store.damaged)],
            is_state_lost=snapshot is None and self.store.first_index() > 1,
        )
        self._starts += 1

    def take_ready(self) -> Ready:
        """The next Ready, saved and its committed entries applied; not durable yet, and nothing sent."""
        ready = self.node.ready()
        self.store.save(ready)
        if ready.snapshot is not None:
            self._restore(ready.snapshot)
        for entry in ready.committed:
            self._apply(entry)
        self.reads += ready.reads
        return ready

    def finish_write(self) -> Ready:
        """The oldest write in flight becomes durable."""
        ready = self.writes.popleft()
        self.disk.save(ready)
        self.node.advance(ready.number)
        return ready

    def _apply(self, entry: Entry) -> None:
        assert entry.index == self.applied + 1, f"{self.id} applies {entry.index} after {self.applied}"
        self._safety.note_applied(entry)
        self.applied = entry.index
        if entry.kind == CONFIG:
            self.configuration = decode_configuration(entry.data)
        elif entry.kind == DATA:
            self.state.append(bytes(entry.data))
        if self.always_snapshots:
            self.take_snapshot()

    def _restore(self, snapshot: Snapshot) -> None:
        self.state = whole(snapshot.data).split(b"\n") if snapshot.data else []
        self.applied = snapshot.meta.index
        self.configuration = snapshot.meta.configuration

    def take_snapshot(self) -> SnapshotMeta:
        """Of the present state; durable at once."""
        data = b"\n".join(self.state)
        term = self.store.term(self.applied)
        meta = SnapshotMeta(self.applied, term, self.applied, term, self.configuration, len(data))
        self.store.newest_snapshot = self.disk.newest_snapshot = Snapshot(meta, data)
        return meta

    def compact(self, first_index: Index) -> None:
        """Drops the log before first_index, which a snapshot covers."""
        self.take_snapshot()
        self.store.compact(first_index)
        self.disk.compact(first_index)
        self.node.log_compacted()


class Cluster:
    def __init__(self, chance: Callable[[NodeId, int], Random] = Chance) -> None:
        #: Each node's chance, from its id and how often it has started.
        self.chance = chance
        self.members: dict[NodeId, Member] = {}
        #: Messages in flight, oldest first.
        self.network: list[Message] = []
        #: (sender, receiver) of links that lose everything.
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        #: Messages that are lost for any other reason.
        self.loses: Callable[[Message], bool] = lambda message: False
        self.safety = Safety()
        #: What happened, in the notation of the scenarios.
        self.trace: list[str] = []
        self._roles: dict[NodeId, tuple[int, Term]] = {}

    def add(
        self,
        node_id: NodeId,
        configuration: Configuration,
        *,
        index: Index = 0,
        content: bytes = b"",
        terms: Iterable[Term] = (),
        options: RaftOptions | None = None,
    ) -> Member:
        """A new member. With an index its log begins after a snapshot there, of term 1; `terms` are entries in it."""
        disk = MemoryLog(configuration)
        if index:
            meta = SnapshotMeta(index, 1, index, 1, configuration, len(content))
            disk.install(Snapshot(meta, content))
        for term in terms:
            disk.stored.append(Entry(disk.last_index() + 1, term, DATA, f"{term}/{disk.last_index() + 1}".encode()))
            disk.hard_state = HardState(term=term)
        options = options or RaftOptions()
        member = Member(node_id, disk, options=options, chance=self.chance, safety=self.safety)
        self.members[node_id] = member
        return member

    def node(self, node_id: NodeId) -> RaftNode:
        return self.members[node_id].node

    def call(self, node_id: NodeId, action: Callable[[RaftNode], object]) -> None:
        """Gives a node some input."""
        action(self.node(node_id))
        self.observe()

    def prepare(self, node_id: NodeId) -> None:
        """Takes a Ready now and leaves sending and writing to process_ready."""
        member = self.members[node_id]
        member.prepared.append(member.take_ready())

    def has_work(self, node_id: NodeId) -> bool:
        member = self.members[node_id]
        return bool(member.prepared) or member.node.has_ready()

    def process_ready(self, node_id: NodeId) -> None:
        """Takes one Ready, sends what may be sent, and finishes the write unless the disk is slow."""
        member = self.members[node_id]
        ready = member.prepared.popleft() if member.prepared else member.take_ready()
        self.send(ready.messages)
        member.writes.append(ready)
        self._trace_ready(member, ready)
        if not member.is_slow:
            while member.writes:
                self.finish_write(node_id)
        self.observe()

    def finish_write(self, node_id: NodeId) -> None:
        ready = self.members[node_id].finish_write()
        self.send(ready.messages_after_sync)
        self.observe()

    def send(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if (message.sender, message.to) not in self.cuts and not self.loses(message):
                self.network.append(message)

    def deliver(self, chosen: Callable[[Message], bool], *, drop: bool = False) -> list[Message]:
        """Delivers, or loses, the chosen messages in flight, oldest first."""
        found = [message for message in self.network if chosen(message)]
        self.network = [message for message in self.network if not chosen(message)]
        for message in found:
            self.trace.append("lost " * drop + format_message(message))
            member = self.members.get(message.to)
            if not drop and member is not None and member.is_up:
                member.node.step(message)
                self.observe()
        return found

    def settle(self, only: Iterable[NodeId] = ()) -> None:
        """Handles Readys, writes and messages of the given members (or all) until nothing is left to do."""
        ids = list(only) or list(self.members)
        for _ in range(ROUNDS_MAX):
            if not self._settle_once([node_id for node_id in ids if self.members[node_id].is_up]):
                return
        raise AssertionError(f"not settled after {ROUNDS_MAX} rounds")

    def _settle_once(self, ids: list[NodeId]) -> bool:
        busy = False
        for node_id in ids:
            if self.has_work(node_id):
                self.process_ready(node_id)
                busy = True
        for node_id in ids:
            busy |= bool(self.deliver(lambda message, to=node_id: message.to == to))  # type: ignore[misc]
        for node_id in ids:
            while self.members[node_id].writes:
                self.finish_write(node_id)
                busy = True
        return busy

    def crash(self, node_id: NodeId) -> None:
        """The member stops; what it had not made durable is gone."""
        self.members[node_id].is_up = False
        self._roles.pop(node_id, None)

    def restart(self, node_id: NodeId) -> None:
        self.members[node_id].start()
        self.observe()

    def observe(self) -> None:
        """Checks safety and notes changes of role."""
        self.safety.observe(self)
        for member in self.members.values():
            role = (member.node.role, member.node.term)
            known = self._roles.setdefault(member.id, role)
            if member.is_up and role != known:
                self._roles[member.id] = role
                if role[0] != known[0]:
                    self.trace.append(f"{member.id} is {ROLE_NAMES[role[0]]} at term {role[1]}")

    def _trace_ready(self, member: Member, ready: Ready) -> None:
        if ready.snapshot is not None:
            self.trace.append(f"{member.id} installs snapshot {ready.snapshot.meta.index}")
        for entry in ready.committed:
            self.trace.append(f"{member.id} applies {format_entry(entry)}")
        for read in ready.reads:
            outcome = "is dropped" if read.index < 0 else f"may be served at {read.index}"
            self.trace.append(f"{member.id} read {read.read_id} {outcome}")

    def describe(self, node_id: NodeId) -> str:
        """One line: role, term, leader, log, configuration."""
        member = self.members[node_id]
        if not member.is_up:
            return f"{node_id}: down"
        node = member.node
        leader = f"leader {node.leader}" if node.leader else "no leader"
        log = f"log {node.log.base + 1}-{node.log.last_index}"
        if node.log.durable < node.log.last_index:
            log += f" (durable {node.log.durable})"
        log += f" committed {node.log.committed} applied {member.applied}"
        asleep = " asleep" * node.quiescent
        return (
            f"{node_id}: {ROLE_NAMES[node.role]} at term {node.term}, {leader}, {log}, "
            f"members {format_configuration(node.configuration)}{asleep}"
        )
