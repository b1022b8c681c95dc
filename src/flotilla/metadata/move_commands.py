"""The commands that move partitions and report lost disks. `commands` knows their bytes."""

from dataclasses import dataclass

from flotilla.types.ids import GroupId, NodeId


@dataclass(frozen=True, slots=True)
class PlanMoves:
    """The target replicas of partitions. Their leaders move them; a later plan replaces this one."""

    #: The preferred leader first.
    targets: tuple[tuple[GroupId, tuple[NodeId, ...]], ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class FinishMove:
    """The group has the members of the move's target. Other nodes with data of it get a tombstone."""

    group: GroupId
    #: Its number: the end of an earlier move does not end a later one.
    move: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class SetIncarnation:
    """The data directory that a node runs on. With `is_replaced`, the data of the previous one is lost."""

    node: NodeId
    incarnation: int
    is_replaced: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmLost:
    """The group has removed a node that lost its disk from its members: the node may start again."""

    group: GroupId
    node: NodeId
    #: Of the new directory: the confirmation of an earlier loss does not count for a later one.
    incarnation: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class ResizeTopic:
    """Changes the number of replicas of all partitions of a topic: plans the moves."""

    name: str
    replication_factor: int
    now_ms: int
