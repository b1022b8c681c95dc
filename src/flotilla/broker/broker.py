"""The broker: one method per operation, neutral to transport.

A method is found by the operation's name (`create_topic` handles CreateTopic), in the parts of the broker, in the
partition that the request names, or in that partition's queue groups. It answers exactly once, now or later, by a reply
or a typed error, or raises before it has done either. A request that only another node can answer is refused with the
client address of that node.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from flotilla.broker.addresses import check_address
from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.clock_warnings import clock_warnings
from flotilla.broker.cluster.log_copies import LogCopies
from flotilla.broker.cluster.registration import Membership
from flotilla.broker.cluster.topics import Topics
from flotilla.broker.cluster.transaction_decisions import TransactionDecisions
from flotilla.broker.cluster.upgrades import ClusterUpgrades
from flotilla.broker.disk.stalled_reads import disk_warnings
from flotilla.broker.exposure_warnings import exposure_warnings
from flotilla.broker.group_names import GroupNames
from flotilla.broker.log_loads import LogLoads
from flotilla.broker.metadata_reads import MetadataReads, WaitingRequest
from flotilla.broker.observability.pipelines import Pipelines
from flotilla.broker.observability.rate_history import RateHistory
from flotilla.broker.partition.host import PartitionHost
from flotilla.broker.ports import Cancel, Consensus, Done, Outside
from flotilla.broker.queue.requests import QueueRequests
from flotilla.broker.replica_warnings import ReplicaWarnings
from flotilla.broker.replicas import describe_replicas
from flotilla.broker.retention_holds import hold_warnings
from flotilla.broker.security.requests import Users
from flotilla.raft import reasons
from flotilla.types.errors import (
    AlreadyExistsError,
    FlotillaError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    NotLeaderError,
    NotLoadedError,
    ReplicaBehindError,
    TopicReplacedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, Index, NodeId
from flotilla.types.operations import (
    OPERATIONS,
    ClusterReply,
    CommitOffset,
    DescribeReplicas,
    EnterCluster,
    Extend,
    GetMetadata,
    InitCluster,
    Produce,
    Request,
    Settle,
    Settled,
    TransferLeadership,
)
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations.cluster import ClientList, DescribeNode, ListClients, NodeDescribed, ReadHistory
from flotilla.types.operations.transactions import CommitTransaction, Stage, StageSettlement
from flotilla.types.setting_kinds import NODE_ID_MAX
from flotilla.types.settings import NodeSettings
from flotilla.types.topics import BROKER_COUNT_MAX
from flotilla.types.version import __version__

#: What waits while a backup takes its points (`backup_hold.py`).
_HELD = (Settle, CommitOffset, CommitTransaction)

Handler: TypeAlias = Callable[[Any, Done], Cancel | None]


class Broker:
    """Implements broker.ports.Service."""

    def __init__(
        self,
        settings: NodeSettings,
        catalog: Catalog,
        membership: Membership,
        consensus: Consensus,
        outside: Outside,
        found: Callable[[dict[NodeId, str]], None],
        enter: Callable[[list[str], bytes], None],
    ) -> None:
        """`found` founds a cluster of this node and the given others; `enter` joins a running one."""
        self.catalog = catalog
        self.membership = membership
        self._settings = settings
        self._consensus = consensus
        self._outside = outside
        self._found = found
        self._enter = enter
        self._names = GroupNames(catalog)
        self._warnings = ReplicaWarnings(catalog, self._names, outside.is_up)
        self._started_ms = outside.steady_ms()
        #: The last hour; whoever runs the broker has it look. None: nobody does.
        self.history: RateHistory | None = None
        #: Who is connected to the endpoints of this node; they set it.
        self.connected_clients: Callable[[ListClients], ClientList] | None = None
        self._closed: FlotillaError | None = None
        self._loads = LogLoads(consensus, outside)
        self._metadata_reads = MetadataReads(catalog.machine, consensus, outside)
        self.pipelines = Pipelines(catalog, outside)
        self.users = Users(catalog, consensus, outside)
        self._topics = Topics(settings, catalog, outside, self._metadata_reads, membership.founders)
        self._upgrades = ClusterUpgrades(catalog, outside)
        parts = (
            self,
            self._upgrades,
            self._topics,
            TransactionDecisions(catalog, outside),
            membership.members,
            membership.plans,
            membership.queue_polls,
            membership.streams,
            membership.schedules,
            self.users,
            LogCopies(self.node, catalog, consensus, outside, lambda *place: self._host(*place).serving_replica()),
            self.pipelines,
        )
        self._handlers: dict[type[Request], Handler] = {
            kind: self._of_topic(kind, self._handler(name, parts))
            for name, kind in OPERATIONS.items()
            if not kind.is_for_endpoint
        }

    @property
    def node(self) -> NodeId:
        return self._settings.node_id

    @property
    def cluster_id(self) -> str:
        return self.catalog.cluster_id

    @property
    def metadata_index(self) -> Index:
        return self.catalog.machine.topics_index

    def now_ms(self) -> int:
        now_ms = self._outside.now_ms()
        return now_ms if self._outside.clock.is_set else 0

    def close(self) -> None:
        """The node is about to stop: refuses new requests and ends the waiting ones."""
        self._closed = UnavailableError("the node is stopping")
        self.membership.close(self._closed)
        # Requests that a backup holds are refused like new ones.
        self._outside.hold.release()

    def handle(self, request: Request, done: Done, metadata_index: Index = 0) -> Cancel | None:
        if metadata_index > self.membership.reconciled_index:
            return self._handle_later(request, done, metadata_index)
        if self._outside.hold.is_on and isinstance(request, _HELD):
            return self._handle_after_hold(request, done)
        handler = self._handlers.get(type(request))
        try:
            if self._closed is not None:
                raise self._closed
            if handler is None:
                raise InvalidArgumentError(f"this broker does not offer {type(request).__name__}")
            return handler(request, done)
        except NotLoadedError as missing:
            assert handler is not None
            return self._wait(missing, handler, request, done)
        except FlotillaError as error:
            done(self.catalog.explain(error))
            return None

    def _wait(self, missing: NotLoadedError, handler: Handler, request: Request, done: Done) -> Cancel:
        """Starts the operation again when the part of the log that it needs was loaded."""
        waiting = WaitingRequest()

        def attempt() -> Cancel | None:
            if self._closed is not None:
                raise self._closed
            cancel = handler(request, done)
            waiting.started(cancel)
            return cancel

        waiting.waits(self._loads.wait(missing, attempt, lambda error: done(self.catalog.explain(error))))
        return waiting

    def _handle_later(self, request: Request, done: Done, metadata_index: Index) -> Cancel:
        """Handles a request when this node knows what its client has seen.

        Metadata are described in any case, as stale: a client must find leaders also while the metadata have none.
        """
        waiting = WaitingRequest()

        def reached(error: FlotillaError | None) -> None:
            if error is None:
                waiting.started(self.handle(request, done))
                return
            try:
                if not (isinstance(request, GetMetadata) and isinstance(error, ReplicaBehindError)):
                    raise error
                self._topics.describe(request, done, is_stale=True)
            except FlotillaError as refused:
                done(self.catalog.explain(refused))

        waiting.waits(self._metadata_reads.reach(metadata_index, reached))
        return waiting

    def _handle_after_hold(self, request: Request, done: Done) -> Cancel:
        waiting = WaitingRequest()
        self._outside.after_hold(lambda: waiting.started(self.handle(request, done)))
        return waiting

    def lost(self, members: Sequence[str]) -> None:
        self.membership.queue_polls.lost(members)

    def _handler(self, name: str, parts: Iterable[object]) -> Handler:
        """The method that is named like the operation: of a part of the broker, a partition, or its queue groups."""
        for part in parts:
            handler: Handler | None = getattr(part, name, None)
            if handler is not None:
                return handler
        of_partition: Callable[[PartitionHost, Any, Done], Cancel | None] | None = getattr(PartitionHost, name, None)
        if of_partition is not None:
            return lambda request, done: of_partition(self._host(request.topic, request.partition), request, done)
        of_queues: Callable[[QueueRequests, Any, Done], Cancel | None] = getattr(QueueRequests, name)
        return lambda request, done: of_queues(self._queue_requests(request), request, done)

    def _of_topic(self, kind: type[Request], handler: Handler) -> Handler:
        """The handler of an operation; if its requests say which topic they mean, it refuses them for any other."""
        if "topic_id" not in getattr(kind, "__slots__", ()):
            return handler

        def handle(request: Any, done: Done) -> Cancel | None:
            try:
                if request.topic_id:
                    self.catalog.check_topic(request.topic, request.topic_id)
                if isinstance(request, Produce) and request.partition_count:
                    self.catalog.check_partition_count(request.topic, request.partition_count)
            except TopicReplacedError as error:
                if isinstance(request, StageSettlement):
                    raise LeaseExpiredError(str(error)) from None
                if not isinstance(request, Settle | Extend):
                    raise
                # What was leased in an earlier topic is settled in none.
                done(Settled(list(request.leases)))
                return None
            return handler(request, done)

        return handle

    # Partitions.

    def _host(self, topic_name: str, number: int) -> PartitionHost:
        topic = self.catalog.topic(topic_name)
        partitions = topic.partitions
        if not 0 <= number < len(partitions):
            raise NotFoundError(f"topic {topic_name!r} has no partition {number}, only {len(partitions)} of them")
        partition = partitions[number]
        host = self.membership.hosts.get(partition.group)
        if host is not None:
            return host
        if self.node in partition.replicas and self.node not in partition.lost:
            raise UnavailableError("this node is about to host the partition")
        others = tuple(node for node in partition.replicas if node != self.node)
        raise NotLeaderError(self.catalog.likely_leader(others))

    def _queue_requests(self, request: Any) -> QueueRequests:
        return self._host(request.topic, request.partition).queue_requests()

    def stage(self, request: Stage, done: Done) -> None:
        self.membership.queue_polls.heard(request.member)
        self._host(request.topic, request.partition).stage(request, done)

    def stage_settlement(self, request: StageSettlement, done: Done) -> None:
        self.membership.queue_polls.heard(request.member)
        self._host(request.topic, request.partition).stage_settlement(request, done)

    def extend(self, request: Extend, done: Done) -> None:
        self.membership.queue_polls.heard(request.member)
        self._queue_requests(request).extend(request, done)

    def transfer_leadership(self, request: TransferLeadership, done: Done) -> None:
        """Answered when the transfer has begun; the metadata will show the new leader."""
        host = self._host(request.topic, request.partition)
        to = request.to
        lost = self._lost(host)
        if to in lost:
            # It would never catch up, and while leadership is handed over it cannot be removed from the members.
            raise UnavailableError(f"node {to} lost its disk and has not caught up in this partition yet")
        if to == NO_NODE:
            raft = host.replica.raft
            voters = [node for node in raft.configuration.voters if node not in lost]
            others = [node for node in raft.progress if node != self.node and node in voters]
            heirs = [node for node in others if self._outside.is_up(node)]
            if raft.leader == self.node and not heirs:
                raise UnavailableError("no other replica can be reached")
            to = max(heirs, key=lambda node: raft.progress[node].match, default=NO_NODE)
        self._consensus.transfer(host.group, to, reasons.OPERATOR)
        done(DoneReply())

    def describe_replicas(self, request: DescribeReplicas, done: Done) -> None:
        host = self._host(request.topic, request.partition)
        done(describe_replicas(host.replica, self._outside.is_up, self._lost(host)))

    def describe_node(self, _: DescribeNode, done: Done) -> None:
        hosted = [host.replica for host in self.membership.hosts.values()]
        metadata = self._consensus.replica(METADATA_GROUP)
        replicas = hosted if metadata is None else [metadata, *hosted]
        clocks = clock_warnings(self.node, self._outside.clock, self.membership.hosts.values())
        disk = disk_warnings(self.node, self._consensus.stalled(), self._names.of)
        holds = hold_warnings(self.node, self.membership.hosts.items(), self._names)
        exposure = exposure_warnings(self._settings)
        room, upgrades = self._outside.room, self._upgrades.warnings(self.node)
        timing = self.membership.election_timeouts.warnings()
        of_partitions = [*self._warnings.take(replicas), *holds]
        warnings = [*of_partitions, *disk, *room.warnings(), *clocks, *exposure, *upgrades, *timing]
        uptime_ms = self._outside.steady_ms() - self._started_ms
        done(NodeDescribed(self.node, warnings, __version__, uptime_ms, *room.now))

    def list_clients(self, request: ListClients, done: Done) -> None:
        if self.connected_clients is None:
            raise UnavailableError("this node has no endpoints")
        done(self.connected_clients(request))

    def read_history(self, _: ReadHistory, done: Done) -> None:
        if self.history is None:
            raise UnavailableError("this node keeps no history")
        done(self.history.read())

    def _lost(self, host: PartitionHost) -> tuple[NodeId, ...]:
        """Replicas that came back without their disk and have not started again in this partition."""
        return self.catalog.machine.state.assignments[host.group].place.lost

    # The cluster.

    def init_cluster(self, request: InitCluster, done: Done) -> None:
        """Without nodes: only returns the identity of this node. Repeating it with the same nodes changes nothing."""
        if request.nodes:
            self._check_founders(request.nodes)
            if self._consensus.replica(METADATA_GROUP) is None:
                self._found({node: peer for node, peer in request.nodes.items() if node != self.node})
            elif self._founders() != tuple(sorted(request.nodes)):
                raise AlreadyExistsError(f"node {self.node} is part of a cluster founded by {self._founders()}")
        done(self._own_reply())

    def enter_cluster(self, request: EnterCluster, done: Done) -> None:
        """Joins in the background. A node that is part of that cluster already stays there.

        Raises AlreadyExistsError when it is part of another cluster.
        """
        servers = [check_address("an address of the cluster", server) for server in request.servers]
        if not servers:
            raise InvalidArgumentError("name at least one address of the cluster to join")
        if self._consensus.replica(METADATA_GROUP) is None:
            self._enter(servers, request.token)
        else:
            self._check_own_cluster(servers)
        done(self._own_reply())

    def _own_reply(self) -> ClusterReply:
        own = {self.node: str(self._settings.peer_advertised)}
        return ClusterReply(self.cluster_id, own, self.catalog.cluster_name)

    def _check_own_cluster(self, servers: list[str]) -> None:
        """Raises AlreadyExistsError when these are addresses of another cluster. A node that just joined knows none."""
        brokers = self.catalog.brokers()
        if brokers and not any(broker.client_address in servers for broker in brokers.values()):
            others = [str(node) for node in sorted(brokers) if node != self.node]
            members = f"with nodes {', '.join(others)}" if others else "alone"
            raise AlreadyExistsError(
                f"node {self.node} is part of another cluster named {self.catalog.cluster_name!r}, {members}; "
                "a node joins a cluster with an empty data directory"
            )

    def _check_founders(self, nodes: dict[NodeId, str]) -> None:
        if len(nodes) > BROKER_COUNT_MAX:
            raise InvalidArgumentError(f"a cluster has at most {BROKER_COUNT_MAX} brokers")
        if self.node not in nodes:
            raise InvalidArgumentError(f"node {self.node} is not among the nodes of the new cluster")
        for node, peer in nodes.items():
            if not NO_NODE < node <= NODE_ID_MAX:
                raise InvalidArgumentError(f"{node} is not a node id: expected 1 to {NODE_ID_MAX}")
            check_address(f"the peer address of node {node}", peer)

    def _founders(self) -> tuple[NodeId, ...]:
        """As the metadata remember them; before that, the voters of their group."""
        replica = self._consensus.replica(METADATA_GROUP)
        assert replica is not None
        return self.catalog.machine.state.cluster.founders or replica.raft.configuration.voters
