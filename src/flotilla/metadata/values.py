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

#: A broker's state. One that drains gets no new replicas, so that it can become empty and leave.
ACTIVE: Final = 1
DRAINING: Final = 2


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


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition and its Raft group. The first replica is the preferred leader."""

    number: int
    group: GroupId
    replicas: tuple[NodeId, ...]


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
    partition: int
    replicas: tuple[NodeId, ...]


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
