"""Ports of the broker: what endpoints call, and what the broker needs of the node it runs on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from flotilla.broker.backup_hold import BackupHold
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.disk.room import DiskRoom
from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Configuration
from flotilla.replica.ports import StateMachine
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.replica.stored_state import StoredState
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId, Index, NodeId
from flotilla.types.operations import Reply, Request
from flotilla.types.version import VersionRange

#: Called exactly once for each request, at once or later, always on the loop. It must not raise.
Done: TypeAlias = Callable[[Reply | FlotillaError], None]
#: Gives up a waiting request: a long poll whose client is gone. Harmless once it is answered.
Cancel: TypeAlias = Callable[[], None]


class Service(Protocol):
    @property
    def node(self) -> NodeId: ...

    @property
    def cluster_id(self) -> str:
        """Empty while the node is not part of a cluster."""

    def now_ms(self) -> int:
        """Cluster time, for clients, who go by it for as long as they run; 0: this node does not know it yet."""

    @property
    def metadata_index(self) -> Index:
        """The newest change of a topic or of a group's settings that the service knows."""

    def handle(self, request: Request, done: Done, metadata_index: Index = 0) -> Cancel | None:
        """Starts an operation. Never raises for what a client sent. None: it was answered or cannot be given up.

        The answer rests on metadata that are at least as new as `metadata_index`, which the client has seen; otherwise
        it is REPLICA_BEHIND.

        A Subscribe that is accepted returns a Subscription; `done` is then called for every Pushed, and once more
        with an error if the subscription ends by itself.
        """

    def lost(self, members: Sequence[str]) -> None:
        """The connection of these members of queue groups is gone.

        A member that does not reconnect within `lost_ms` of its group loses its leases.
        """


class Subscription(Protocol):
    """An accepted Subscribe. Calling it cancels it, like any Cancel; messages that it has pushed stay leased."""

    def __call__(self) -> None: ...

    def end(self, ended: Callable[[], None]) -> None:
        """Takes no more messages, and calls `ended` when those that it took are pushed.

        Messages at most once are acknowledged before they are pushed: without their push they would be lost.
        """

    def add_credit(self, messages: int) -> None:
        """Allows this many more unsettled messages. Pushes are bounded by bytes as well, from one call to the next."""


class Elsewhere(Protocol):
    """A client of this node's own cluster: the right node answers."""

    def ask(self, request: Request, done: Done) -> None:
        """Retries until it is answered or its deadline has passed. `done` is called once, on the loop."""


class Consensus(Protocol):
    """The Raft groups that this node is a member of."""

    def replica(self, group: GroupId) -> Replica | None: ...

    def holds(self, group: GroupId) -> bool:
        """Whether the store has a log of this group, also when this node is not a member of it."""

    def storage_error(self) -> FlotillaError | None:
        """Why this node's disk takes no write at all; None: it does, if only what frees space."""

    def is_short_of_room(self, node: NodeId) -> bool:
        """Whether another node should not lead, because its disk has no room."""

    def stalled(self) -> Mapping[GroupId, str]:
        """Groups whose disk has not returned a read in time, with the file."""

    def is_confirmed(self, group: GroupId) -> bool:
        """False: this node was paused and may have been replaced as leader; it is asking a quorum."""

    def when_loaded(self, group: GroupId, loaded: Callable[[FlotillaError | None], None]) -> None:
        """Calls `loaded` once, when a part of the group's log was loaded or that failed; never before this returns.

        For a reader that got NotLoadedError.
        """

    def propose(
        self,
        group: GroupId,
        data: bytes | memoryview,
        reply: Callable[[object], None],
        *,
        frees_space: bool = False,
    ) -> bool:
        """False: refused, nothing was logged. `reply` is called either way, never before this returns.

        `frees_space`: a full disk does not refuse it.
        """

    def forward(self, group: GroupId, data: bytes) -> None:
        """Sends a proposal to the group's leader, without an answer. On the leader: use `propose`."""

    def read(self, group: GroupId, query: object, reply: Callable[[object], None]) -> None: ...

    def change_members(self, group: GroupId, change: ConfigurationChange, reply: Callable[[object], None]) -> None: ...

    def transfer(self, group: GroupId, to: NodeId, reason: int) -> None:
        """`reason` is one of raft.reasons. Raises NotLeaderError or InvalidArgumentError."""

    def preload(
        self, group: GroupId, machine: StateMachine, done: Callable[[StoredState | FlotillaError], None]
    ) -> bool:
        """Reads and decodes the state of a group that the store holds on another thread, for `host`.

        False: there is none. True: `done` is called once, on the loop, unless the node stops.
        """

    def host(
        self,
        group: GroupId,
        configuration: Configuration,
        machine: StateMachine,
        options: ReplicaOptions,
        state: StoredState | None = None,
    ) -> None:
        """Becomes a member of a group; its log is new unless the store holds it already."""

    def snapshot(self, group: GroupId) -> None:
        """Takes a snapshot now, whether one is due or not."""

    def campaign(self, group: GroupId) -> None:
        """Stands for election in a group that has no leader yet."""

    def fail(self, group: GroupId, failure: Exception) -> None:
        """Cuts off a group whose code raised: it is out of operation here until the node starts again."""

    def has_failed(self, group: GroupId) -> bool:
        """Whether the group is cut off."""

    def resign(self, group: GroupId, error: FlotillaError) -> None:
        """Ends this node's leadership of a group for an error, such as that of a file."""

    def drop(self, group: GroupId, reason: FlotillaError) -> None:
        """Leaves a group that the store holds and removes its data. Its pending requests are answered with `reason`."""


class Outside(Protocol):
    """Clocks, timers, links to other nodes, and the room on the disk."""

    @property
    def clock(self) -> ClusterClock:
        """For reports about it."""

    def now_ms(self) -> int:
        """Cluster time (`cluster_clock`): nothing reads the wall clock of this node alone."""

    @property
    def hold(self) -> BackupHold:
        """The hold of a backup."""

    @property
    def room(self) -> DiskRoom:
        """On the disk of this node."""

    def after_hold(self, action: Callable[[], None]) -> None:
        """Runs what a backup holds: now, or when its hold ends."""

    def is_time_set(self) -> bool:
        """False: the node has just started, and has not heard the clocks of a majority of the brokers yet."""

    def is_time_trusted(self) -> bool:
        """Whether this time may be stamped into logs, and messages deleted by age."""

    def steady_ms(self) -> int:
        """A monotonic clock."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> Cancel: ...

    def aside(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs `work` on another thread, after what it was given before, and then `done` on the loop.

        `work` must not raise.
        """

    def is_up(self, node: NodeId) -> bool: ...

    def is_unknown_to(self, node: NodeId) -> bool:
        """Whether a node refuses this one, because it knows none of this id or another data directory."""

    def versions_of(self, node: NodeId) -> VersionRange | None:
        """The cluster versions that a node supports; None: it is not up."""

    def election_timeouts(self) -> Mapping[NodeId, int]:
        """What other nodes have said of their election timeouts, in ms, also those that are cut off now."""

    def connect(self, node: NodeId, peer_address: str, incarnation: int = 0, starts: int = 0, process: int = 0) -> None:
        """Opens links to a node; a known one at the same address stays as it is. The address was parsed before.

        The node is accepted only with the data directory of that incarnation; 0: with any, unless one is known. Nor is
        it accepted in an earlier start of that directory than `starts`, or in another one of the same count.
        """

    def disconnect(self, node: NodeId) -> None:
        """The cluster has removed the node: closes its links, and tells it so whenever it dials."""
