"""The broker: one method per operation, neutral to transport.

A request is checked, found its partition or the metadata group, and answered exactly once: by a reply or by a
typed error. What this node cannot do because another one leads is refused with that one's client address.
"""

from collections.abc import Callable
from typing import Any

from flotilla.metadata import commands
from flotilla.metadata.values import Topic
from flotilla.raft.roles import LEADER
from flotilla.service.catalog import METADATA_GROUP, Catalog
from flotilla.service.membership import Membership
from flotilla.service.partition import PartitionHost
from flotilla.service.ports import Cancel, Consensus, Done, Outside
from flotilla.types.errors import (
    AlreadyExistsError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.operations import (
    AlterTopic,
    ClusterReply,
    CommitOffset,
    CreateTopic,
    DeleteTopic,
    Fetch,
    GetMetadata,
    InitCluster,
    JoinCluster,
    ListOffsets,
    Produce,
    ReadOffset,
    RemoveNode,
    Reply,
    Request,
    TopicReply,
    TransferLeadership,
)
from flotilla.types.operations import Done as DoneReply
from flotilla.types.settings import NodeSettings
from flotilla.types.topics import check_settings, read_settings


class Broker:
    """Implements service.ports.Service."""

    def __init__(
        self,
        settings: NodeSettings,
        catalog: Catalog,
        membership: Membership,
        consensus: Consensus,
        outside: Outside,
        found: Callable[[dict[NodeId, str]], None],
    ) -> None:
        """`found` makes this node a founder of a cluster with the given others."""
        self._found = found
        self.catalog = catalog
        self.membership = membership
        self._settings = settings
        self._consensus = consensus
        self._outside = outside
        self._is_closing = False
        self._handlers: dict[type[Request], Callable[[Any, Done], Cancel | None]] = {
            Produce: self._produce,
            Fetch: self._fetch,
            ListOffsets: self._list_offsets,
            CommitOffset: self._commit_offset,
            ReadOffset: self._read_offset,
            GetMetadata: self._get_metadata,
            CreateTopic: self._create_topic,
            AlterTopic: self._alter_topic,
            DeleteTopic: self._delete_topic,
            InitCluster: self._init_cluster,
            JoinCluster: self._join,
            RemoveNode: self._remove_node,
            TransferLeadership: self._transfer,
        }

    @property
    def node(self) -> NodeId:
        return self._settings.node_id

    @property
    def cluster_id(self) -> str:
        return self.catalog.cluster_id

    def close(self) -> None:
        """Takes no more requests: the node is about to stop."""
        self._is_closing = True

    def handle(self, request: Request, done: Done) -> Cancel | None:
        handler = self._handlers.get(type(request))
        if handler is None:
            done(InvalidArgumentError(f"{type(request).__name__} is not offered here"))
            return None
        if self._is_closing:
            done(UnavailableError("the node is stopping"))
            return None
        try:
            return handler(request, self._with_address(done))
        except NotLeaderError as error:
            done(self.catalog.not_leader(error.leader))
        except FlotillaError as error:
            done(error)
        return None

    def _with_address(self, done: Done) -> Done:
        def answer(result: Reply | FlotillaError) -> None:
            if isinstance(result, NotLeaderError) and not result.address:
                result = self.catalog.not_leader(result.leader)
            done(result)

        return answer

    # Partitions.

    def _host(self, topic_name: str, number: int) -> PartitionHost:
        topic = self.catalog.topic(topic_name)
        if not 0 <= number < len(topic.partitions):
            raise NotFoundError(f"topic {topic_name!r} has {len(topic.partitions)} partitions, none of number {number}")
        partition = topic.partitions[number]
        host = self.membership.hosts.get(partition.group)
        if host is not None:
            return host
        if self.node in partition.replicas:
            raise UnavailableError("this node is about to host the partition")
        raise NotLeaderError(partition.replicas[0])

    def _produce(self, request: Produce, done: Done) -> None:
        self._host(request.topic, request.partition).produce(request, done)

    def _fetch(self, request: Fetch, done: Done) -> Cancel | None:
        return self._host(request.topic, request.partition).fetch(request, done)

    def _list_offsets(self, request: ListOffsets, done: Done) -> None:
        self._host(request.topic, request.partition).list_offsets(request, done)

    def _commit_offset(self, request: CommitOffset, done: Done) -> None:
        self._host(request.topic, request.partition).commit_offset(request, done)

    def _read_offset(self, request: ReadOffset, done: Done) -> None:
        self._host(request.topic, request.partition).read_offset(request, done)

    def _transfer(self, request: TransferLeadership, done: Done) -> None:
        topic = self.catalog.topic(request.topic)
        host = self._host(request.topic, request.partition)
        to = request.to
        if to == NO_NODE:
            replicas = topic.partitions[request.partition].replicas
            others = [node for node in replicas if node != self.node and self._outside.is_up(node)]
            if not others:
                raise UnavailableError("no other replica can be reached")
            to = others[0]
        self._consensus.transfer(host.group, to)
        done(DoneReply())

    # Metadata.

    def _get_metadata(self, request: GetMetadata, done: Done) -> None:
        if request.create and self._settings.auto_create_topics:
            for name in request.topics:
                if self.catalog.find_topic(name) is None:
                    self._create_on_demand(name)
        done(self.catalog.describe(request.topics))

    def _create_on_demand(self, name: str) -> None:
        """Asks the metadata's leader, wherever it is; the client sees the topic when it asks again."""
        command = self._creation(CreateTopic(name))
        refused = self.catalog.machine.check(command)
        if refused is not None:
            raise refused
        self._consensus.forward(METADATA_GROUP, commands.encode_command(command))

    def _creation(self, request: CreateTopic) -> commands.CreateTopic:
        settings = self._settings
        return commands.CreateTopic(
            name=request.topic,
            partitions=request.partitions or settings.default_partitions,
            replication_factor=request.replication_factor or settings.default_replication_factor,
            settings=check_settings(read_settings(request.settings)),
            now_ms=self._outside.now_ms(),
        )

    def _create_topic(self, request: CreateTopic, done: Done) -> None:
        self._propose_for_topic(self._creation(request), done)

    def _alter_topic(self, request: AlterTopic, done: Done) -> None:
        command = commands.AlterTopic(
            name=request.topic,
            settings=check_settings(read_settings({key: text for key, text in request.settings.items() if text})),
            reset=tuple(name for name, value in request.settings.items() if not value),
            partitions=request.partitions,
            now_ms=self._outside.now_ms(),
        )
        self._propose_for_topic(command, done)

    def _delete_topic(self, request: DeleteTopic, done: Done) -> None:
        topic = self.catalog.topic(request.topic)
        command = commands.DeleteTopic(name=topic.name, topic_id=topic.topic_id, now_ms=self._outside.now_ms())
        self._propose_for_topic(command, done)

    def _propose_for_topic(self, command: commands.Command, done: Done) -> None:
        def answered(result: object) -> None:
            done(TopicReply(self.catalog.describe_topic(result)) if isinstance(result, Topic) else _failure(result))

        self._propose(command, answered)

    def _propose(self, command: commands.Command, answered: Callable[[object], None]) -> None:
        """Validates first: a command that makes no sense never reaches the log."""
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            raise UnavailableError("the node is not part of a cluster yet")
        if replica.raft.role != LEADER:
            raise NotLeaderError(replica.raft.leader)
        if not replica.is_serving():
            raise UnavailableError("the new leader has not applied its log yet")
        refused = self.catalog.machine.check(command)
        if refused is not None:
            raise refused
        self._consensus.propose(METADATA_GROUP, commands.encode_command(command), answered)

    # The cluster.

    def _init_cluster(self, request: InitCluster, done: Done) -> None:
        """Without nodes: only tells who this node is. Repeating it with the same nodes changes nothing."""
        own = str(self._settings.peer_advertised)
        replica = self._consensus.replica(METADATA_GROUP)
        if request.nodes:
            if request.nodes.get(self.node) is None:
                raise InvalidArgumentError(f"node {self.node} is not among the nodes of the new cluster")
            founders = tuple(sorted(request.nodes))
            if replica is None:
                self._found({node: peer for node, peer in request.nodes.items() if node != self.node})
            elif replica.raft.configuration.voters != founders:
                raise AlreadyExistsError(
                    f"node {self.node} is part of a cluster of {replica.raft.configuration.voters}"
                )
        done(ClusterReply(self.cluster_id, {self.node: own}))

    def _join(self, request: JoinCluster, done: Done) -> None:
        self._require_metadata_leader()
        self.membership.admit(request, done)

    def _remove_node(self, request: RemoveNode, done: Done) -> None:
        self._require_metadata_leader()
        self.membership.remove(request.node, done)

    def _require_metadata_leader(self) -> None:
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            raise UnavailableError("the node is not part of a cluster yet")
        if replica.raft.role != LEADER:
            raise NotLeaderError(replica.raft.leader)


def _failure(result: object) -> FlotillaError:
    assert isinstance(result, FlotillaError), f"unexpected answer {result!r}"
    return result
