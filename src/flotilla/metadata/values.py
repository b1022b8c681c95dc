"""The values of the cluster's metadata: brokers, topics, partitions, tombstones.

All values are frozen: a caller may keep the answer of a query while the state changes.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from flotilla.types.group_settings import GroupRules, resolve_rules
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.topics import TopicSettings, resolve_settings

#: Lower group ids are reserved for the system (1: this state machine).
FIRST_PARTITION_GROUP: Final[GroupId] = 16

#: A broker's state. A draining broker gets no new replicas and hands over those that it has; a leaving one does the
#: same, and is removed when it is empty.
ACTIVE: Final = 1
DRAINING: Final = 2
LEAVING: Final = 3

#: Settings that differ from the defaults, in the order of their table.
Chosen: TypeAlias = tuple[tuple[str, int], ...]
#: The same of a group: some of its settings are texts.
GroupChosen: TypeAlias = tuple[tuple[str, int | str], ...]


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
    #: The id of its data directory, drawn when the directory was created. 0: unknown.
    incarnation: int = 0
    #: The newest start of that directory, and the number drawn for it. 0: not counted.
    starts: int = 0
    process: int = 0


@dataclass(frozen=True, slots=True)
class Labels:
    """The machine and the zone of a node, as its settings have them; empty: it has none."""

    machine: str = ""
    zone: str = ""


NO_LABELS: Final = Labels()


@dataclass(frozen=True, slots=True)
class Move:
    """A planned change of a partition's replicas. Its leader carries it out and reports the end."""

    #: Never reused, so that the end of an earlier move is not taken for the end of this one.
    number: int
    #: The preferred leader first. It may equal the present replicas: then the move only cancels another one.
    target: tuple[NodeId, ...]
    #: Nodes of earlier targets: they may be members, and keep their data until the leader confirms that they are not.
    guests: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition and its Raft group. The first replica is the preferred leader."""

    number: int
    group: GroupId
    replicas: tuple[NodeId, ...]
    #: The first voters of the group.
    founders: tuple[NodeId, ...] = ()
    #: Founders whose data was removed or lost since: they start again with an empty log, like any other node.
    latecomers: tuple[NodeId, ...] = ()
    #: Hosts whose disk was lost: they start no replica before the group's leader confirms that they are no members.
    lost: tuple[NodeId, ...] = ()
    move: Move | None = None

    @property
    def wanted(self) -> tuple[NodeId, ...]:
        """The replicas when the planned move is done."""
        return self.replicas if self.move is None else self.move.target

    @property
    def hosts(self) -> tuple[NodeId, ...]:
        """All nodes that may hold data of it."""
        if self.move is None:
            return self.replicas
        return tuple(dict.fromkeys((*self.replicas, *self.move.target, *self.move.guests)))

    def may_found(self, node: NodeId) -> bool:
        """Whether `node` may start as one of the first voters, with an empty log and a vote at once.

        Only a node that never held data of the group may: another could vote for a leader without entries that it had.
        """
        return node in self.founders and node not in self.latecomers


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. Its id is never reused; its name may be."""

    topic_id: int
    name: str
    #: As requested; a partition has fewer replicas where there were fewer brokers.
    replication_factor: int
    chosen: Chosen
    partitions: tuple[Partition, ...]
    created_at_ms: int
    #: The partitions that it was created with. Keys are spread over these for ever, so growing moves no key.
    key_partitions: int
    #: Settings of its queue groups, by name in alphabetic order. A group need not exist to have settings.
    groups: tuple[tuple[str, GroupChosen], ...] = ()
    #: The user who created it; empty: nobody, or nobody who had said who it is.
    owner: str = ""

    @property
    def settings(self) -> TopicSettings:
        return resolve_settings(self.chosen)

    def chosen_for(self, group: str) -> GroupChosen:
        """The settings of one group that differ from the topic's."""
        return next((chosen for name, chosen in self.groups if name == group), ())

    def rules_of(self, group: str) -> GroupRules:
        """All settings in force for one group."""
        return resolve_rules(self.settings, self.chosen_for(group), group)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A partition with its topic: what a node needs to run a replica of its group."""

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
    """The order to remove a group's data at the nodes in `waiting`, which have not confirmed it yet.

    Nothing else removes data: a group that is merely unknown to a node stays where it is.
    """

    group: GroupId
    topic_id: int
    partition: int
    waiting: tuple[NodeId, ...]
    since_ms: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The identity of the cluster. Id and name are empty until the cluster is initialised."""

    #: Drawn when the cluster was founded.
    cluster_id: str
    #: As the settings of its nodes have it.
    name: str
    founders: tuple[NodeId, ...]
    initialised_at_ms: int
