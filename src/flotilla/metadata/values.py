"""What the cluster's metadata consists of: brokers, topics, partitions, tombstones.

All values are frozen: whoever got one from a query may keep it while the state moves on.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from flotilla.types.group_settings import GroupRules, resolve_rules
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.topics import TopicSettings, resolve_settings

#: Group ids of partitions start here; what is below belongs to the system (1: this state machine).
FIRST_PARTITION_GROUP: Final[GroupId] = 16

#: A broker's state. One that drains gets no new replicas and gives away what it has; one that leaves does the same,
#: and is removed when it is empty.
ACTIVE: Final = 1
DRAINING: Final = 2
LEAVING: Final = 3

#: Settings made by hand, in the order of their table.
Chosen: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Broker:
    """A node as it last registered."""

    node: NodeId
    client_address: str
    peer_address: str
    #: Empty where the broker does not serve that protocol.
    http_address: str
    grpc_address: str
    version: str
    state: int
    registered_at_ms: int
    #: Which data directory it runs on: drawn when the directory was made. 0: it has never told.
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """Where a partition shall live. Its leader gets it there and says when it is done."""

    #: Never given twice, so that nobody takes the end of an earlier move for the end of this one.
    number: int
    #: The preferred leader first. It may be what there is already: then the move only ends another one.
    target: tuple[NodeId, ...]
    #: Nodes of earlier targets: they may be members, and keep their data until the leader says that they are not.
    guests: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition and its Raft group. The first replica is the preferred leader."""

    number: int
    group: GroupId
    replicas: tuple[NodeId, ...]
    #: The voters with which the group began.
    founders: tuple[NodeId, ...] = ()
    #: Founders whose data was removed or lost since: what they begin anew is empty, like anybody else's.
    latecomers: tuple[NodeId, ...] = ()
    #: Hosts whose disk was lost: they begin nothing before the group's leader has confirmed that they are no members.
    lost: tuple[NodeId, ...] = ()
    move: Move | None = None

    @property
    def wanted(self) -> tuple[NodeId, ...]:
        """Where it lives when everything planned is done."""
        return self.replicas if self.move is None else self.move.target

    @property
    def hosts(self) -> tuple[NodeId, ...]:
        """Everybody who may hold data of it."""
        if self.move is None:
            return self.replicas
        return tuple(dict.fromkeys((*self.replicas, *self.move.target, *self.move.guests)))

    def may_found(self, node: NodeId) -> bool:
        """Whether a log that `node` begins is one of those that the group began with, and votes at once.

        Only one that never held data of the group may: anybody else could vote for what it has forgotten.
        """
        return node in self.founders and node not in self.latecomers


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. Its id is never given again; its name may be."""

    topic_id: int
    name: str
    #: As asked for; a partition has fewer replicas where there were fewer brokers.
    replication_factor: int
    #: What was set by hand, in the order of the table of settings.
    chosen: Chosen
    partitions: tuple[Partition, ...]
    created_at_ms: int
    #: What was set for its queue groups, by name in alphabetic order. A group need not exist to be set up.
    groups: tuple[tuple[str, Chosen], ...] = ()

    @property
    def settings(self) -> TopicSettings:
        return resolve_settings(self.chosen)

    def chosen_for(self, group: str) -> Chosen:
        """What was set by hand for one group."""
        return next((chosen for name, chosen in self.groups if name == group), ())

    def rules_of(self, group: str) -> GroupRules:
        """What is in force for one group."""
        return resolve_rules(self.settings, self.chosen_for(group))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a node needs to know of a group to run its replica."""

    topic_id: int
    place: Partition

    @property
    def partition(self) -> int:
        return self.place.number

    @property
    def replicas(self) -> tuple[NodeId, ...]:
        return self.place.replicas


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The order to remove a group's data at the nodes in `waiting`, who have not confirmed it yet.

    Nothing else removes data: a group that is merely unknown to a node stays where it is.
    """

    group: GroupId
    topic_id: int
    partition: int
    waiting: tuple[NodeId, ...]
    since_ms: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who this cluster is. The id is empty until the cluster has been initialised."""

    cluster_id: str
    founders: tuple[NodeId, ...]
    initialised_at_ms: int
