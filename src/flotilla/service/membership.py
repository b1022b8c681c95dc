"""A node's part in the cluster: how it is registered, whom it is connected to, who comes and who goes.

Every change of the metadata is followed by the same reconciliation: links to all brokers, and what this node
hosts (`hosting`). Registration needs no coordinator: a node forwards its own row to the metadata's leader
until it sees it there. The leader of the metadata admits nodes, makes voters of them and lets them go.
"""

from random import Random

from flotilla.metadata import commands
from flotilla.metadata.values import Broker
from flotilla.queue.facts import Describe
from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, REMOVE, Change, ConfigurationChange, apply_change
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.service.balance import LeaderBalance
from flotilla.service.catalog import METADATA_GROUP, Catalog
from flotilla.service.hosting import Hosting
from flotilla.service.ports import Cancel, Consensus, Done, Elsewhere, Outside
from flotilla.service.queue_partition import QueuePorts
from flotilla.service.queue_polls import QueuePolls
from flotilla.service.queue_reading import BatchShelf
from flotilla.service.steady_clock import SteadyClock
from flotilla.types.address import parse_address
from flotilla.types.errors import (
    AlreadyExistsError,
    ConfigurationChangeError,
    FlotillaError,
    InvalidArgumentError,
    UnavailableError,
)
from flotilla.types.ids import NodeId
from flotilla.types.operations import ClusterReply, JoinCluster

#: How often registration, promotion, partitions and preferred leaders are looked at.
CHECK_MS = 500
#: The same while this node is not registered: nobody can use it before it is.
EAGER_CHECK_MS = 50
#: Voters of the metadata group; further brokers hold it as learners.
METADATA_VOTERS_MAX = 5
#: What stands for the version of a node that was admitted and has not told its own yet.
JOINING_VERSION = "joining"


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
    ) -> None:
        self._node = node
        #: How this node registers; known once its doors are open.
        self._own: commands.RegisterBroker | None = None
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self.queue_polls = QueuePolls(catalog, outside, random)
        queues = QueuePorts(
            consensus,
            outside,
            SteadyClock(outside),
            random,
            elsewhere,
            BatchShelf(),
            self.queue_polls.began,
            self.queue_polls.ended,
        )
        self._hosting = Hosting(node, catalog, consensus, outside, describe, options, queues)
        self._balance = LeaderBalance(node, consensus, outside)
        self._is_reconcile_due = False
        #: Removed nodes whose links were closed.
        self._parted: dict[NodeId, None] = {}
        self._stop_checks: Cancel | None = None
        self.hosts = self.queue_polls.hosts = self._hosting.hosts
        catalog.machine.on_changed = self.changed

    def start(self, own: commands.RegisterBroker) -> None:
        self._own = own
        self.reconcile()
        self._check()

    def close(self, reason: FlotillaError) -> None:
        """The node stops: nothing is looked at any more, and nobody waits here for new records."""
        if self._stop_checks is not None:
            self._stop_checks()
        self._hosting.close(reason)
        self.queue_polls.close(reason)

    def changed(self) -> None:
        """The metadata moved: reconcile once, after everything of this turn has been applied."""
        if not self._is_reconcile_due:
            self._is_reconcile_due = True
            self._outside.later(0, self.reconcile)

    # What every node does.

    def reconcile(self) -> None:
        self._is_reconcile_due = False
        self._connect()
        if self._consensus.replica(METADATA_GROUP) is not None:
            self._hosting.reconcile()

    def _connect(self) -> None:
        for broker in self._catalog.brokers().values():
            if broker.node != self._node and is_address(broker.peer_address):
                self._outside.connect(broker.node, broker.peer_address)

    def _check(self) -> None:
        delay_ms = CHECK_MS if self._is_registered() else EAGER_CHECK_MS
        self._stop_checks = self._outside.later(delay_ms, self._check)
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            return
        self._register(replica)
        self._part(replica)
        if replica.is_serving():
            self._promote(replica)
        self._hosting.check(self._outside.now_ms())
        self._balance.check(self.hosts)

    def _register(self, replica: Replica) -> None:
        """Only what would be accepted is forwarded: a node that was removed must not fill the log with refusals."""
        assert self._own is not None
        if not self._catalog.cluster_id:
            if replica.raft.role == LEADER:
                founders = replica.raft.configuration.voters
                self._catalog.forward(commands.InitCluster(self._own.cluster_id, founders, self._outside.now_ms()))
            return
        if not self._is_registered() and self._catalog.machine.check(self._own) is None:
            self._catalog.forward(self._own)

    def _is_registered(self) -> bool:
        known = self._catalog.brokers().get(self._node)
        return known is not None and self._own is not None and _is_same(known, self._own)

    def _part(self, replica: Replica) -> None:
        """Closes the links to nodes that left, once they are no members and have had time to hear of it."""
        for node in self._catalog.machine.state.removed_nodes:
            if node != self._node and node not in self._parted and node not in replica.raft.configuration.members():
                self._parted[node] = None
                self._outside.disconnect(node)

    # What the metadata's leader does for others.

    def _promote(self, replica: Replica) -> None:
        """A learner of the metadata that has caught up becomes a voter, one at a time."""
        raft = replica.raft
        if len(raft.configuration.voters) >= METADATA_VOTERS_MAX:
            return
        for learner in raft.configuration.learners:
            is_well = learner in self._catalog.brokers() and self._outside.is_up(learner)
            if is_well and raft.progress[learner].match >= raft.log.committed:
                change = ConfigurationChange((Change(ADD_VOTER, learner),))
                self._consensus.change_members(METADATA_GROUP, change, _ignore)
                return

    def admit(self, request: JoinCluster, done: Done) -> None:
        """A node becomes a broker: it is registered, so that all others know it, and then learns the metadata."""
        replica = self._catalog.leading()
        row = commands.RegisterBroker(
            cluster_id=self._catalog.cluster_id,
            node=request.node,
            client_address=check_address("the client address", request.client),
            peer_address=check_address("the peer address", request.peer),
            http_address=request.http and check_address("the HTTP address", request.http),
            grpc_address="",
            version=JOINING_VERSION,
            now_ms=self._outside.now_ms(),
        )
        self._check_newcomer(request, replica)
        known = self._catalog.brokers().get(request.node)
        if known is not None and known.peer_address == request.peer:
            self._teach(request.node, done)
            return

        def registered(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(self._catalog.explain(result))
            else:
                self._teach(request.node, done)

        self._catalog.propose(row, registered)

    def _check_newcomer(self, request: JoinCluster, replica: Replica) -> None:
        node = request.node
        configuration = replica.raft.configuration
        if configuration.is_voter(node):
            # It has the metadata on its disk and need not join; one that asks has another disk.
            raise ConfigurationChangeError(
                f"node {node} is a member already; one that lost its data is removed and comes back under another id"
            )
        known = self._catalog.brokers().get(node)
        is_taken = node in configuration.members() or self._catalog.machine.state.load(node).replicas > 0
        if known is not None and known.peer_address != request.peer and is_taken:
            raise AlreadyExistsError(f"node {node} is at {known.peer_address}, not at {request.peer}")

    def _teach(self, node: NodeId, done: Done) -> None:
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is not None and node in replica.raft.configuration.members():
            done(self._cluster())
            return
        self._connect()
        change = ConfigurationChange((Change(ADD_LEARNER, node),))
        self._consensus.change_members(METADATA_GROUP, change, lambda result: self._answer(result, done))

    def remove(self, node: NodeId, done: Done) -> None:
        """A broker that holds no replica any more leaves for good."""
        replica = self._catalog.leading()
        command = commands.RemoveBroker(node, self._outside.now_ms())
        self._catalog.check(command)
        change = ConfigurationChange((Change(REMOVE, node),))
        # What raft would refuse must be refused before the broker is gone.
        apply_change(replica.raft.configuration, change)
        if node == self._node:
            raise self._catalog.not_leader(self._hand_over(replica))

        def unregistered(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(self._catalog.explain(result))
            else:
                self._consensus.change_members(METADATA_GROUP, change, lambda left: self._answer(left, done))

        self._catalog.propose(command, unregistered)

    def _hand_over(self, replica: Replica) -> NodeId:
        """Nobody removes itself while it leads: the heir does it, when the client asks there."""
        raft = replica.raft
        heirs = [voter for voter in raft.configuration.voters if voter != self._node and self._outside.is_up(voter)]
        if not heirs:
            raise UnavailableError("no other voter of the metadata can be reached")
        heir = max(heirs, key=lambda voter: raft.progress[voter].match)
        self._consensus.transfer(METADATA_GROUP, heir)
        return heir

    def _answer(self, result: object, done: Done) -> None:
        done(self._catalog.explain(result) if isinstance(result, FlotillaError) else self._cluster())

    def _cluster(self) -> ClusterReply:
        return ClusterReply(self._catalog.cluster_id, self._catalog.peers())


def is_address(text: str) -> bool:
    try:
        return parse_address(text).port > 0
    except ValueError:
        return False


def check_address(noun: str, text: str) -> str:
    """Raises InvalidArgumentError for what nobody could connect to."""
    if not is_address(text):
        raise InvalidArgumentError(f"{noun} is host:port, not {text[:80]!r}")
    return text


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
