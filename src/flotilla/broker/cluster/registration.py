"""A node's membership in its cluster: its registration, its links to other brokers, and periodic checks.

Every change of the metadata triggers the same reconciliation: links to all brokers, the replicas on this node
(`hosting`), and the members of the partitions that it leads (`moves`). Registration needs no coordinator: a node
forwards its own row to the metadata's leader until it sees it there. The leader of the metadata admits nodes, promotes
them to voters and removes them (`controller`), and plans moves (`move_plans`).

A node whose data directory is not the one that the cluster knows has been replaced: it takes part in nothing.
"""

from collections.abc import Callable
from random import Random

from flotilla.broker.addresses import is_address
from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.cluster.balance import LeaderBalance
from flotilla.broker.cluster.controller import ClusterMembers
from flotilla.broker.cluster.election_timeouts import ElectionTimeouts
from flotilla.broker.cluster.founders import FounderWait
from flotilla.broker.cluster.group_expiry import GroupExpiry
from flotilla.broker.cluster.hosting import Hosting
from flotilla.broker.cluster.move_plans import MovePlans
from flotilla.broker.cluster.moves import ReplicaMoves
from flotilla.broker.ports import Cancel, Consensus, Elsewhere, Outside
from flotilla.broker.queue.groups import QueuePorts
from flotilla.broker.queue.polls import QueuePolls
from flotilla.broker.queue.stored_batches import BatchCache
from flotilla.broker.schedules.requests import Schedules
from flotilla.broker.schedules.runs import ScheduleRuns
from flotilla.broker.stream.coordinator import StreamCoordinator
from flotilla.metadata import commands
from flotilla.metadata.move_commands import SetIncarnation
from flotilla.metadata.security.commands import PutSecret
from flotilla.metadata.values import NO_LABELS, Broker, Labels
from flotilla.partition.batch_facts import Describe
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.runtime.observability.failures import report
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId, Index, NodeId
from flotilla.types.limits import MOVE_BYTES_PER_SECOND
from flotilla.types.timing import Timing
from flotilla.types.version import CLUSTER_VERSION_MAX

#: Between two checks of registration, promotion, partitions and preferred leaders.
CHECK_MS = 500
#: The same while this node is not registered: clients cannot use it before that.
EAGER_CHECK_MS = 50
#: What a node registers at every start.
_REGISTERED = ("client_address", "peer_address", "http_address", "grpc_address", "version")


class Membership:
    def __init__(
        self,
        node: NodeId,
        catalog: Catalog,
        consensus: Consensus,
        outside: Outside,
        describe: Describe,
        options: ReplicaOptions,
        elsewhere: Elsewhere,
        random: Random,
        move_bytes_per_second: int = MOVE_BYTES_PER_SECOND,
        election_timeout_ms: int = Timing().election_timeout_ms,
    ) -> None:
        self._node = node
        #: This node's registration, its labels and the number of its data directory; known once its listeners are open.
        self._own: commands.RegisterBroker | None = None
        self._labels = NO_LABELS
        self._incarnation = 0
        #: The id of the cluster, if this node is the one that initialises it.
        self._drawn_id = f"{random.getrandbits(128):032x}"
        #: A secret of the nodes, for a cluster that has none yet; empty: it needs none.
        self.secret = b""
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self.queue_polls = QueuePolls(catalog, outside, random, elsewhere)
        self.streams = StreamCoordinator(catalog, consensus, outside)
        self.schedule_runs = ScheduleRuns(catalog, consensus, outside, elsewhere)
        self.group_expiry = GroupExpiry(catalog, consensus, outside, elsewhere)
        self.schedules = Schedules(catalog, consensus, outside, elsewhere, self.schedule_runs)
        self.election_timeouts = ElectionTimeouts(node, election_timeout_ms, catalog, outside)
        queues = QueuePorts(
            consensus,
            outside,
            random,
            elsewhere,
            BatchCache(),
            BatchOpener(outside),
            self.election_timeouts.grace_ms,
            lambda: catalog.cluster_version,
            self.queue_polls.began,
            self.queue_polls.ended,
        )
        self._hosting = Hosting(node, catalog, consensus, outside, describe, options, queues)
        self._balance = LeaderBalance(node, consensus, outside)
        hosts = self._hosting.hosts
        self.moves = ReplicaMoves(node, catalog, consensus, outside, hosts, move_bytes_per_second)
        self.plans = MovePlans(catalog, outside)
        self.founders = FounderWait(catalog, outside)
        self.members = ClusterMembers(node, catalog, consensus, outside, self.plans)
        self.members.connect = self._connect
        self._is_reconcile_due = False
        #: Removed nodes whose links were closed.
        self._parted: dict[NodeId, None] = {}
        self._stop_checks: Cancel | None = None
        #: Called with the cluster's id and version, repeatedly, once the metadata have them.
        self.on_cluster_known: Callable[[str, int], None] = _ignore
        #: The version with which a cluster begins that this node has founded.
        self.founding_version: Callable[[], int] = lambda: CLUSTER_VERSION_MAX
        #: Called when the cluster has removed this node.
        self.on_removed: Callable[[], None] = _no_listener
        self.hosts = self.queue_polls.hosts = self._hosting.hosts
        self.produced = self._hosting.produced
        #: Partitions here follow the metadata up to this entry.
        self.reconciled_index: Index = 0
        catalog.machine.on_changed = self.changed

    def start(self, own: commands.RegisterBroker, incarnation: int = 0, labels: Labels = NO_LABELS) -> None:
        """`incarnation` is the number of the data directory; 0: it has none."""
        self._own = own
        self._labels = labels
        self._incarnation = incarnation
        self.reconcile()
        self._check()

    def close(self, reason: FlotillaError) -> None:
        """The node stops: ends all checks and answers all waiting requests."""
        if self._stop_checks is not None:
            self._stop_checks()
        self.moves.close()
        self._hosting.close(reason)
        self.queue_polls.close(reason)
        self.streams.close(reason)
        self.schedule_runs.close()

    def changed(self) -> None:
        """The metadata changed: reconciles once, after all entries of this turn have been applied."""
        if not self._is_reconcile_due:
            self._is_reconcile_due = True
            self._outside.later(0, self.reconcile)

    def group_failed(self, group: GroupId) -> None:
        self._hosting.group_failed(group)

    # On every node.

    def reconcile(self) -> None:
        self._is_reconcile_due = False
        self.founders.look()
        self.reconciled_index = self._catalog.machine.applied
        self._connect()
        if self._catalog.cluster_id:
            self.on_cluster_known(self._catalog.cluster_id, self._catalog.cluster_version)
        if self._consensus.replica(METADATA_GROUP) is not None and not self.is_replaced:
            self._hosting.reconcile()
            if self._catalog.machine.state.moves:
                self.moves.check()
        self.streams.look()
        self.schedule_runs.look()

    def _connect(self) -> None:
        for broker in self._catalog.brokers().values():
            if broker.node != self._node and is_address(broker.peer_address):
                known = (broker.incarnation, broker.starts, broker.process)
                self._outside.connect(broker.node, broker.peer_address, *known)

    def _check(self) -> None:
        delay_ms = CHECK_MS if self.is_registered() else EAGER_CHECK_MS
        self._stop_checks = self._outside.later(delay_ms, self._check)
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            return
        self._register(replica)
        self._part(replica)
        if self.is_removed:
            self.on_removed()
            return
        if self.is_replaced:
            return
        checks: list[Callable[[], None]] = [
            lambda: self._hosting.check(self._outside.now_ms()),
            self.moves.check,
            self.streams.check,
            self.schedule_runs.look,
            self.group_expiry.check,
            self.election_timeouts.check,
            lambda: self._balance.check(self.hosts),
        ]
        if replica.is_serving():
            checks[:0] = (lambda: self.members.check(replica), self.plans.check)
        for check in checks:
            try:
                check()
            except Exception as failure:
                # The others go on, and the next round tries this one again.
                report("a periodic check failed", failure, "check")

    def _register(self, replica: Replica) -> None:
        """Forwards only what would be accepted: a removed node must not fill the log with refusals."""
        assert self._own is not None
        if not self._catalog.cluster_id:
            if replica.raft.role == LEADER:
                founders = replica.raft.configuration.voters
                now_ms = self._outside.now_ms()
                version = self.founding_version()
                if version > self._catalog.cluster_version:
                    self._catalog.forward(commands.SetClusterVersion(version, (), now_ms))
                self._catalog.forward(commands.InitCluster(self._drawn_id, self._own.cluster_name, founders, now_ms))
            return
        if self.secret and not self._catalog.machine.state.security.secret and replica.raft.role == LEADER:
            self._catalog.forward(PutSecret(self.secret, self._outside.now_ms()))
        known = self._catalog.brokers().get(self._node)
        if self.is_replaced:
            return
        label = commands.LabelNode(self._node, self._labels.machine, self._labels.zone, self._outside.now_ms())
        if not self._catalog.has_labels(label):
            if self._catalog.machine.check(label) is None:
                self._catalog.forward(label)
        elif known is None or not _is_same(known, self._own):
            if self._catalog.machine.check(self._own) is None:
                self._catalog.forward(self._own)
        elif known.incarnation != self._incarnation:
            self._catalog.forward(SetIncarnation(self._node, self._incarnation, False, self._outside.now_ms()))

    def is_registered(self) -> bool:
        """Whether the cluster has registered this start of the node, with its data directory and addresses.

        A node that runs on an older copy of its data directory finds the registration of an earlier start in it.
        """
        known = self._catalog.brokers().get(self._node)
        is_known = known is not None and self._own is not None and _is_same(known, self._own)
        return is_known and known is not None and known.incarnation == self._incarnation

    @property
    def is_removed(self) -> bool:
        """Whether the cluster has removed this node for good."""
        return self._node in self._catalog.machine.state.removed_nodes

    @property
    def is_replaced(self) -> bool:
        """Whether the cluster knows this node by another data directory, whose votes count instead of this one's."""
        known = self._catalog.brokers().get(self._node)
        return known is not None and self._incarnation not in (0, known.incarnation) and known.incarnation != 0

    def _part(self, replica: Replica) -> None:
        """Closes the links to removed nodes, once they are no members and have had time to learn of it."""
        raft = replica.raft
        kept = (self._node, *raft.configuration.members(), *raft.departing, *self._parted)
        for node in self._catalog.machine.state.removed_nodes:
            if node not in kept:
                self._parted[node] = None
                self._outside.disconnect(node)


def _ignore(cluster_id: str, cluster_version: int) -> None:
    """Until the server has set it."""


def _no_listener() -> None:
    """Until the server has set it."""


def _is_same(known: Broker, own: commands.RegisterBroker) -> bool:
    is_counted = own.starts == 0 or (known.starts, known.process) == (own.starts, own.process)
    return is_counted and all(getattr(known, name) == getattr(own, name) for name in _REGISTERED)
