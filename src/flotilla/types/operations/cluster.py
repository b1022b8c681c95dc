"""Operations on the cluster: its metadata, its nodes, and where partitions and their leaders are."""

from collections.abc import Sequence
from dataclasses import field, replace
from heapq import nsmallest
from typing import Final, Protocol, Self, TypeVar

from flotilla.types.access import ALL, ANYBODY, DESCRIBE, EVERYTHING, FOUND, MANAGE, NODES, OPERATE, Resource
from flotilla.types.ids import NO_NODE, Index, NodeId
from flotilla.types.operations.request import (
    ANY,
    CONTROLLER,
    ONCE,
    PARTITION_LEADER,
    READ,
    REPEATABLE,
    Done,
    May,
    Reply,
    Request,
)
from flotilla.types.operations.topics import TopicInfo
from flotilla.types.slotted import slotted
from flotilla.types.version import CLUSTER_VERSION_MAX, CLUSTER_VERSION_MIN

#: Roles of a replica in its group.
LEADER: Final = "leader"
VOTER: Final = "voter"
LEARNER: Final = "learner"
#: A member by name only: it came back without its disk and has no vote until it has caught up anew.
LOST: Final = "lost"


@slotted
class BrokerInfo:
    node: NodeId
    #: host:port of each endpoint; empty when that endpoint is closed.
    client: str
    http: str = ""
    is_alive: bool = True
    #: active; draining, while it gives its replicas away; or leaving, when it is removed after that.
    state: str = "active"
    #: host:port, like the others.
    grpc: str = ""
    #: Of its program, as it registered.
    version: str = ""
    #: The cluster versions that it supports; 0: the node that answers is not connected to it.
    cluster_version_min: int = 0
    cluster_version_max: int = 0
    #: Its labels; empty: it has none.
    machine: str = ""
    zone: str = ""


@slotted
class Metadata(Reply):
    #: Drawn when the cluster was founded; empty: this node knows none yet.
    cluster_id: str
    #: The node that leads the metadata group.
    controller: NodeId
    brokers: list[BrokerInfo]
    topics: list[TopicInfo]
    #: As the setting of its nodes says it.
    cluster_name: str = ""
    #: No quorum of the metadata confirmed it in time: recent changes may be missing.
    is_stale: bool = False
    #: The newest entry of the metadata that it shows.
    index: Index = 0
    #: What all nodes can read; 0: the node that answers does not say.
    cluster_version: int = 0
    #: Topics that match, on all pages.
    total: int = 0


#: A linearizable read of metadata is answered as stale after this time: longer than an election after a frozen leader.
METADATA_CONFIRM_MS_MAX: Final = 3_000


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


@slotted
class GetMetadata(Request[Metadata], to=ANY, effect=READ, needs=ANYBODY):
    """All topics when none is named. A topic that does not exist is left out of the reply.

    With `create`, a missing topic is answered with UNAVAILABLE while it is being created, and with NOT_FOUND where
    the cluster does not allow that. With `is_linearizable`, the reply shows every change that was acknowledged to any
    client before; without a quorum of the metadata it is marked as stale. A page of all topics, in the order of names:
    those with `search` in their name, after the name `after`, at most `limit`.
    """

    topics: list[str] = field(default_factory=list)
    create: bool = False
    is_linearizable: bool = False
    search: str = ""
    after: str = ""
    #: 0: all of them.
    limit: int = 0
    #: Who creates topics, as in CreateTopic.
    owner: str = ""

    @property
    def wait_ms(self) -> int:
        """How long the answer may take: a quorum is asked first."""
        return METADATA_CONFIRM_MS_MAX if self.is_linearizable else 0

    def narrowed(self, may: May) -> Self:
        """Without topics that the caller may not describe. Whoever creates topics manages them.

        A page of the topics that the caller may describe is cut out of all that match.
        """
        if not self.topics:
            return self if may(DESCRIBE, Resource(ALL)) else replace(self, after="", limit=0)
        shown = [name for name in self.topics if may(DESCRIBE, Resource(name))]
        creates = self.create and all(may(MANAGE, Resource(name)) for name in self.topics)
        # No topic has an empty name: it stands for none of them.
        return replace(self, topics=self.topics if creates else shown or [""], create=creates)

    def visible(self, reply: Metadata, may: May) -> Metadata:
        if may(DESCRIBE, Resource(ALL)):
            return reply
        shown = [topic for topic in reply.topics if may(DESCRIBE, Resource(topic.name))]
        page, total = self.page_of(shown)
        return replace(reply, topics=page, total=total)

    def page_of(self, topics: list[T]) -> tuple[list[T], int]:
        """The topics of the page, and how many match on all pages. Without a page: all, in their own order."""
        if not (self.search or self.after or self.limit):
            return topics, len(topics)
        found = [topic for topic in topics if self.search in topic.name]
        later = [topic for topic in found if topic.name > self.after]
        return nsmallest(self.limit or len(later), later, key=lambda topic: topic.name), len(found)


@slotted
class ClusterReply(Reply):
    #: Drawn when the cluster was founded; empty: this node knows none yet.
    cluster_id: str
    #: Peer addresses of the members of the metadata group and of all brokers.
    peers: dict[NodeId, str]
    cluster_name: str = ""


@slotted
class InitCluster(Request[ClusterReply], to=ANY, effect=REPEATABLE, needs=FOUND):
    """Forms a cluster out of waiting nodes: id to peer address. Repeating it with the same nodes is fine."""

    nodes: dict[NodeId, str]


@slotted
class JoinCluster(Request[ClusterReply], to=CONTROLLER, effect=REPEATABLE, needs=NODES):
    """A node becomes a broker of a running cluster."""

    node: NodeId
    peer: str
    client: str
    http: str = ""
    #: The number of its data directory; 0: it has none.
    incarnation: int = 0
    #: A one-time token, where the cluster asks for it.
    token: bytes = b""
    #: The cluster versions that it supports; 0, from an earlier program: the first only.
    version_min: int = CLUSTER_VERSION_MIN
    version_max: int = CLUSTER_VERSION_MAX
    #: Its labels; empty: it has none.
    machine: str = ""
    zone: str = ""


@slotted
class ClusterUpgraded(Reply):
    #: The version of the cluster, and the one that it had.
    version: int
    before: int


@slotted
class UpgradeCluster(Request[ClusterUpgraded], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Raises the cluster version, which never goes down: nodes cannot go back to an earlier program after that."""

    #: 0: the highest that all nodes support.
    version: int = 0
    #: Changes nothing, and answers the same.
    is_dry_run: bool = False


@slotted
class CreateJoinToken(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """A token by which one node may join, of which only the digest is told. It is good for `ttl_ms`."""

    #: SHA-256 of the token.
    digest: bytes
    ttl_ms: int


@slotted
class EnterCluster(Request[ClusterReply], to=ANY, effect=REPEATABLE, needs=FOUND):
    """Sent to a waiting node: it joins the running cluster at these client addresses, in the background."""

    servers: list[str]
    #: A one-time token, where that cluster asks for it.
    token: bytes = b""


@slotted
class RemoveNode(Request[ClusterReply], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """A broker leaves for good. One that still has replicas gives them away first and leaves later."""

    node: NodeId


@slotted
class DrainNode(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """A broker gives its replicas away and gets no new ones; without `is_draining` that ends."""

    node: NodeId
    is_draining: bool = True


@slotted
class PlannedMove:
    topic: str
    partition: int
    #: The preferred leader first, in both.
    replicas: list[NodeId]
    target: list[NodeId]


@slotted
class MovesPlanned(Reply):
    moves: list[PlannedMove]


#: Moves that an answer shows; it counts all of them.
MOVES_SHOWN_MAX: Final = 100


@slotted
class PartitionCounts(Reply):
    topics: int = 0
    partitions: int = 0
    #: Partitions of which the node that answers knows no leader.
    without_leader: int = 0
    #: By node: the partitions that it leads, and its replicas.
    leads: dict[NodeId, int] = field(default_factory=dict)
    replicas: dict[NodeId, int] = field(default_factory=dict)
    #: Partitions on their way to other nodes, and the first of them.
    moving: int = 0
    moves: list[PlannedMove] = field(default_factory=list)

    def add(
        self, topic: str, number: int, leader: NodeId, replicas: Sequence[NodeId], target: Sequence[NodeId]
    ) -> None:
        """Counts a partition; one without a target stays where it is."""
        self.partitions += 1
        if leader == NO_NODE:
            self.without_leader += 1
        else:
            self.leads[leader] = self.leads.get(leader, 0) + 1
        for node in replicas:
            self.replicas[node] = self.replicas.get(node, 0) + 1
        if target:
            self.moving += 1
            if self.moving <= MOVES_SHOWN_MAX:
                self.moves.append(PlannedMove(topic, number, list(replicas), list(target)))


@slotted
class CountPartitions(Request[PartitionCounts], to=ANY, effect=READ, needs=DESCRIBE):
    """Sums over all partitions that the node that answers knows of, however many there are."""

    @property
    def resources(self) -> Sequence[Resource]:
        return (EVERYTHING,)


@slotted
class Rebalance(Request[MovesPlanned], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Plans the fewest moves that spread replicas and leaders evenly, and begins them.

    Replicas of a partition that share a machine or a zone, although there are enough, are separated first.
    """

    #: The topics to spread; empty: all.
    topics: list[str] = field(default_factory=list)
    #: Plans only.
    is_dry_run: bool = False


@slotted
class CancelMoves(Request[MovesPlanned], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Moving partitions return to their present replicas, unless they have arrived."""

    topics: list[str] = field(default_factory=list)


@slotted
class ReplicaInfo:
    node: NodeId
    role: str
    is_alive: bool
    #: Entries of the log that the leader does not know to be there.
    behind_entries: int
    #: The same in bytes, estimated.
    behind_bytes: int


@slotted
class ReplicasDescribed(Reply):
    replicas: list[ReplicaInfo]
    #: Of the leader's log.
    size_bytes: int


@slotted
class DescribeReplicas(
    Request[ReplicasDescribed], to=PARTITION_LEADER, effect=READ, retries_not_found=True, needs=DESCRIBE
):
    """The replicas of a partition and how far each has come, as its leader sees them."""

    topic: str
    partition: int


#: Codes of warnings. A partition has fewer replicas than its topic asks for.
UNDER_REPLICATED: Final = "UNDER_REPLICATED"
#: Replicas of a partition share a machine or a zone: although there are enough, or because there are not.
REPLICAS_TOGETHER: Final = "REPLICAS_TOGETHER"
LABELS_TOO_FEW: Final = "LABELS_TOO_FEW"
#: All nodes are on one machine, or in one zone: no replica can be elsewhere.
ONE_PLACE: Final = "ONE_PLACE"
#: The node of a replica cannot be reached; the replica lacks entries; it lost entries that it had acknowledged.
REPLICA_DOWN: Final = "REPLICA_DOWN"
REPLICA_BEHIND: Final = "REPLICA_BEHIND"
REPLICA_FORGETFUL: Final = "REPLICA_FORGETFUL"
#: The disk of a node does not return a read.
DISK_STALLED: Final = "DISK_STALLED"
#: The disk of a node has less room than one of its watermarks; below the second it refuses new messages.
DISK_LOW: Final = "DISK_LOW"
DISK_REFUSES: Final = "DISK_REFUSES"
#: The wall clock of a node is wrong; no majority of wall clocks agrees; retention follows a step of time gradually.
CLOCK_OFF: Final = "CLOCK_OFF"
CLOCKS_DISAGREE: Final = "CLOCKS_DISAGREE"
RETENTION_BEHIND: Final = "RETENTION_BEHIND"
#: Nodes have different election timeouts.
TIMING_DIFFERS: Final = "TIMING_DIFFERS"
#: A group keeps messages that are beyond the retention of their topic.
RETENTION_HELD: Final = "RETENTION_HELD"
#: All nodes support a later cluster version.
UPGRADE_POSSIBLE: Final = "UPGRADE_POSSIBLE"
#: Other machines can connect to a node, and nothing asks who they are.
INSECURE: Final = "INSECURE"
#: Warnings that ask for nothing: they describe the cluster.
INFORMATION: Final = (ONE_PLACE, UPGRADE_POSSIBLE)


@slotted
class NodeWarning:
    """A trouble that does not stop a node from serving: a word for programs and a sentence for people."""

    code: str
    message: str
    #: The node that has the trouble; NO_NODE: no particular one.
    node: NodeId = NO_NODE
    #: The first ones, as topic/number.
    partitions: list[str] = field(default_factory=list)


@slotted
class NodeDescribed(Reply):
    node: NodeId
    warnings: list[NodeWarning]
    version: str = ""
    uptime_ms: int = 0
    #: Of the file system with its data; 0: not known.
    disk_free_bytes: int = 0
    disk_total_bytes: int = 0


@slotted
class DescribeNode(Request[NodeDescribed], to=ANY, effect=READ, needs=OPERATE):
    """The node that answers: what it warns of, above all in partitions that it leads."""


#: Where clients connect.
ENDPOINTS: Final = ("tcp", "http", "grpc")
#: Clients that one answer lists.
CLIENTS_SHOWN_MAX: Final = 1_000


@slotted
class ConnectedClient:
    #: tcp, http or grpc.
    endpoint: str
    #: What it calls itself: the name of a client, or its `User-Agent`.
    name: str
    address: str
    #: Empty without authentication.
    principal: str
    #: For so long; over gRPC since the first of its calls in flight began.
    connected_ms: int
    #: Its requests that are not answered.
    in_flight: int


@slotted
class ClientList(Reply):
    node: NodeId
    clients: list[ConnectedClient]
    #: With those that were left out.
    total: int


@slotted
class ListClients(Request[ClientList], to=ANY, effect=READ, needs=OPERATE):
    """The clients connected to the node that answers; of gRPC clients those with a call in flight."""

    limit: int = CLIENTS_SHOWN_MAX


@slotted
class RateSeries:
    name: str
    #: One for each step, the oldest first: how often in that step, or how many at its end.
    values: list[int]


@slotted
class HistoryRead(Reply):
    node: NodeId
    #: The length of a step, and the end of the newest one.
    step_ms: int
    end_ms: int
    series: list[RateSeries]


@slotted
class ReadHistory(Request[HistoryRead], to=ANY, effect=READ, needs=DESCRIBE):
    """What the node that answers has counted in the last hour (`broker/observability/rate_history.py`)."""

    @property
    def resources(self) -> Sequence[Resource]:
        return (EVERYTHING,)


@slotted
class TransferLeadership(Request[Done], to=PARTITION_LEADER, effect=ONCE, needs=OPERATE):
    """Another replica becomes the leader of a partition: `to`, or any."""

    topic: str
    partition: int
    to: NodeId = NO_NODE
