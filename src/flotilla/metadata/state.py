"""The tables of the cluster's metadata and the indexes beside them.

Owns consistency, not validity: callers of a mutator have checked the command. The indexes (names, groups, replicas and
load of each node, data that each node must remove) follow every change, so that describing one topic among many or
listing one node's replicas does not scan all of them.

Invariants, asserted where they could break:
1. topic ids and group ids only grow and are never reused;
2. no node is both a host of a group and named by a tombstone of it;
3. a node with replicas is a broker.

A node that may hold data of a group is a host of it until the group's leader has confirmed that it is no member: a move
that another one replaces keeps its nodes among the hosts, and only the end of a move creates tombstones.
"""

from collections.abc import Iterable
from dataclasses import replace

from flotilla.metadata.placement import Load, Sites, site
from flotilla.metadata.scheduling.schedules import ScheduleTable
from flotilla.metadata.security.join_tokens import JoinTokenTable
from flotilla.metadata.security.users import SecurityTable
from flotilla.metadata.stream_groups import StreamGroupTable
from flotilla.metadata.transactions import TransactionTable
from flotilla.metadata.values import (
    FIRST_PARTITION_GROUP,
    NO_LABELS,
    Assignment,
    Broker,
    Cluster,
    Labels,
    Move,
    Partition,
    Tombstone,
    Topic,
)
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations.quotas import Quota
from flotilla.types.version import FIRST

_NO_CLUSTER = Cluster("", "", (), 0)


class ClusterState:
    """The state of the cluster, without its history."""

    __slots__ = (
        "_assigned",
        "_leaders",
        "_replicas",
        "_tombstoned",
        "assignments",
        "brokers",
        "cluster",
        "cluster_version",
        "join_tokens",
        "labels",
        "moves",
        "names",
        "next_group",
        "next_move",
        "next_topic_id",
        "removed_nodes",
        "schedules",
        "security",
        "streams",
        "tombstones",
        "topics",
        "transactions",
    )

    def __init__(self) -> None:
        self.cluster = _NO_CLUSTER
        #: What every node can read (`types/version`). Never goes down.
        self.cluster_version = FIRST
        self.brokers: dict[NodeId, Broker] = {}
        #: Of nodes that have any; of some before they are brokers.
        self.labels: dict[NodeId, Labels] = {}
        #: Brokers that left, and when. Their ids are not used again: a node with an empty disk and a known id could
        #: vote for a leader without entries that it had stored.
        self.removed_nodes: dict[NodeId, int] = {}
        #: By id, which is also the order of creation: altering replaces in place.
        self.topics: dict[int, Topic] = {}
        self.tombstones: dict[GroupId, Tombstone] = {}
        self.transactions = TransactionTable()
        self.streams = StreamGroupTable()
        self.schedules = ScheduleTable()
        self.security = SecurityTable()
        self.join_tokens = JoinTokenTable()
        self.next_topic_id = 1
        self.next_group: GroupId = FIRST_PARTITION_GROUP
        self.next_move = 1
        # Indexes.
        self.names: dict[str, int] = {}
        self.assignments: dict[GroupId, Assignment] = {}
        #: Groups by the number of the move in progress.
        self.moves: dict[int, GroupId] = {}
        self._assigned: dict[NodeId, dict[GroupId, None]] = {}
        self._replicas: dict[NodeId, int] = {}
        self._leaders: dict[NodeId, int] = {}
        self._tombstoned: dict[NodeId, dict[GroupId, None]] = {}

    # Questions.

    def topic(self, name: str) -> Topic | None:
        topic_id = self.names.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def node_count(self) -> int:
        """Registered brokers, and founders that will register, without removed nodes."""
        return len({*self.brokers, *self.cluster.founders} - self.removed_nodes.keys())

    def missing_replicas(self, assignment: Assignment) -> int:
        """How many replicas a partition has fewer than its topic asks for. No topic can have more than nodes."""
        wanted = min(self.topics[assignment.topic_id].replication_factor, self.node_count())
        return max(0, wanted - len(assignment.place.replicas))

    def partitions_under(self, quota: Quota) -> int:
        """How many partitions count for it."""
        return sum([len(each.partitions) for each in self.topics.values() if quota.covers(each.name, each.owner)])

    def load(self, node: NodeId) -> Load:
        """The load when all planned moves are done."""
        return Load(self._replicas.get(node, 0), self._leaders.get(node, 0))

    def sites(self) -> Sites:
        """Where the nodes are, for placement."""
        return {
            node: site(node, machine=labels.machine, zone=labels.zone) for node, labels in sorted(self.labels.items())
        }

    def assignments_to(self, node: NodeId) -> dict[GroupId, Assignment]:
        """All groups of which the node may hold data, present and planned."""
        return {group: self.assignments[group] for group in sorted(self._assigned.get(node, ()))}

    def assigned_count(self, node: NodeId) -> int:
        """How many groups `assignments_to` has."""
        return len(self._assigned.get(node, ()))

    def tombstones_for(self, node: NodeId) -> list[Tombstone]:
        return [self.tombstones[group] for group in sorted(self._tombstoned.get(node, ()))]

    # Changes.

    def put_broker(self, broker: Broker) -> None:
        assert broker.node not in self.removed_nodes
        self.brokers[broker.node] = broker

    def put_labels(self, node: NodeId, labels: Labels) -> None:
        if labels == NO_LABELS:
            self.labels.pop(node, None)
        else:
            self.labels[node] = labels

    def remove_broker(self, node: NodeId, now_ms: int) -> None:
        """Its unconfirmed removals count as confirmed: that disk never returns."""
        assert not self._assigned.get(node), "a broker with replicas cannot leave"
        for tombstone in self.tombstones_for(node):
            self.confirm_removed(tombstone.group, node)
        del self.brokers[node]
        self.labels.pop(node, None)
        self.removed_nodes[node] = now_ms

    def new_partitions(self, first: int, placed: Iterable[tuple[NodeId, ...]]) -> tuple[Partition, ...]:
        """Partitions numbered from `first`, each with a group id of its own. They belong to no topic yet."""
        partitions = []
        for number, replicas in enumerate(placed, first):
            partitions.append(Partition(number, self.next_group, replicas, founders=replicas))
            self.next_group += 1
        return tuple(partitions)

    def gather(self, broker: Broker) -> None:
        """A new cluster begins with one broker, which holds all partitions. No other node ever belonged to it."""
        self.brokers[broker.node] = broker
        for assignment in list(self.assignments.values()):
            alone = (broker.node,)
            self._put_place(
                replace(assignment.place, replicas=alone, founders=alone, latecomers=(), lost=(), move=None)
            )
        self.brokers = {broker.node: broker}
        self.removed_nodes = {}
        self.labels = {}
        self.tombstones, self._tombstoned = {}, {}
        self.join_tokens = JoinTokenTable()

    def put_topic(self, topic: Topic) -> None:
        """A new topic, or a known one with other settings or more partitions."""
        known = self.topics.get(topic.topic_id)
        if known is None:
            assert topic.name not in self.names, "a name belongs to one topic"
            assert topic.topic_id >= self.next_topic_id, "a topic id is never reused"
            self.next_topic_id = topic.topic_id + 1
            self.names[topic.name] = topic.topic_id
        added = topic.partitions[len(known.partitions) :] if known is not None else topic.partitions
        self.topics[topic.topic_id] = topic
        for partition in added:
            self._assign(partition.group, Assignment(topic.topic_id, partition))

    def remove_topic(self, topic: Topic, now_ms: int) -> None:
        """Leaves a tombstone for each group at each of its hosts."""
        del self.topics[topic.topic_id]
        del self.names[topic.name]
        self.streams.drop_topic(topic.topic_id)
        for partition in topic.partitions:
            assignment = self._unassign(partition.group)
            self.transactions.release(partition.group, now_ms)
            self.add_tombstone(partition.group, assignment, assignment.place.hosts, now_ms)

    def plan_move(self, group: GroupId, target: tuple[NodeId, ...]) -> Partition:
        """No effect if the partition has this target, or moves to it already."""
        place = self.assignments[group].place
        if place.wanted == target:
            return place
        guests = tuple(node for node in place.hosts if node not in place.replicas and node not in target)
        move = Move(self.next_move, target, guests)
        self.next_move += 1
        return self._put_place(replace(place, move=move))

    def finish_move(self, group: GroupId, now_ms: int) -> Partition:
        before = self.assignments[group]
        place = before.place
        assert place.move is not None
        target = place.move.target
        dropped = tuple(node for node in place.hosts if node not in target)
        after = replace(
            place,
            replicas=target,
            latecomers=_with(place.latecomers, [node for node in dropped if node in place.founders]),
            lost=tuple(node for node in place.lost if node in target),
            move=None,
        )
        self._put_place(after)
        if dropped:
            self.add_tombstone(group, before, dropped, now_ms)
        return after

    def lose_disk(self, node: NodeId) -> None:
        """The node's data of all groups is lost, and its votes with it."""
        for group in list(self._assigned.get(node, ())):
            place = self.assignments[group].place
            late = [node] if node in place.founders else []
            self._put_place(replace(place, lost=_with(place.lost, [node]), latecomers=_with(place.latecomers, late)))

    def confirm_lost(self, group: GroupId, node: NodeId) -> None:
        place = self.assignments[group].place
        self._put_place(replace(place, lost=tuple(other for other in place.lost if other != node)))

    def _put_place(self, place: Partition) -> Partition:
        topic_id = self._unassign(place.group).topic_id
        topic = self.topics[topic_id]
        partitions = (*topic.partitions[: place.number], place, *topic.partitions[place.number + 1 :])
        self.topics[topic_id] = replace(topic, partitions=partitions)
        self._assign(place.group, Assignment(topic_id, place))
        return place

    def add_tombstone(self, group: GroupId, assignment: Assignment, nodes: tuple[NodeId, ...], now_ms: int) -> None:
        """Orders `nodes` to remove their data of `group`; a group has at most one tombstone."""
        known = self.tombstones.get(group)
        waiting = tuple(sorted({*nodes, *known.waiting})) if known is not None else tuple(sorted(nodes))
        self.put_tombstone(Tombstone(group, assignment.topic_id, assignment.partition, waiting, now_ms))

    def put_tombstone(self, tombstone: Tombstone) -> None:
        live = self.assignments.get(tombstone.group)
        self.tombstones[tombstone.group] = tombstone
        for node in tombstone.waiting:
            assert live is None or node not in live.place.hosts, "a live replica must not be removed"
            self._tombstoned.setdefault(node, {})[tombstone.group] = None

    def confirm_removed(self, group: GroupId, node: NodeId) -> None:
        """A repeated confirmation has no effect."""
        tombstone = self.tombstones.get(group)
        if tombstone is None or node not in tombstone.waiting:
            return
        _forget(self._tombstoned, node, group)
        waiting = tuple(other for other in tombstone.waiting if other != node)
        if waiting:
            self.tombstones[group] = replace(tombstone, waiting=waiting)
        else:
            del self.tombstones[group]

    def _assign(self, group: GroupId, assignment: Assignment) -> None:
        assert group not in self.assignments, "a group belongs to one partition"
        place = assignment.place
        assert place.wanted, "a partition has a replica"
        self.assignments[group] = assignment
        if place.move is not None:
            self.moves[place.move.number] = group
        leader = place.wanted[0]
        self._leaders[leader] = self._leaders.get(leader, 0) + 1
        for node in place.wanted:
            self._replicas[node] = self._replicas.get(node, 0) + 1
        for node in place.hosts:
            assert node in self.brokers, "only a broker holds replicas"
            self._assigned.setdefault(node, {})[group] = None

    def _unassign(self, group: GroupId) -> Assignment:
        assignment = self.assignments.pop(group)
        place = assignment.place
        if place.move is not None:
            del self.moves[place.move.number]
        self._leaders[place.wanted[0]] -= 1
        for node in place.wanted:
            self._replicas[node] -= 1
        for node in place.hosts:
            _forget(self._assigned, node, group)
        return assignment


def _with(nodes: tuple[NodeId, ...], more: list[NodeId]) -> tuple[NodeId, ...]:
    return tuple(sorted({*nodes, *more}))


def _forget(index: dict[NodeId, dict[GroupId, None]], node: NodeId, group: GroupId) -> None:
    groups = index[node]
    del groups[group]
    if not groups:
        del index[node]
