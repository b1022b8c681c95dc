"""What can happen to where partitions live: plans, their ends, disks that are lost. Commands and their fields as bytes.

The head of a command is told in `commands`; here are the fields behind it, in the order of each class.
"""

from dataclasses import dataclass

from flotilla.types.ids import GroupId, NodeId


@dataclass(frozen=True, slots=True)
class PlanMoves:
    """Where partitions shall live. Their leaders get them there; another plan takes the place of this one."""

    #: The preferred leader first.
    targets: tuple[tuple[GroupId, tuple[NodeId, ...]], ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class FinishMove:
    """The members of a group are those of the move's target. Who holds data of it besides gets a tombstone."""

    group: GroupId
    #: Its number: the end of an earlier move does not end this one.
    move: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class SetIncarnation:
    """Which data directory a node runs on. With `is_replaced`, what it held on the one before is lost."""

    node: NodeId
    incarnation: int
    is_replaced: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmLost:
    """A group whose node lost its disk has removed that node from its members: it may begin anew."""

    group: GroupId
    node: NodeId
    #: The one that it begins anew with: a word about an earlier loss does not count for a later one.
    incarnation: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class ResizeTopic:
    """Another number of replicas for all partitions of a topic: plans the moves that it takes."""

    name: str
    replication_factor: int
    now_ms: int
