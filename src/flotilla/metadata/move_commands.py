"""What can happen to where partitions live: plans, their ends, disks that are lost. Commands and their fields as bytes.

The head of a command is told in `commands`; here are the fields behind it, in the order of each class.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from flotilla.metadata.binary import Reader, Writer
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


MoveCommand: TypeAlias = PlanMoves | FinishMove | SetIncarnation | ConfirmLost | ResizeTopic

_PLAN_MOVES: Final = 25
_FINISH_MOVE: Final = 26
_SET_INCARNATION: Final = 27
_CONFIRM_LOST: Final = 28
_RESIZE_TOPIC: Final = 29
MOVE_KINDS: Final = (_PLAN_MOVES, _FINISH_MOVE, _SET_INCARNATION, _CONFIRM_LOST, _RESIZE_TOPIC)


def write_move_fields(command: MoveCommand, writer: Writer) -> int:
    """Writes a command's own fields and tells its kind."""
    match command:
        case PlanMoves():
            writer.integer(len(command.targets))
            for group, target in command.targets:
                writer.integer(group)
                writer.integers(target)
            return _PLAN_MOVES
        case FinishMove():
            writer.integer(command.group)
            writer.integer(command.move)
            return _FINISH_MOVE
        case SetIncarnation():
            writer.integer(command.node)
            writer.integer(command.incarnation)
            writer.integer(int(command.is_replaced))
            return _SET_INCARNATION
        case ConfirmLost():
            writer.integer(command.group)
            writer.integer(command.node)
            writer.integer(command.incarnation)
            return _CONFIRM_LOST
        case ResizeTopic():
            writer.text(command.name)
            writer.integer(command.replication_factor)
            return _RESIZE_TOPIC


def read_move_fields(kind: int, reader: Reader, now_ms: int) -> MoveCommand:
    """Raises InvalidArgumentError. The kind is one of MOVE_KINDS."""
    if kind == _PLAN_MOVES:
        return PlanMoves(tuple([(reader.integer(), reader.integers()) for _ in range(reader.count())]), now_ms)
    if kind == _FINISH_MOVE:
        return FinishMove(reader.integer(), reader.integer(), now_ms)
    if kind == _SET_INCARNATION:
        return SetIncarnation(reader.integer(), reader.integer(), bool(reader.integer()), now_ms)
    if kind == _CONFIRM_LOST:
        return ConfirmLost(reader.integer(), reader.integer(), reader.integer(), now_ms)
    assert kind == _RESIZE_TOPIC
    return ResizeTopic(reader.text(), reader.integer(), now_ms)
