"""The queries of the cluster's metadata. The docstring of each is its answer."""

from dataclasses import dataclass

from flotilla.types.ids import GroupId, NodeId


@dataclass(frozen=True, slots=True)
class DescribeCluster:
    """A Cluster."""


@dataclass(frozen=True, slots=True)
class ListBrokers:
    """A list of Broker, by node id."""


@dataclass(frozen=True, slots=True)
class ListTopics:
    """A list of Topic, the oldest first."""


@dataclass(frozen=True, slots=True)
class TopicByName:
    """A Topic or None."""

    name: str


@dataclass(frozen=True, slots=True)
class TopicById:
    """A Topic or None."""

    topic_id: int


@dataclass(frozen=True, slots=True)
class AssignmentOf:
    """The Assignment of a group, or None when no partition has it."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class AssignmentsTo:
    """Group id to Assignment, ascending: every replica of a node, present or planned."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class TombstonesFor:
    """A list of Tombstone by group id: the data that a node has to remove and confirm."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class TransactionById:
    """The Transaction as it was decided; None: it is undecided, or forgotten."""

    transaction_id: str


@dataclass(frozen=True, slots=True)
class ListSchedules:
    """A list of Schedule, the oldest first."""


@dataclass(frozen=True, slots=True)
class StateHash:
    """A hexadecimal digest, equal on all replicas that applied the same entries."""
