"""The replicas on this node: one for every assignment, and no other.

A replica of a new partition begins with all its founders as voters. Any other begins empty: it knows no members, does
not vote, and learns from the leader. A node that lost its disk begins nothing in a group before the group's leader has
confirmed that it is no member any more (`moves` says why).

Only a tombstone removes data, and it is confirmed when the removal has had time to become durable. A log that the store
holds is used as soon as its snapshot was read, which happens beside the loop. A new one is begun only after the
metadata's leader was asked: while a node that was away catches up, it passes through assignments that have ended since,
and a replica with an empty log in place of an earlier one could vote against what it has forgotten.
"""

from dataclasses import replace
from functools import partial

from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.containment import ContainedElsewhere, ContainedOutside, Containment
from flotilla.broker.partition.host import PartitionHost, WatchedMachine
from flotilla.broker.partition.transactions import Decisions
from flotilla.broker.ports import Consensus, Outside
from flotilla.broker.queue.groups import QueuePorts
from flotilla.broker.slices import in_slices
from flotilla.metadata.commands import ConfirmRemoved
from flotilla.metadata.queries import DescribeCluster
from flotilla.metadata.values import Assignment, Topic
from flotilla.partition.batch_facts import Describe
from flotilla.raft.messages import Configuration
from flotilla.raft.roles import CANDIDATE
from flotilla.replica.replica import ReplicaOptions
from flotilla.replica.stored_state import StoredState
from flotilla.types.errors import FlotillaError, NotFoundError, UnavailableError
from flotilla.types.ids import NO_NODE, GroupId, NodeId

#: A new partition asks for votes this often and this many times; then the election timeout takes over.
CAMPAIGN_MS = 30
CAMPAIGNS_MAX = 20
#: Before retention trims a log, this node must know the metadata up to this long ago: there may be a new holder.
INFORMED_MS = 10_000
#: Between two reminders of transactions that partitions have to confirm to the metadata.
CONFIRM_MS = 2_000


class Hosting:
    def __init__(
        self,
        node: NodeId,
        catalog: Catalog,
        consensus: Consensus,
        outside: Outside,
        describe: Describe,
        options: ReplicaOptions,
        queues: QueuePorts,
    ) -> None:
        self.hosts: dict[GroupId, PartitionHost] = {}
        self._node = node
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._describe = describe
        self._options = options
        self._queues = queues
        self._opener = BatchOpener(outside)
        #: Records stored for producers, by topic.
        self.produced: dict[str, int] = {}
        self._decisions = Decisions(catalog.transactions, catalog.forward, self.produced)
        self._confirm_ms = 0
        #: Assigned, with a log here whose state is being read, by the machine that it is for.
        self._loading: dict[GroupId, WatchedMachine] = {}
        #: Assigned, but without a log here yet.
        self._missing: tuple[GroupId, ...] = ()
        self._is_asking = False
        #: When the last answered read of the metadata for retention began.
        self._informed_ms: int | None = None
        self._is_learning = False
        #: Dropped since the last check: not confirmed yet.
        self._just_dropped: dict[GroupId, None] = {}
        #: Whether a round of checks is under way.
        self._is_checking = False

    def reconcile(self) -> None:
        """Follows the metadata, after a change or to retry what failed before."""
        state = self._catalog.machine.state
        missing: list[GroupId] = []
        for group, assignment in state.assignments_to(self._node).items():
            host = self.hosts.get(group)
            if self._consensus.has_failed(group):
                continue
            if host is not None:
                topic = state.topics[assignment.topic_id]
                Containment(self._consensus, group).run(partial(self._update, host, topic))
            elif self._consensus.holds(group):
                if group not in self._loading:
                    self._host(group, assignment)
            elif self._node not in assignment.place.lost:
                missing.append(group)
        self._drop_dead()
        self._missing = tuple(missing)
        if missing and not self._is_asking:
            self._is_asking = True
            asked = self._missing
            self._consensus.read(METADATA_GROUP, DescribeCluster(), lambda result: self._answered(asked, result))

    def _update(self, host: PartitionHost, topic: Topic) -> None:
        host.configure(topic)
        host.look_at_transactions()

    def _answered(self, asked: tuple[GroupId, ...], result: object) -> None:
        """Everything decided before the read is applied: groups that are still assigned may begin."""
        if isinstance(result, FlotillaError):
            # Retried at the next check.
            self._is_asking = False
            return
        in_slices(self._outside, asked, self._host_new, self._all_begun)

    def _host_new(self, group: GroupId) -> None:
        assignment = self._catalog.machine.state.assignments.get(group)
        if assignment is None or group in self.hosts or self._consensus.has_failed(group):
            return
        if self._node in assignment.place.hosts and self._node not in assignment.place.lost:
            self._host(group, assignment)

    def _all_begun(self) -> None:
        self._is_asking = False
        self.reconcile()

    def _host(self, group: GroupId, assignment: Assignment) -> None:
        """Begins to host a partition. One whose files cannot be opened is cut off; the others go on."""
        machine = self._machine_of(group, assignment)
        try:
            if self._consensus.preload(group, machine, partial(self._loaded, group, machine)):
                self._loading[group] = machine
            else:
                self._begin(group, assignment, machine, None)
        except Exception as failure:
            self._consensus.fail(group, failure)

    def _machine_of(self, group: GroupId, assignment: Assignment) -> WatchedMachine:
        """The simulator puts one here that compares every step with a model."""
        return WatchedMachine(self._describe)

    def _loaded(self, group: GroupId, machine: WatchedMachine, result: StoredState | FlotillaError) -> None:
        """The state was read. The metadata may have changed meanwhile."""
        if self._loading.get(group) is not machine:
            # The group was dropped.
            return
        del self._loading[group]
        assignment = self._catalog.machine.state.assignments_to(self._node).get(group)
        if assignment is None or self._consensus.has_failed(group):
            return
        try:
            if isinstance(result, FlotillaError):
                raise result
            self._begin(group, assignment, machine, result)
        except Exception as failure:
            self._consensus.fail(group, failure)

    def _begin(
        self, group: GroupId, assignment: Assignment, machine: WatchedMachine, loaded: StoredState | None
    ) -> None:
        place = assignment.place
        topic = self._catalog.machine.state.topics[assignment.topic_id]
        voters = tuple(sorted(place.founders)) if place.may_found(self._node) else ()
        # The partitions of one leader have different heirs.
        options = replace(self._options, raft=replace(self._options.raft, succession_turn=group))
        self._consensus.host(group, Configuration(voters=voters), machine, options, loaded)
        replica = self._consensus.replica(group)
        assert replica is not None
        containment = Containment(self._consensus, group)
        outside = ContainedOutside(self._outside, containment)
        elsewhere = ContainedElsewhere(self._queues.elsewhere, containment)
        self.hosts[group] = PartitionHost(
            assignment.partition,
            topic,
            replica,
            machine,
            self._consensus,
            outside,
            self._catalog.explain,
            self._queues._replace(outside=outside, elsewhere=elsewhere),
            self._decisions,
            self._is_informed,
            self._opener,
        )
        if place.wanted[0] == self._node and replica.raft.leader == NO_NODE:
            self._campaign(group, CAMPAIGNS_MAX)

    def _campaign(self, group: GroupId, left: int) -> None:
        """Stands for election in a new group without waiting for a timeout; again while others do not host it yet."""
        replica = self._consensus.replica(group)
        if replica is None or replica.raft.leader != NO_NODE or replica.raft.role == CANDIDATE:
            return
        self._consensus.campaign(group)
        if left > 1:
            self._outside.later(CAMPAIGN_MS, lambda: self._campaign(group, left - 1))

    def group_failed(self, group: GroupId) -> None:
        """The group was cut off on this node: other replicas serve its partition."""
        host = self.hosts.pop(group, None)
        if host is not None:
            host.close(UnavailableError("this replica failed and is out of operation until its node starts again"))

    def _drop_dead(self) -> None:
        for tombstone in self._catalog.machine.state.tombstones_for(self._node):
            reason = self._gone(tombstone.group)
            host = self.hosts.pop(tombstone.group, None)
            self._loading.pop(tombstone.group, None)
            if host is not None:
                host.close(reason)
            if self._consensus.holds(tombstone.group):
                self._consensus.drop(tombstone.group, reason)
                self._just_dropped[tombstone.group] = None

    def _gone(self, group: GroupId) -> FlotillaError:
        """The error for requests that still come here."""
        assignment = self._catalog.machine.state.assignments.get(group)
        if assignment is None:
            return NotFoundError("the topic was deleted")
        return self._catalog.not_leader(self._catalog.likely_leader(assignment.replicas))

    def check(self, now_ms: int) -> None:
        """Confirms what was dropped before the last check (it is durable by now); retries what could not begin."""
        self._confirm_removed(now_ms)
        self._just_dropped.clear()
        if self._missing and not self._is_asking:
            self.reconcile()
        self._check_all()
        # Not by cluster time, which a node that has just started may still have to put right.
        steady_ms = self._outside.steady_ms()
        if steady_ms >= self._confirm_ms:
            self._confirm_ms = steady_ms + CONFIRM_MS
            self._confirm_transactions()

    def _is_informed(self) -> bool:
        """Whether this node knows the metadata up to INFORMED_MS ago; if not, it asks for them.

        A node that has just started knows what its last snapshot knew, and there may be new holders since.
        """
        now_ms = self._outside.steady_ms()
        if self._informed_ms is not None and now_ms - self._informed_ms < INFORMED_MS:
            return True
        if not self._is_learning:
            self._is_learning = True
            self._consensus.read(METADATA_GROUP, DescribeCluster(), lambda result: self._learned(now_ms, result))
        return False

    def _learned(self, asked_ms: int, result: object) -> None:
        self._is_learning = False
        if not isinstance(result, FlotillaError):
            self._informed_ms = asked_ms
            # The next check may be far away.
            self._outside.later(0, self._check_all)

    def _check_all(self) -> None:
        """A round that is under way goes on instead."""
        if not self._is_checking:
            self._is_checking = True
            in_slices(self._outside, list(self.hosts), self._check_host, self._all_checked)

    def _check_host(self, group: GroupId) -> None:
        host = self.hosts.get(group)
        if host is not None:
            Containment(self._consensus, group).run(partial(host.check, self._outside.now_ms()))

    def _all_checked(self) -> None:
        self._is_checking = False

    def _confirm_transactions(self) -> None:
        """Reminds partitions: a confirmation may be lost, and a partition without a part does not look for it."""
        table = self._catalog.transactions()
        for group, host in list(self.hosts.items()):
            waiting = list(table.waiting_for(group))
            if waiting:
                host.confirm_transactions(waiting)

    def _confirm_removed(self, now_ms: int) -> None:
        """Repeated until the tombstone is gone; a second confirmation is harmless."""
        groups = tuple(
            tombstone.group
            for tombstone in self._catalog.machine.state.tombstones_for(self._node)
            if tombstone.group not in self._just_dropped and not self._consensus.holds(tombstone.group)
        )
        if groups:
            self._catalog.forward(ConfirmRemoved(self._node, groups, now_ms))

    def close(self, reason: FlotillaError) -> None:
        """The node stops: answers waiting fetches. Pending writes still get their answers."""
        for host in self.hosts.values():
            host.release_polls(reason)
