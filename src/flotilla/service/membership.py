"""A node's part in the cluster: what it hosts, how it is registered, who it is connected to.

Every change of the metadata is followed by the same reconciliation: links to all brokers, a replica for every
assignment, removal of what a tombstone names, and nothing else ever removes data. Registration needs no
coordinator: a node forwards its own row to the metadata's leader until it sees it there.
"""

from flotilla.metadata import commands
from flotilla.metadata.queries import AssignmentsTo, TombstonesFor, TopicById
from flotilla.metadata.values import Broker, Topic
from flotilla.queue.facts import Describe
from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, REMOVE, Change, ConfigurationChange
from flotilla.raft.messages import Configuration
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.service.catalog import METADATA_GROUP, Catalog
from flotilla.service.partition import PartitionHost, WatchedMachine
from flotilla.service.ports import Consensus, Done, Outside
from flotilla.types.errors import FlotillaError, NotFoundError
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.operations import ClusterReply, JoinCluster
from flotilla.types.records import RecordLimits

#: How often registration, promotion and preferred leaders are looked at.
CHECK_MS = 500
#: Voters of the metadata group; further brokers hold it as learners.
METADATA_VOTERS_MAX = 5
#: A leader that is not the preferred one hands over after this many quiet checks.
PREFERRED_LEADER_CHECKS = 6


class Membership:
    def __init__(
        self,
        node: NodeId,
        catalog: Catalog,
        consensus: Consensus,
        outside: Outside,
        describe: Describe,
        options: ReplicaOptions,
    ) -> None:
        self.hosts: dict[GroupId, PartitionHost] = {}
        self._node = node
        #: How this node registers; known once its doors are open.
        self._own: commands.RegisterBroker | None = None
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._describe = describe
        self._options = options
        self._is_reconcile_due = False
        self._misplaced: dict[GroupId, int] = {}
        catalog.machine.on_changed = self.changed

    def start(self, own: commands.RegisterBroker) -> None:
        self._own = own
        self.reconcile()
        self._check()

    def changed(self) -> None:
        """The metadata moved: reconcile once, after everything of this turn has been applied."""
        if not self._is_reconcile_due:
            self._is_reconcile_due = True
            self._outside.later(0, self.reconcile)

    # What every node does.

    def reconcile(self) -> None:
        self._is_reconcile_due = False
        for broker in self._catalog.brokers().values():
            if broker.node != self._node:
                self._outside.connect(broker.node, broker.peer_address)
        assignments = self._catalog.machine.read(AssignmentsTo(self._node))
        assert isinstance(assignments, dict)
        for group, assignment in assignments.items():
            topic = self._catalog.machine.read(TopicById(assignment.topic_id))
            if group not in self.hosts and isinstance(topic, Topic):
                self._host(group, topic, assignment.replicas)
        self._remove_dead()

    def _host(self, group: GroupId, topic: Topic, replicas: tuple[NodeId, ...]) -> None:
        machine = WatchedMachine(self._describe)
        self._consensus.host(group, Configuration(voters=tuple(sorted(replicas))), machine, self._options)
        replica = self._consensus.replica(group)
        assert replica is not None
        if replicas[0] == self._node and replica.raft.leader == NO_NODE:
            # Nobody waits for a timeout to lead what is new here.
            self._consensus.campaign(group)
        limits = RecordLimits(value_bytes_max=topic.settings.payload_bytes_max)
        self.hosts[group] = PartitionHost(group, machine, replica, self._consensus, self._outside, limits)

    def _remove_dead(self) -> None:
        tombstones = self._catalog.machine.read(TombstonesFor(self._node))
        assert isinstance(tombstones, list)
        for tombstone in tombstones:
            host = self.hosts.pop(tombstone.group, None)
            if host is not None:
                host.close(NotFoundError("the topic was deleted"))
            if self._consensus.replica(tombstone.group) is not None:
                self._consensus.drop(tombstone.group)
        if tombstones:
            groups = tuple(tombstone.group for tombstone in tombstones)
            self._forward(commands.ConfirmRemoved(self._node, groups, self._outside.now_ms()))

    # What is looked at from time to time.

    def _check(self) -> None:
        self._outside.later(CHECK_MS, self._check)
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            return
        self._register(replica)
        if replica.raft.role == LEADER and replica.is_serving():
            self._promote(replica)
        self._remove_dead()
        self._prefer_leaders()

    def _register(self, replica: Replica) -> None:
        assert self._own is not None
        if not self._catalog.cluster_id:
            if replica.raft.role == LEADER:
                founders = replica.raft.configuration.voters
                self._forward(commands.InitCluster(self._own.cluster_id, founders, self._outside.now_ms()))
            return
        known = self._catalog.brokers().get(self._node)
        if known is None or not _is_same(known, self._own):
            self._forward(self._own)

    def _promote(self, replica: Replica) -> None:
        """A learner of the metadata that has caught up becomes a voter, one at a time."""
        raft = replica.raft
        if len(raft.configuration.voters) >= METADATA_VOTERS_MAX:
            return
        brokers = self._catalog.brokers()
        for learner in raft.configuration.learners:
            progress = raft.progress.get(learner)
            if learner in brokers and progress is not None and progress.match >= raft.log.committed:
                change = ConfigurationChange((Change(ADD_VOTER, learner),))
                self._consensus.change_members(METADATA_GROUP, change, _ignore)
                return

    def _prefer_leaders(self) -> None:
        """Leadership goes back to the first replica, so that load spreads again after a failover."""
        for group, host in self.hosts.items():
            replica = self._consensus.replica(group)
            if replica is None or not self._is_misplaced(group, replica):
                self._misplaced.pop(group, None)
                continue
            checks = self._misplaced.get(group, 0) + 1
            self._misplaced[group] = checks
            if checks >= PREFERRED_LEADER_CHECKS:
                del self._misplaced[group]
                self._consensus.transfer(host.group, self._preferred(group))
                return

    def _is_misplaced(self, group: GroupId, replica: Replica) -> bool:
        raft = replica.raft
        preferred = self._preferred(group)
        if raft.role != LEADER or preferred == self._node or not self._outside.is_up(preferred):
            return False
        progress = raft.progress.get(preferred)
        return progress is not None and progress.match + 64 >= raft.log.last_index

    def _preferred(self, group: GroupId) -> NodeId:
        assignments = self._catalog.machine.read(AssignmentsTo(self._node))
        assert isinstance(assignments, dict)
        assignment = assignments.get(group)
        return assignment.replicas[0] if assignment is not None else self._node

    # What the metadata's leader does for others.

    def admit(self, request: JoinCluster, done: Done) -> None:
        """A node wants to become a broker: it is connected, registered, and learns the metadata."""
        self._outside.connect(request.node, request.peer)
        peers = {broker.node: broker.peer_address for broker in self._catalog.brokers().values()}
        replica = self._consensus.replica(METADATA_GROUP)
        assert replica is not None
        if request.node in replica.raft.configuration.members():
            done(ClusterReply(self._catalog.cluster_id, peers))
            return

        def added(result: object) -> None:
            done(result if isinstance(result, FlotillaError) else ClusterReply(self._catalog.cluster_id, peers))

        change = ConfigurationChange((Change(ADD_LEARNER, request.node),))
        self._consensus.change_members(METADATA_GROUP, change, added)

    def remove(self, node: NodeId, done: Done) -> None:
        """A broker that holds no replica any more leaves for good."""
        command = commands.RemoveBroker(node, self._outside.now_ms())
        refused = self._catalog.machine.check(command)
        if refused is not None:
            done(refused)
            return

        def unregistered(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(result)
                return
            change = ConfigurationChange((Change(REMOVE, node),))
            self._consensus.change_members(METADATA_GROUP, change, left)

        def left(result: object) -> None:
            peers = {broker.node: broker.peer_address for broker in self._catalog.brokers().values()}
            done(result if isinstance(result, FlotillaError) else ClusterReply(self._catalog.cluster_id, peers))

        self._consensus.propose(METADATA_GROUP, commands.encode_command(command), unregistered)

    def _forward(self, command: commands.Command) -> None:
        if self._consensus.replica(METADATA_GROUP) is not None:
            self._consensus.forward(METADATA_GROUP, commands.encode_command(command))


def _is_same(known: Broker, own: commands.RegisterBroker) -> bool:
    return (known.client_address, known.peer_address, known.http_address, known.grpc_address, known.version) == (
        own.client_address,
        own.peer_address,
        own.http_address,
        own.grpc_address,
        own.version,
    )


def _ignore(_: object) -> None:
    """Tried again at the next check, if it did not work."""
