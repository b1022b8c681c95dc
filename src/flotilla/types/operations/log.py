"""What can be asked of a broker, and what it answers: one request and one reply value per operation.

Service, front ends and client all speak in these, so that a door is translation only. A request that fails is
answered with a FlotillaError in place of the reply. Batches are bytes in the batch format and are never
taken apart on the way.
"""

from dataclasses import dataclass, field

from flotilla.types.ids import NO_NODE, NodeId, Offset, Term

#: Positions for ListOffsets that are not times.
EARLIEST = -2
LATEST = -1


@dataclass(slots=True)
class Request:
    """The base of all requests."""


@dataclass(slots=True)
class Reply:
    """The base of all replies."""


@dataclass(slots=True)
class Produce(Request):
    """Appends one batch to one partition; answered when a majority has it on disk."""

    topic: str
    partition: int
    batch: bytes | bytearray | memoryview


@dataclass(slots=True)
class Produced(Reply):
    base_offset: Offset
    #: The batch had been stored before; base_offset is where.
    duplicate: bool = False
    #: Nothing was stored now: records with these idempotency keys are there already. Position in the batch and
    #: offset of each; the rest of the batch may be sent again without them, under the same sequence.
    known: list[tuple[int, Offset]] = field(default_factory=list)


@dataclass(slots=True)
class Fetch(Request):
    """Stored batches from the one that holds `offset` on. Waits up to wait_ms for the first byte (a long poll)."""

    topic: str
    partition: int
    offset: Offset
    max_bytes: int
    wait_ms: int = 0
    #: Any replica may answer, with what it knows to be committed. REPLICA_BEHIND: not this one, not now.
    is_any_replica: bool = False
    #: Sees everything that was acknowledged before it was asked for: the leader is asked first how far that is.
    is_linearizable: bool = False


@dataclass(slots=True)
class Fetched(Reply):
    """`batches` may begin before the offset asked for: the reader skips. Records below next_offset are committed."""

    batches: list[bytes | memoryview]
    log_start: Offset
    next_offset: Offset


@dataclass(slots=True)
class ListOffsets(Request):
    """The offset of the first record at or after a time, or EARLIEST, or LATEST (the next to be written)."""

    topic: str
    partition: int
    timestamp_ms: int


@dataclass(slots=True)
class OffsetFound(Reply):
    """-1: no record is that young."""

    offset: Offset


@dataclass(slots=True)
class CommitOffset(Request):
    """A group's position: the next offset it will read. It never moves back without `reset`."""

    group: str
    topic: str
    partition: int
    offset: Offset
    reset: bool = False
    #: Of a stream group's member: the epoch under which it owns the partition. 0: nobody's.
    epoch: int = 0


@dataclass(slots=True)
class OffsetCommitted(Reply):
    """Where the group stands now; ahead of the request if it stood there already."""

    offset: Offset


@dataclass(slots=True)
class ReadOffset(Request):
    group: str
    topic: str
    partition: int


@dataclass(slots=True)
class BrokerInfo:
    node: NodeId
    #: host:port of the doors; empty when that door is closed.
    client: str
    http: str = ""
    is_alive: bool = True
    #: active; draining, while it gives away what it holds; or leaving, when it goes for good after that.
    state: str = "active"
    #: host:port, like the others.
    grpc: str = ""


@dataclass(slots=True)
class PartitionInfo:
    number: int
    #: NO_NODE while nobody is known to lead.
    leader: NodeId
    replicas: list[NodeId]
    #: In which the leader leads; 0: the broker has no replica and only supposes.
    term: Term = 0
    #: Where the partition is on its way to; empty while it stays.
    target: list[NodeId] = field(default_factory=list)


@dataclass(slots=True)
class TopicInfo:
    name: str
    topic_id: int
    partitions: list[PartitionInfo]
    settings: dict[str, str]


@dataclass(slots=True)
class GetMetadata(Request):
    """All topics when none is named. A topic that does not exist is left out of the answer.

    With `create`, a topic that is missing is answered with UNAVAILABLE while it comes to be, and with NOT_FOUND where
    the cluster does not allow that.
    """

    topics: list[str] = field(default_factory=list)
    create: bool = False


@dataclass(slots=True)
class Metadata(Reply):
    cluster_id: str
    #: The node that leads the metadata group.
    controller: NodeId
    brokers: list[BrokerInfo]
    topics: list[TopicInfo]


@dataclass(slots=True)
class CreateTopic(Request):
    topic: str
    #: 0: the default of the cluster.
    partitions: int = 0
    replication_factor: int = 0
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class AlterTopic(Request):
    topic: str
    #: 0: leave as it is. Partitions can only grow.
    partitions: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    #: 0: leave as it is.
    replication_factor: int = 0


@dataclass(slots=True)
class DeleteTopic(Request):
    topic: str


@dataclass(slots=True)
class TopicReply(Reply):
    """The topic as it is after a change (as it was, for a deletion)."""

    topic: TopicInfo


@dataclass(slots=True)
class InitCluster(Request):
    """Forms a cluster out of waiting nodes: id to peer address. Repeating it with the same nodes is fine."""

    nodes: dict[NodeId, str]


@dataclass(slots=True)
class JoinCluster(Request):
    """A node asks to become a broker of a running cluster."""

    node: NodeId
    peer: str
    client: str
    http: str = ""
    #: The number of its data directory; 0: it has none.
    incarnation: int = 0


@dataclass(slots=True)
class RemoveNode(Request):
    """A broker leaves for good. One that holds something gives it away first, and is gone later."""

    node: NodeId


@dataclass(slots=True)
class ClusterReply(Reply):
    cluster_id: str
    #: Peer addresses of the members of the metadata group and of all brokers.
    peers: dict[NodeId, str]


@dataclass(slots=True)
class TransferLeadership(Request):
    topic: str
    partition: int
    to: NodeId = NO_NODE


@dataclass(slots=True)
class Done(Reply):
    """Nothing to tell but that it happened."""


@dataclass(slots=True)
class Hello:
    """The first word on a TCP connection: the protocol versions that the client speaks. Not a matter of the service."""

    version_min: int
    version_max: int
    #: Name and version of the client library, for people.
    client: str = ""
    #: Speaks for others, who live elsewhere: that the connection ends does not mean that they are gone.
    is_gateway: bool = False


@dataclass(slots=True)
class Welcome:
    """The answer to Hello: the version both will speak, who answered, and what this connection may carry."""

    version: int
    node: NodeId
    cluster_id: str
    frame_bytes_max: int
    #: How many requests may be in flight.
    requests_max: int
    #: The broker's time of day; 0: it does not say.
    time_ms: int = 0
