"""What a front end needs of the service, and what the service needs of the node it runs on."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Configuration
from flotilla.replica.ports import StateMachine
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations import Reply, Request

#: Called exactly once for each request, at once or later, always on the loop. It must not raise.
Done: TypeAlias = Callable[[Reply | FlotillaError], None]
#: Gives up a request that is still waiting, such as a long poll whose client is gone. Harmless afterwards.
Cancel: TypeAlias = Callable[[], None]


class Service(Protocol):
    @property
    def node(self) -> NodeId: ...

    @property
    def cluster_id(self) -> str:
        """Empty while the node waits to become part of a cluster."""

    def now_ms(self) -> int:
        """The time of day here."""

    def handle(self, request: Request, done: Done) -> Cancel | None:
        """Starts an operation. Never raises for what a client sent. None: it was answered or cannot be given up.

        A Subscribe that is accepted returns a Subscription; `done` is then called for every Pushed, and once more
        with an error if the subscription ends by itself.
        """

    def lost(self, members: Sequence[str]) -> None:
        """The connection over which these members of queue groups came is gone.

        Who is not heard of again within a moment loses what it holds, before its leases run out.
        """


class Subscription(Protocol):
    """A Subscribe under way. Calling it ends it, like any Cancel; what it has pushed stays leased."""

    def __call__(self) -> None: ...

    def add_credit(self, messages: int) -> None:
        """So many more may be out. What waits to be pushed is bounded by bytes as well, from one call to the next."""


class Elsewhere(Protocol):
    """The whole cluster, as this node's own client: whoever is right answers."""

    def ask(self, request: Request, done: Done) -> None:
        """Tried again until it is answered or its deadline has passed. `done` is called once, on the loop."""


class Consensus(Protocol):
    """The groups that this node takes part in."""

    def replica(self, group: GroupId) -> Replica | None: ...

    def holds(self, group: GroupId) -> bool:
        """Whether the store has a log of this group, whether this node takes part in it or not."""

    def storage_error(self) -> FlotillaError | None:
        """Why this node's disk takes nothing at the moment; None when it does."""

    def is_confirmed(self, group: GroupId) -> bool:
        """False: this node slept for a while and may have been replaced as leader; a quorum is being asked."""

    def propose(self, group: GroupId, data: bytes | memoryview, reply: Callable[[object], None]) -> bool:
        """False: refused, nothing was logged. The answer comes by `reply` either way, never before this returns."""

    def forward(self, group: GroupId, data: bytes) -> None:
        """Proposes at the group's leader, without an answer. A leader itself proposes instead."""

    def read(self, group: GroupId, query: object, reply: Callable[[object], None]) -> None: ...

    def change_members(self, group: GroupId, change: ConfigurationChange, reply: Callable[[object], None]) -> None: ...

    def transfer(self, group: GroupId, to: NodeId) -> None:
        """Raises NotLeaderError or InvalidArgumentError."""

    def host(
        self, group: GroupId, configuration: Configuration, machine: StateMachine, options: ReplicaOptions
    ) -> None:
        """Takes part in a group from now on; its log is new unless the store holds it already."""

    def snapshot(self, group: GroupId) -> None:
        """Takes a snapshot now, whether one is due or not."""

    def campaign(self, group: GroupId) -> None:
        """Stands for election in a group that has no leader yet."""

    def drop(self, group: GroupId, reason: FlotillaError) -> None:
        """Leaves a group that the store holds and removes its data. Its pending requests are answered with `reason`."""


class Outside(Protocol):
    """Time, and who can be reached."""

    def now_ms(self) -> int:
        """The wall clock."""

    def steady_ms(self) -> int:
        """A clock that tells nothing but how much time has passed, and that nobody sets."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> Cancel: ...

    def is_up(self, node: NodeId) -> bool: ...

    def connect(self, node: NodeId, peer_address: str, incarnation: int = 0) -> None:
        """Opens links to a node; a known one at the same address stays as it is. The address was parsed before.

        The node is let in on the data directory of that number only; 0: on any, unless one is known.
        """

    def disconnect(self, node: NodeId) -> None:
        """Without effect for a node that is not connected."""
