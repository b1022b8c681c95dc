"""The members of the cluster at the metadata's leader: it admits nodes, gives them a vote, and removes them.

A new node is registered, so that all others know it, and then learns the metadata. A known node that joins with
another data directory has lost its disk, and with it every vote it gave. It is admitted again in this order, and each
step is committed before the next one begins:

    1. the metadata group removes it from its members
    2. its new incarnation is registered, which marks it as lost in every partition that had a replica on it
    3. it learns the metadata, from an empty log, and gets a vote later, like any new node

So it takes part in nothing that relies on what it has forgotten: not in the metadata because of 1, and not in a
partition because of 2, until that partition's leader has done the same (moves). A new leader of the metadata can take
over between any two steps, because the node asks again until it is admitted.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256

from flotilla.broker.addresses import check_address
from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.cluster.move_plans import MovePlans
from flotilla.broker.cluster.moves import Surroundings, has_caught_up, may_demote
from flotilla.broker.cluster.unknown_leader import UnknownLeader
from flotilla.broker.ports import Consensus, Done, Outside
from flotilla.metadata import commands
from flotilla.metadata.move_commands import SetIncarnation
from flotilla.metadata.security.join_tokens import PutJoinToken, UseJoinToken
from flotilla.metadata.values import LEAVING
from flotilla.raft import reasons
from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, REMOVE, Change, ConfigurationChange, apply_change
from flotilla.replica.replica import Replica
from flotilla.types.errors import (
    AlreadyExistsError,
    ConfigurationChangeError,
    FlotillaError,
    PermissionDeniedError,
    UnavailableError,
)
from flotilla.types.ids import NodeId
from flotilla.types.operations import ClusterReply, JoinCluster, RemoveNode
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations.cluster import CreateJoinToken
from flotilla.types.version import FIRST, VersionRange

#: Voters of the metadata group; further brokers hold it as learners.
METADATA_VOTERS_MAX = 5
#: The version of a node that was admitted and has not reported its own yet.
JOINING_VERSION = "joining"


class ClusterMembers:
    def __init__(
        self, node: NodeId, catalog: Catalog, consensus: Consensus, outside: Outside, plans: MovePlans
    ) -> None:
        self._node = node
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._plans = plans
        self._unknown_leader = UnknownLeader(consensus, outside)
        #: Opens links to a new broker at once: it must be reachable before it becomes a learner.
        self.connect: Callable[[], None] = _no_links
        #: Whether a node joins by a one-time token only.
        self.needs_token = False

    def check(self, replica: Replica) -> None:
        """Called periodically at the metadata's leader."""
        self._demote(replica)
        self._promote(replica)
        self._expel(replica)
        self._unknown_leader.check(replica)

    # Joining.

    def join_cluster(self, request: JoinCluster, done: Done) -> None:
        replica = self._catalog.leading()
        row = commands.RegisterBroker(
            cluster_name=self._catalog.cluster_name,
            node=request.node,
            client_address=check_address("the client address", request.client),
            peer_address=check_address("the peer address", request.peer),
            http_address=request.http and check_address("the HTTP address", request.http),
            grpc_address="",
            version=JOINING_VERSION,
            starts=0,
            process=0,
            now_ms=self._outside.now_ms(),
        )
        self._catalog.check(row)
        label = commands.LabelNode(request.node, request.machine, request.zone, self._outside.now_ms())
        if not self._catalog.has_labels(label):
            self._catalog.check(label)
        versions = VersionRange(request.version_min or FIRST, request.version_max or FIRST)
        present = self._catalog.cluster_version
        if not versions.has(present):
            raise ConfigurationChangeError(
                f"the cluster is at version {present}, and node {request.node} supports {versions}"
            )
        is_replaced = self._is_replaced(request)
        if not is_replaced:
            self._check_newcomer(request, replica)

        def admit() -> None:
            if is_replaced:
                self._replace(request, self._catalog.leading(), row, done)
            else:
                self._register(request, row, done)

        def admit_labelled() -> None:
            # First, so that no replica is placed on it before its labels are known.
            if self._catalog.has_labels(label):
                admit()
            else:
                self._propose(label, admit, done)

        known = self._catalog.brokers().get(request.node)
        if not self.needs_token or (known is not None and known.incarnation == request.incarnation != 0):
            admit_labelled()
            return
        if not request.token:
            raise PermissionDeniedError("a node joins this cluster by a token (join_token): `flotilla cluster token`")
        digest = sha256(request.token).digest()
        use = UseJoinToken(digest, request.node, request.incarnation, self._outside.now_ms())
        self._catalog.check(use)
        self._propose(use, admit_labelled, done)

    def create_join_token(self, request: CreateJoinToken, done: Done) -> None:
        now_ms = self._outside.now_ms()
        command = PutJoinToken(request.digest, now_ms + request.ttl_ms, now_ms)

        def answered(result: object) -> None:
            done(self._catalog.explain(result) if isinstance(result, FlotillaError) else DoneReply())

        self._catalog.propose(command, answered)

    def _is_replaced(self, request: JoinCluster) -> bool:
        """Whether a known node joins with another data directory."""
        known = self._catalog.brokers().get(request.node)
        if known is None or request.incarnation in (0, known.incarnation):
            return False
        if self._outside.is_up(request.node):
            raise AlreadyExistsError(f"node {request.node} is running at {known.peer_address}; node ids are unique")
        return True

    def _check_newcomer(self, request: JoinCluster, replica: Replica) -> None:
        node = request.node
        configuration = replica.raft.configuration
        if configuration.is_voter(node):
            # It has the metadata on its disk and need not join; if it asks, it has lost them.
            raise ConfigurationChangeError(
                f"node {node} is a member already; if it lost its data, start it with an empty data directory"
            )
        known = self._catalog.brokers().get(node)
        is_taken = node in configuration.members() or bool(self._catalog.machine.state.assignments_to(node))
        if known is not None and known.peer_address != request.peer and is_taken:
            raise AlreadyExistsError(f"node {node} is at {known.peer_address}, not at {request.peer}")

    def _replace(self, request: JoinCluster, replica: Replica, row: commands.RegisterBroker, done: Done) -> None:
        mark = SetIncarnation(request.node, request.incarnation, True, self._outside.now_ms())

        def removed(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(self._catalog.explain(result))
            else:
                self._propose(mark, lambda: self._register(request, row, done), done)

        if request.node in replica.raft.configuration.members():
            change = ConfigurationChange((Change(REMOVE, request.node),))
            self._consensus.change_members(METADATA_GROUP, change, removed)
        elif replica.raft.pending_configuration_index > replica.raft.log.handed:
            # The change that removed it is not committed, and may fail.
            raise ConfigurationChangeError("a change of the metadata's members is in flight; try again")
        else:
            removed(None)

    def _register(self, request: JoinCluster, row: commands.RegisterBroker, done: Done) -> None:
        known = self._catalog.brokers().get(request.node)
        if known is not None and known.peer_address == row.peer_address:
            self._mark(request, done)
        else:
            self._propose(row, lambda: self._mark(request, done), done)

    def _mark(self, request: JoinCluster, done: Done) -> None:
        """Records the incarnation: from now on, another one means that the data are lost."""
        if not request.incarnation or self._catalog.brokers()[request.node].incarnation == request.incarnation:
            self._teach(request.node, done)
            return
        mark = SetIncarnation(request.node, request.incarnation, False, self._outside.now_ms())
        self._propose(mark, lambda: self._teach(request.node, done), done)

    def _propose(self, command: commands.Command, then: Callable[[], None], done: Done) -> None:
        def answered(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(self._catalog.explain(result))
                return
            try:
                then()
            except FlotillaError as error:
                done(self._catalog.explain(error))

        try:
            self._catalog.propose(command, answered)
        except FlotillaError as error:
            done(self._catalog.explain(error))

    def _teach(self, node: NodeId, done: Done) -> None:
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is not None and node in replica.raft.configuration.members():
            done(self._cluster())
            return
        self.connect()
        change = ConfigurationChange((Change(ADD_LEARNER, node),))
        self._consensus.change_members(METADATA_GROUP, change, lambda result: self._answer(result, done))

    def _demote(self, replica: Replica) -> None:
        """Makes a voter of the metadata that lost entries which it had acknowledged a learner, as `moves` does."""
        raft = replica.raft
        around = Surroundings(self._node, self._outside.is_up, partial(has_caught_up, raft), lambda _: True)
        for node in sorted(raft.forgetful):
            if may_demote(raft.configuration, node, around):
                self._consensus.change_members(
                    METADATA_GROUP, ConfigurationChange((Change(ADD_LEARNER, node),)), _ignore
                )
                return

    def _promote(self, replica: Replica) -> None:
        """Makes a learner of the metadata that has caught up a voter, one at a time."""
        raft = replica.raft
        if len(raft.configuration.voters) >= METADATA_VOTERS_MAX:
            return
        for learner in raft.configuration.learners:
            is_well = learner in self._catalog.brokers() and self._outside.is_up(learner)
            if is_well and raft.progress[learner].match >= raft.log.committed:
                change = ConfigurationChange((Change(ADD_VOTER, learner),))
                self._consensus.change_members(METADATA_GROUP, change, _ignore)
                return

    # Leaving.

    def remove_node(self, request: RemoveNode, done: Done) -> None:
        """Removes a broker: at once if it has no replicas, else when they have moved away."""
        node = request.node
        replica = self._catalog.leading()
        if not self._catalog.machine.state.assignments_to(node):
            self._dismiss(replica, node, done)
            return
        # Refuse before anything moves what raft would refuse later.
        apply_change(replica.raft.configuration, ConfigurationChange((Change(REMOVE, node),)))
        self._plans.check_vacatable(node)
        leave = commands.SetBrokerState(node, LEAVING, self._outside.now_ms())
        self._propose(leave, lambda: done(self._cluster()), done)

    def _expel(self, replica: Replica) -> None:
        """Finishes removals that were begun here or by an earlier leader: nodes that are leaving and empty."""
        state = self._catalog.machine.state
        for node, broker in list(state.brokers.items()):
            if broker.state == LEAVING and not state.assignments_to(node):
                try:
                    self._dismiss(replica, node, _ignore)
                except FlotillaError:
                    continue  # The next leader does it.
                return
        for node in replica.raft.configuration.members():
            if node in state.removed_nodes:
                self._consensus.change_members(METADATA_GROUP, ConfigurationChange((Change(REMOVE, node),)), _ignore)
                return

    def _dismiss(self, replica: Replica, node: NodeId, done: Done) -> None:
        command = commands.RemoveBroker(node, self._outside.now_ms())
        self._catalog.check(command)
        change = ConfigurationChange((Change(REMOVE, node),))
        # Refuse before the broker is gone what raft would refuse later.
        apply_change(replica.raft.configuration, change)
        if node == self._node:
            raise self._catalog.not_leader(self._hand_over(replica))

        def part() -> None:
            self._consensus.change_members(METADATA_GROUP, change, lambda left: self._answer(left, done))

        self._propose(command, part, done)

    def _hand_over(self, replica: Replica) -> NodeId:
        """A leader does not remove itself: the new leader does, when the client asks it or at its next check."""
        raft = replica.raft
        heirs = [voter for voter in raft.configuration.voters if voter != self._node and self._outside.is_up(voter)]
        if not heirs:
            raise UnavailableError("no other voter of the metadata can be reached")
        heir = max(heirs, key=lambda voter: raft.progress[voter].match)
        self._consensus.transfer(METADATA_GROUP, heir, reasons.MOVE)
        return heir

    def _answer(self, result: object, done: Done) -> None:
        done(self._catalog.explain(result) if isinstance(result, FlotillaError) else self._cluster())

    def _cluster(self) -> ClusterReply:
        return ClusterReply(self._catalog.cluster_id, self._catalog.peers(), self._catalog.cluster_name)


def _no_links() -> None:
    """Until the registration has set it."""


def _ignore(_: object) -> None:
    """Retried at the next check if it failed."""
