"""Whole brokers without sockets: real drivers and stores on simulated disks, a hand-turned clock, links in memory.

Nothing happens between two calls of the test. `settle` lets everything that can happen without time happen;
`advance` turns the clock, with ticks and timers in their order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random

from flotilla.broker.backup_hold import BackupHold
from flotilla.broker.broker import Broker
from flotilla.broker.catalog import METADATA_GROUP, Catalog, CatalogMachine
from flotilla.broker.cluster.registration import Membership
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.disk.room import DiskRoom
from flotilla.broker.partition.host import PartitionHost
from flotilla.codec.batch.facts import facts_of, span_of
from flotilla.codec.batch.records import encode_batch
from flotilla.metadata.commands import Command, RegisterBroker, decode_command
from flotilla.metadata.move_commands import ConfirmLost
from flotilla.metadata.values import NO_LABELS, Labels
from flotilla.raft import reasons
from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Configuration, Message
from flotilla.raft.options import RaftOptions
from flotilla.replica.ports import Block, Job, Load, Remains, StateMachine
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.replica.stored_state import StoredState
from flotilla.runtime.driver import Driver, DriverOptions
from flotilla.runtime.pending_requests import PendingRequest, PendingRequests
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.options import StoreOptions
from flotilla.storage.store import NodeStore
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId, Index, NodeId
from flotilla.types.notation import Watermark
from flotilla.types.operations import ClusterReply, CreateTopic, JoinCluster, Reply, Request
from flotilla.types.records import Record
from flotilla.types.settings import NodeSettings
from flotilla.types.version import SUPPORTED, VersionRange
from tests.unit.broker.elsewhere import Elsewhere

TICK_MS = 100
#: The time at which the clock of a fleet begins.
BEGINNING_MS = 1_000_000
CLUSTER = "test"
_STORE = StoreOptions(journal_bytes=256 * 1024, reserve_bytes=64 * 1024, segment_bytes=64 * 1024)
_OPTIONS = ReplicaOptions(
    RaftOptions(election_ticks=10, heartbeat_ticks=3, quiesce_ticks=30, commit_news_ticks=1),
    snapshot_entries=0,
    trail_entries=1,
)


def peer_address(node: NodeId) -> str:
    return f"node{node}:7601"


def client_address(node: NodeId) -> str:
    return f"node{node}:7600"


class Clock:
    def __init__(self) -> None:
        self.now_ms = BEGINNING_MS
        self._number = 0
        self._timers: list[tuple[int, int, list[Callable[[], None]]]] = []

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        self._number += 1
        armed = [action]
        heappush(self._timers, (self.now_ms + delay_ms, self._number, armed))
        return armed.clear

    @property
    def next_ms(self) -> int | None:
        """When the next timer is due."""
        return min([due_ms for due_ms, _, armed in self._timers if armed], default=None)

    @property
    def armed_count(self) -> int:
        return sum(1 for _, _, armed in self._timers if armed)

    def pop_due(self) -> Callable[[], None] | None:
        while self._timers and self._timers[0][0] <= self.now_ms:
            armed = heappop(self._timers)[2]
            if armed:
                return armed.pop()
        return None


@dataclass(eq=False)
class Answer:
    """What became of one request: exactly one answer is allowed."""

    results: list[Reply | FlotillaError] = field(default_factory=list)
    cancel: Callable[[], None] | None = None

    def __call__(self, result: Reply | FlotillaError) -> None:
        self.results.append(result)

    @property
    def is_waiting(self) -> bool:
        return not self.results

    @property
    def result(self) -> Reply | FlotillaError:
        assert len(self.results) == 1, f"answered {len(self.results)} times: {self.results}"
        return self.results[0]

    @property
    def code(self) -> str:
        """Of the error; the name of the reply when there is none."""
        result = self.result
        return result.code if isinstance(result, FlotillaError) else type(result).__name__


class Node:
    """One broker; it is the driver's ports, and Consensus and Outside of the service, all in one."""

    def __init__(self, fleet: "Fleet", node: NodeId) -> None:
        self.fleet = fleet
        self.node = node
        self.settings = replace(fleet.settings, node_id=node)
        self.incarnation = node * 1000
        #: By how much the clock of this node was set.
        self.wall_ahead_ms = 0
        self.renew()

    def renew(self) -> None:
        """Begins on an empty disk."""
        self.incarnation += 1
        self.disk = SimDisk(Random(self.incarnation))
        self.boot()

    def boot(self) -> None:
        self.is_running = True
        #: Whether the node knows that it was not replaced while it was paused.
        self.is_awake = True
        #: A failure in the code of a group cuts it off, as on a real node.
        self.is_containing = False
        #: Blocks stay unwritten, so that proposals stay in flight.
        self.is_disk_stuck = False
        #: Reads from disk do not return.
        self.is_reading_stuck = False
        self.links: dict[NodeId, str] = {}
        #: On which data directory others are let in.
        self.expected: dict[NodeId, int] = {}
        self.sent: list[tuple[NodeId, list[tuple[GroupId, Message]]]] = []
        self.blocks: list[Block] = []
        self.jobs: list[Job] = []
        self.loads: list[Load] = []
        self.load_waiters: dict[GroupId, list[Callable[[FlotillaError | None], None]]] = {}
        self.pending = PendingRequests()
        self.replies: list[tuple[PendingRequest, object]] = []
        self.answers: list[Answer] = []
        self.transfers: list[tuple[GroupId, NodeId]] = []
        #: The cluster versions that the node's program supports.
        self.versions = SUPPORTED
        self.election_timeouts = lambda: self.fleet.election_timeouts
        #: Clusters that the node was asked to join.
        self.entering: list[tuple[list[str], bytes]] = []
        self.store = NodeStore.open(self.disk, _STORE, span_of)
        self.driver = Driver(self.node, self.store, self, Random(self.node), DriverOptions(_OPTIONS))
        self.clock = ClusterClock(_Wall(self), self._cluster_size)
        self.hold = BackupHold(self.later)
        self.after_hold = self.hold.run
        self.room = DiskRoom(self.node, "its-disk", Watermark(percent=5), Watermark(percent=1))
        self.machine = CatalogMachine()
        if METADATA_GROUP in self.store.groups:
            self.driver.add_replica(METADATA_GROUP, self.machine)
        self.catalog = Catalog(self.machine, self, self)
        self.elsewhere = Elsewhere(self)
        self.membership = Membership(
            self.node,
            self.catalog,
            self,
            self,
            facts_of,
            replace(_OPTIONS, keeps_log=True),
            self.elsewhere,
            Random(self.node),
        )
        enter = lambda servers, token: self.entering.append((servers, token))  # noqa: E731
        self.broker = Broker(self.settings, self.catalog, self.membership, self, self, self.found, enter)
        own = (self.fleet.addresses.get(self.node, client_address(self.node)), peer_address(self.node))
        self.membership.start(
            RegisterBroker(CLUSTER, self.node, *own, "", "", "1", 0, 0, self.now_ms()),
            self.incarnation,
            self.labels,
        )

    @property
    def labels(self) -> Labels:
        return self.fleet.labels.get(self.node, NO_LABELS)

    def found(self, others: dict[NodeId, str]) -> None:
        self.links.update(others)
        if METADATA_GROUP not in self.store.groups:
            self.store.create_group(METADATA_GROUP, Configuration(voters=tuple(sorted((self.node, *others)))))
            self.driver.add_replica(METADATA_GROUP, self.machine)

    def learn(self) -> None:
        """Takes part in the metadata group as a node that was let in does."""
        self.store.create_group(METADATA_GROUP, Configuration())
        self.driver.add_replica(METADATA_GROUP, self.machine)

    def ask(self, request: Request, metadata_index: Index = 0) -> Answer:
        """Starts a request; the answer may come later."""
        answer = Answer()
        self.answers.append(answer)
        answer.cancel = self.broker.handle(request, answer, metadata_index)
        return answer

    def call(self, request: Request, metadata_index: Index = 0) -> Answer:
        """A request, and everything that follows from it without time."""
        answer = self.ask(request, metadata_index)
        self.fleet.settle()
        return answer

    def partition(self, topic: str, partition: int = 0) -> PartitionHost:
        return self.membership.hosts[self.catalog.topic(topic).partitions[partition].group]

    # The driver's ports.

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        self.sent.append((to, messages))

    def tell_room(self, room: int) -> None:
        for other in self.links:
            if self.fleet.is_linked(self.node, other):
                self.fleet.nodes[other].driver.peer_room(self.node, room)

    def write(self, block: Block) -> None:
        self.blocks.append(block)

    def run(self, job: Job) -> None:
        self.jobs.append(job)

    def load(self, load: Load) -> None:
        self.loads.append(load)

    def discard(self, remains: Remains) -> None:
        for _ in remains:
            pass

    def reply(self, token: object, result: object) -> None:
        assert isinstance(token, PendingRequest)
        self.replies.append((token, result))

    def crash_point(self, name: str) -> None:
        """There are no power cuts here."""

    def group_failed(self, group: GroupId, failure: Exception) -> None:
        """Only a test that plants failures goes on after one."""
        if not self.is_containing:
            raise failure
        for request in self.pending.of_group(group):
            self.replies.append((request, self.pending.broken(request, "cut off")))
        self.later(0, lambda: self.membership.group_failed(group))

    # Consensus.

    def replica(self, group: GroupId) -> Replica | None:
        return self.driver.replicas.get(group)

    def fail(self, group: GroupId, failure: Exception) -> None:
        self.driver.cut_off(group, failure)

    def has_failed(self, group: GroupId) -> bool:
        return group in self.driver.failed

    def resign(self, group: GroupId, error: FlotillaError) -> None:
        self.driver.resign(group)

    def holds(self, group: GroupId) -> bool:
        return group in self.store.groups

    def is_short_of_room(self, node: NodeId) -> bool:
        return self.driver.is_short_of_room(node)

    def storage_error(self) -> FlotillaError | None:
        return self.driver.storage_error

    def stalled(self) -> Mapping[GroupId, str]:
        return self.driver.stalled

    def is_confirmed(self, group: GroupId) -> bool:
        return self.is_awake

    def when_loaded(self, group: GroupId, loaded: Callable[[FlotillaError | None], None]) -> None:
        self.load_waiters.setdefault(group, []).append(loaded)
        self.driver.start_loads()

    def propose(
        self, group: GroupId, data: bytes | memoryview, reply: Callable[[object], None], *, frees_space: bool = False
    ) -> bool:
        return self.driver.propose(group, data, self.pending.add(group, reply, is_read=False), frees_space=frees_space)

    def forward(self, group: GroupId, data: bytes) -> None:
        if group == METADATA_GROUP:
            self._check_word(decode_command(data))
        self.driver.forward(group, data)

    def _check_word(self, command: Command) -> None:
        """A replica that lost its disk starts again after this: by then no majority of the group may rely on it."""
        if isinstance(command, ConfirmLost):
            replica = self.replica(command.group)
            assert replica is not None
            assert command.node not in replica.raft.configuration.members()
            assert replica.raft.pending_configuration_index <= replica.raft.log.handed

    def read(self, group: GroupId, query: object, reply: Callable[[object], None]) -> None:
        self.driver.read(group, query, self.pending.add(group, reply, is_read=True))

    def change_members(self, group: GroupId, change: ConfigurationChange, reply: Callable[[object], None]) -> None:
        self.driver.change_members(group, change, self.pending.add(group, reply, is_read=False))

    def transfer(self, group: GroupId, to: NodeId, reason: int = reasons.OPERATOR) -> None:
        self.transfers.append((group, to))
        self.driver.transfer(group, to, reason)

    def host(
        self,
        group: GroupId,
        configuration: Configuration,
        machine: StateMachine,
        options: ReplicaOptions,
        state: StoredState | None = None,
    ) -> None:
        if group not in self.store.groups:
            self.store.create_group(group, configuration)
        self.driver.add_replica(group, machine, options, state)

    def preload(
        self, group: GroupId, machine: StateMachine, done: Callable[[StoredState | FlotillaError], None]
    ) -> bool:
        return self.driver.preload(group, machine, done)

    def snapshot(self, group: GroupId) -> None:
        self.driver.snapshot(group)

    def campaign(self, group: GroupId) -> None:
        self.driver.campaign(group)

    def drop(self, group: GroupId, reason: FlotillaError) -> None:
        self.driver.remove_replica(group)
        self.replies += [(request, reason) for request in self.pending.of_group(group)]

    # Outside.

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def _cluster_size(self) -> int:
        replica = self.replica(METADATA_GROUP)
        return 0 if replica is None else max(len(self.links) + 1, len(replica.raft.configuration.members()))

    def wall_ms(self) -> int:
        return self.fleet.clock.now_ms + self.fleet.wall_ahead_ms + self.wall_ahead_ms

    def is_time_set(self) -> bool:
        return self.clock.may_lead()

    def is_time_trusted(self) -> bool:
        return self.clock.is_trusted

    def steady_ms(self) -> int:
        return self.fleet.clock.now_ms

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        boot = self.driver

        def guarded() -> None:
            if self.is_running and self.driver is boot:
                action()

        return self.fleet.clock.later(delay_ms, guarded)

    def aside(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        work()
        self.later(0, done)

    def is_up(self, node: NodeId) -> bool:
        return node == self.node or self.fleet.is_up(self.node, node)

    def is_unknown_to(self, node: NodeId) -> bool:
        other = self.fleet.nodes[node]
        if node == self.node or not other.is_running or {node, self.node} & self.fleet.cut:
            return False
        return self.node not in other.links or other.expected.get(self.node, 0) not in (0, self.incarnation)

    def versions_of(self, node: NodeId) -> VersionRange | None:
        return self.fleet.nodes[node].versions if self.is_up(node) else None

    def connect(self, node: NodeId, peer: str, incarnation: int = 0, starts: int = 0, process: int = 0) -> None:
        assert node != self.node
        was_up = self.is_up(node)
        self.links[node] = peer
        if incarnation:
            self.expected[node] = incarnation
        if self.is_up(node) and not was_up:
            self.driver.peer_up(node)
            self.fleet.nodes[node].driver.peer_up(self.node)

    def disconnect(self, node: NodeId) -> None:
        self.links.pop(node, None)


class _Wall:
    """The machine's clocks of a node."""

    def __init__(self, box: Node) -> None:
        self.now_ms = box.wall_ms
        self.uptime_ms = box.steady_ms


class Fleet:
    def __init__(
        self,
        nodes: int = 1,
        settings: NodeSettings | None = None,
        addresses: Mapping[NodeId, str] | None = None,
        wall_ahead_ms: int = 0,
        labels: Mapping[NodeId, Labels] | None = None,
    ) -> None:
        """`addresses` are those for clients."""
        self.clock = Clock()
        self.addresses = addresses or {}
        self.labels = dict(labels or {})
        self.settings = settings or NodeSettings(cluster_name=CLUSTER)
        self.nodes: dict[NodeId, Node] = {}
        self.cut: set[NodeId] = set()
        self.election_timeouts: dict[NodeId, int] = {}
        #: By how much the clocks of all nodes were set.
        self.wall_ahead_ms = wall_ahead_ms
        #: What brokers have asked of others.
        self.asked: list[Request] = []
        for node in range(1, nodes + 1):
            self.nodes[node] = Node(self, node)
        for box in self.nodes.values():
            box.found({node: peer_address(node) for node in self.nodes if node != box.node})
        if nodes == 1:
            self.nodes[1].campaign(METADATA_GROUP)

    def add(self, node: NodeId) -> Node:
        """A node that is part of nothing yet."""
        box = self.nodes[node] = Node(self, node)
        return box

    # What the world does.

    def is_linked(self, one: NodeId, other: NodeId) -> bool:
        ends = (self.nodes.get(one), self.nodes.get(other))
        if one in self.cut or other in self.cut or None in ends:
            return False
        if not all(end is not None and end.is_running for end in ends) or other not in self.nodes[one].links:
            return False
        # The dialled node checks the incarnation.
        return self.nodes[other].expected.get(one, 0) in (0, self.nodes[one].incarnation)

    def is_up(self, one: NodeId, other: NodeId) -> bool:
        return self.is_linked(one, other) and self.is_linked(other, one)

    def isolate(self, node: NodeId) -> None:
        self.cut.add(node)
        for other in self.nodes:
            if other != node:
                self.nodes[other].driver.peer_down(node)
                self.nodes[node].driver.peer_down(other)

    def heal(self, node: NodeId) -> None:
        self.cut.discard(node)
        for other in self.nodes:
            if other != node and self.is_up(node, other):
                self.nodes[other].driver.peer_up(node)
                self.nodes[node].driver.peer_up(other)

    def kill(self, node: NodeId) -> None:
        self.nodes[node].is_running = False
        self.nodes[node].disk.crash()
        for other in self.nodes.values():
            if other.node != node:
                other.driver.peer_down(node)

    def restart(self, node: NodeId) -> Node:
        box = self.nodes[node]
        box.boot()
        box.links.update({other: peer_address(other) for other in self.nodes if other != node})
        for other in self.nodes.values():
            if other.node != node:
                other.driver.peer_up(node)
        return box

    def wipe(self, node: NodeId) -> Node:
        """A node that is down comes back on an empty disk, part of nothing, and asks to be let in."""
        box = self.nodes[node]
        assert not box.is_running
        box.renew()
        self.let_in(node)
        return box

    def let_in(self, node: NodeId) -> None:
        """What a node that joins does, again and again until it is in."""
        box = self.nodes[node]
        boot = box.driver

        def ask() -> None:
            controllers = [other for other in self.nodes.values() if other.is_running and _leads_metadata(other)]
            if controllers and box.is_running and box.driver is boot:
                request = JoinCluster(
                    node,
                    peer_address(node),
                    client_address(node),
                    "",
                    box.incarnation,
                    machine=box.labels.machine,
                    zone=box.labels.zone,
                )
                controllers[0].broker.handle(request, answered)
            else:
                box.later(50, ask)

        def answered(result: Reply | FlotillaError) -> None:
            if box.driver is not boot or METADATA_GROUP in box.store.groups:
                return
            if isinstance(result, ClusterReply):
                for other, peer in result.peers.items():
                    if other != node:
                        box.connect(other, peer)
                box.learn()
            else:
                box.later(50, ask)

        ask()

    def settle(self) -> None:
        """Everything that needs no time."""
        self._exchange_clocks()
        while sum(self.turn(box) for box in self.nodes.values() if box.is_running):
            pass

    def _exchange_clocks(self) -> None:
        for box in self.nodes.values():
            for other in box.links:
                if box.is_running and self.is_linked(box.node, other):
                    self.nodes[other].clock.heard(box.node, box.wall_ms())

    def turn(self, box: Node) -> bool:
        box.driver.pump()
        worked = False
        while box.blocks and not box.is_disk_stuck:
            block = box.blocks.pop(0)
            box.store.write_block(block)
            box.driver.block_written(block)
            worked = True
        while box.jobs:
            job = box.jobs.pop(0)
            job.run()
            box.driver.job_done(job)
            worked = True
        while box.loads and not box.is_reading_stuck:
            load = box.loads.pop(0)
            load.run()
            error = box.driver.load_done(load)
            waiting = box.load_waiters.pop(load.group, [])
            for loaded in waiting:
                loaded(error)
            worked = True
        replies, box.replies = box.replies, []
        for request, result in replies:
            box.pending.answer(request, result)
        sent, box.sent = box.sent, []
        for to, messages in sent:
            if self.is_up(box.node, to):
                self.nodes[to].driver.receive(messages)
        while (action := self.clock.pop_due()) is not None:
            action()
            worked = True
        return worked or bool(replies or sent)

    def advance(self, ms: int) -> None:
        """In steps of a tick."""
        self.settle()
        end_ms = self.clock.now_ms + ms
        while self.clock.now_ms < end_ms:
            self.clock.now_ms = min(end_ms, self.clock.now_ms + TICK_MS)
            self._tick()

    def _tick(self) -> None:
        for box in self.nodes.values():
            if box.is_running:
                box.driver.tick()
        self.settle()

    def turn_to(self, end_ms: int) -> None:
        """Turns the clock to a time, with every timer at its own time."""
        self.settle()
        while self.clock.now_ms < end_ms:
            tick_ms = self.clock.now_ms // TICK_MS * TICK_MS + TICK_MS
            self.clock.now_ms = max(min(end_ms, tick_ms, self.clock.next_ms or end_ms), self.clock.now_ms)
            if self.clock.now_ms == tick_ms:
                self._tick()
            else:
                self.settle()

    def wait(self, condition: Callable[[], bool], limit_ms: int = 30_000) -> None:
        """Turns the clock until it holds."""
        self.settle()
        end_ms = self.clock.now_ms + limit_ms
        while not condition():
            assert self.clock.now_ms < end_ms, "waited in vain"
            self.advance(TICK_MS)

    # What tests begin with.

    def form(self) -> "Fleet":
        """All nodes are registered brokers of one cluster."""
        self.wait(lambda: all(self._is_formed(box) for box in self.nodes.values()))
        return self

    def _is_formed(self, box: Node) -> bool:
        brokers = box.catalog.brokers()
        return len(brokers) == len(self.nodes) and all(broker.incarnation for broker in brokers.values())

    def controller(self) -> Node:
        """The leader of the metadata."""
        return self._leading(METADATA_GROUP)

    def leader(self, topic: str, partition: int = 0) -> Node:
        knowing: list[Node] = []

        def is_known() -> bool:
            knowing[:] = [box for box in self.nodes.values() if box.is_running and box.catalog.find_topic(topic)]
            return bool(knowing)

        self.wait(is_known)
        return self._leading(knowing[0].catalog.topic(topic).partitions[partition].group)

    def _leading(self, group: GroupId) -> Node:
        found: list[Node] = []

        def is_found() -> bool:
            replicas = [(box, box.replica(group)) for box in self.nodes.values() if box.is_running]
            found[:] = [box for box, replica in replicas if replica is not None and replica.is_serving()]
            return len(found) == 1

        self.wait(is_found)
        return found[0]

    def create(self, topic: str, partitions: int = 1, **settings: str) -> Node:
        """A new topic; the node that leads its first partition."""
        answer = self.controller().call(CreateTopic(topic, partitions, settings=settings))
        assert answer.code == "TopicReply", answer.result
        return self.leader(topic)

    def check_answers(self) -> None:
        """Every request was answered once."""
        for box in self.nodes.values():
            assert [len(answer.results) for answer in box.answers] == [1] * len(box.answers)


def _leads_metadata(box: Node) -> bool:
    replica = box.replica(METADATA_GROUP)
    return replica is not None and replica.is_serving()


def batch(*values: bytes, time_ms: int = 5, producer: int = 0, epoch: int = 0, sequence: int = 0) -> bytes:
    records = [Record(value, timestamp_ms=time_ms + place) for place, value in enumerate(values or (b"x",))]
    return encode_batch(records, producer_id=producer, producer_epoch=epoch, sequence=sequence)


def single_node(**settings: object) -> Node:
    """A cluster of one."""
    return Fleet(1, replace(NodeSettings(cluster_name=CLUSTER), **settings)).form().nodes[1]  # type: ignore[arg-type]


def three() -> Fleet:
    return Fleet(3).form()
