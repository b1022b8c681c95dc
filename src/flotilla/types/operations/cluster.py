"""What can be asked about nodes that come and go and partitions that move, and what is answered."""

from dataclasses import dataclass, field

from flotilla.types.ids import NodeId
from flotilla.types.operations.log import Reply, Request

#: What a replica is to its group.
LEADER = "leader"
VOTER = "voter"
LEARNER = "learner"
#: Still a member by name: it came back without its disk, and counts for nothing until it has learned anew.
LOST = "lost"


@dataclass(slots=True)
class EnterCluster(Request):
    """Asked of a node that waits: to join the running cluster at these client addresses. It goes on by itself."""

    servers: list[str]


@dataclass(slots=True)
class DrainNode(Request):
    """A broker gives away what it holds and gets nothing new; or, without `is_draining`, is like any other again."""

    node: NodeId
    is_draining: bool = True


@dataclass(slots=True)
class Rebalance(Request):
    """Plans the fewest moves after which replicas and leaders are spread evenly, and begins them."""

    #: Those whose partitions are spread; all when none is named.
    topics: list[str] = field(default_factory=list)
    #: Only tells the plan.
    is_dry_run: bool = False


@dataclass(slots=True)
class CancelMoves(Request):
    """Partitions on the move go back to where they live, as far as they had not arrived."""

    topics: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PlannedMove:
    topic: str
    partition: int
    #: The preferred leader first, in both.
    replicas: list[NodeId]
    target: list[NodeId]


@dataclass(slots=True)
class MovesPlanned(Reply):
    moves: list[PlannedMove]


@dataclass(slots=True)
class DescribeReplicas(Request):
    """Asked of a partition's leader: who belongs to it, and how far each has come."""

    topic: str
    partition: int


@dataclass(slots=True)
class ReplicaInfo:
    node: NodeId
    role: str
    is_alive: bool
    #: Entries of the log that the leader does not know to be there.
    behind_entries: int
    #: The same in bytes, estimated.
    behind_bytes: int


@dataclass(slots=True)
class ReplicasDescribed(Reply):
    replicas: list[ReplicaInfo]
    #: Of the leader's log.
    size_bytes: int
