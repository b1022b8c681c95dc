"""Everything that can happen to the cluster's metadata: one value type per command, and its bytes.

Little endian, 32 bytes of head, then the command's own fields in the order of its class (`binary`):

    offset size field      meaning
         0   1  version    of this layout: 1
         1   1  kind       which command; a number is never given to another one
         2   6  zero
         8   8  now_ms     the leader's time when it proposed the command
        16  14  zero
        30   2  magic      0x444D ("MD"), where a record batch keeps its own: no command looks like a batch

Encoding asserts what `check` functions and types promise; decoding is total and raises
InvalidArgumentError for anything else. The sense of a command is for the machine to judge.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from flotilla.metadata.binary import Reader, Writer
from flotilla.metadata.move_commands import (
    MOVE_KINDS,
    ConfirmLost,
    FinishMove,
    PlanMoves,
    ResizeTopic,
    SetIncarnation,
    read_move_fields,
    write_move_fields,
)
from flotilla.metadata.stream_commands import (
    STREAM_KINDS,
    FenceStreamGroup,
    ForgetStreamGroup,
    JoinStreamGroup,
    ReleasePartitions,
    RemoveStreamMembers,
    read_stream_fields,
    write_stream_fields,
)
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import GroupId, NodeId

VERSION: Final = 1
MAGIC: Final = 0x444D

_HEAD = Struct("<BB6xQ14xH")
HEAD_BYTES: Final = _HEAD.size
assert HEAD_BYTES == 32


@dataclass(frozen=True, slots=True)
class InitCluster:
    """Gives the cluster its id, once. Repeating it word for word is fine."""

    cluster_id: str
    founders: tuple[NodeId, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A node tells where it can be reached; it does so at every start."""

    cluster_id: str
    node: NodeId
    client_address: str
    peer_address: str
    http_address: str
    grpc_address: str
    version: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class SetBrokerState:
    """Has a broker drain or leave, or ends that."""

    node: NodeId
    state: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveBroker:
    """A broker without replicas leaves for good: its id is never taken again."""

    node: NodeId
    now_ms: int


@dataclass(frozen=True, slots=True)
class CreateTopic:
    name: str
    partitions: int
    replication_factor: int
    #: Only what differs from the table of settings.
    settings: tuple[tuple[str, int], ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class AlterTopic:
    name: str
    #: What is set anew, and the names of what goes back to the table.
    settings: tuple[tuple[str, int], ...]
    reset: tuple[str, ...]
    #: How many there shall be in all; 0 leaves it as it is.
    partitions: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    name: str
    #: When not 0, only the topic of this id is meant, not a later one of the same name.
    topic_id: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmRemoved:
    """A node has removed its data of these groups, durably."""

    node: NodeId
    groups: tuple[GroupId, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class AlterGroup:
    """Settings of one queue group of a topic, for all its partitions."""

    topic: str
    group: str
    #: What is set anew, and the names of what follows the topic again.
    settings: tuple[tuple[str, int], ...]
    reset: tuple[str, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class DecideTransaction:
    """Commits a transaction or aborts it, for all its partitions. The first decision stands."""

    transaction_id: str
    #: With its version: what an application has committed before is done already. Empty: no such promise.
    application_id: str
    version: int
    #: The partitions that hold stages of it.
    groups: tuple[GroupId, ...]
    is_commit: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class CommitTogether:
    """Commits several transactions by one decision, which has an id of its own: all of them, or none."""

    transaction_id: str
    #: As of a single transaction, for all of them at once.
    application_id: str
    version: int
    #: Id of each, and the partitions that hold stages of it.
    members: tuple[tuple[str, tuple[GroupId, ...]], ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmTransaction:
    """Partitions show these transactions, or have dropped what they held of them."""

    confirmed: tuple[tuple[str, GroupId], ...]
    now_ms: int


Command: TypeAlias = (
    InitCluster
    | RegisterBroker
    | SetBrokerState
    | RemoveBroker
    | CreateTopic
    | AlterTopic
    | DeleteTopic
    | ConfirmRemoved
    | PlanMoves
    | FinishMove
    | SetIncarnation
    | ConfirmLost
    | ResizeTopic
    | AlterGroup
    | DecideTransaction
    | ConfirmTransaction
    | CommitTogether
    | JoinStreamGroup
    | RemoveStreamMembers
    | ReleasePartitions
    | FenceStreamGroup
    | ForgetStreamGroup
)

_INIT_CLUSTER: Final = 1
_REGISTER_BROKER: Final = 2
_SET_BROKER_STATE: Final = 3
_REMOVE_BROKER: Final = 4
_CREATE_TOPIC: Final = 5
_ALTER_TOPIC: Final = 6
_DELETE_TOPIC: Final = 7
_CONFIRM_REMOVED: Final = 8
# 9 was never written.
_ALTER_GROUP: Final = 10
_DECIDE_TRANSACTION: Final = 11
_CONFIRM_TRANSACTION: Final = 12
_COMMIT_TOGETHER: Final = 13


def encode_command(command: Command) -> bytes:
    """The body of a log entry. The same command always gives the same bytes."""
    writer = Writer()
    kind = _write_fields(command, writer)
    return _HEAD.pack(VERSION, kind, command.now_ms, MAGIC) + writer.finish()


def _write_fields(command: Command, writer: Writer) -> int:
    """Writes a command's own fields and tells its kind."""
    match command:
        case InitCluster():
            writer.text(command.cluster_id)
            writer.integers(command.founders)
            return _INIT_CLUSTER
        case RegisterBroker():
            writer.text(command.cluster_id)
            writer.integer(command.node)
            writer.text(command.client_address)
            writer.text(command.peer_address)
            writer.text(command.http_address)
            writer.text(command.grpc_address)
            writer.text(command.version)
            return _REGISTER_BROKER
        case SetBrokerState():
            writer.integer(command.node)
            writer.integer(command.state)
            return _SET_BROKER_STATE
        case RemoveBroker():
            writer.integer(command.node)
            return _REMOVE_BROKER
        case CreateTopic():
            writer.text(command.name)
            writer.integer(command.partitions)
            writer.integer(command.replication_factor)
            writer.pairs(command.settings)
            return _CREATE_TOPIC
        case AlterTopic():
            writer.text(command.name)
            writer.pairs(command.settings)
            writer.texts(command.reset)
            writer.integer(command.partitions)
            return _ALTER_TOPIC
        case DeleteTopic():
            writer.text(command.name)
            writer.integer(command.topic_id)
            return _DELETE_TOPIC
        case ConfirmRemoved():
            writer.integer(command.node)
            writer.integers(command.groups)
            return _CONFIRM_REMOVED
        case AlterGroup():
            writer.text(command.topic)
            writer.text(command.group)
            writer.pairs(command.settings)
            writer.texts(command.reset)
            return _ALTER_GROUP
        case DecideTransaction():
            writer.text(command.transaction_id)
            writer.text(command.application_id)
            writer.integer(command.version)
            writer.integers(command.groups)
            writer.integer(int(command.is_commit))
            return _DECIDE_TRANSACTION
        case ConfirmTransaction():
            writer.pairs(command.confirmed)
            return _CONFIRM_TRANSACTION
        case PlanMoves() | FinishMove() | SetIncarnation() | ConfirmLost() | ResizeTopic():
            return write_move_fields(command, writer)
        case CommitTogether():
            writer.text(command.transaction_id)
            writer.text(command.application_id)
            writer.integer(command.version)
            writer.integer(len(command.members))
            for transaction_id, groups in command.members:
                writer.text(transaction_id)
                writer.integers(groups)
            return _COMMIT_TOGETHER
        case JoinStreamGroup() | RemoveStreamMembers() | ReleasePartitions() | FenceStreamGroup() | ForgetStreamGroup():
            return write_stream_fields(command, writer)


def decode_command(data: bytes | memoryview) -> Command:
    """Raises InvalidArgumentError for bytes that `encode_command` did not make."""
    if len(data) < HEAD_BYTES:
        raise InvalidArgumentError(f"{len(data)} bytes are too few for a metadata command")
    version, kind, now_ms, magic = _HEAD.unpack_from(data)
    if version != VERSION or magic != MAGIC:
        raise InvalidArgumentError(f"no metadata command of version {VERSION}")
    reader = Reader(data, HEAD_BYTES)
    command = _read_fields(kind, reader, now_ms)
    reader.finish()
    return command


def _read_fields(kind: int, reader: Reader, now_ms: int) -> Command:
    # Arguments are evaluated from left to right, which is the order in which they were written.
    if kind == _INIT_CLUSTER:
        return InitCluster(reader.text(), reader.integers(), now_ms)
    if kind == _REGISTER_BROKER:
        return RegisterBroker(
            reader.text(),
            reader.integer(),
            reader.text(),
            reader.text(),
            reader.text(),
            reader.text(),
            reader.text(),
            now_ms,
        )
    if kind == _SET_BROKER_STATE:
        return SetBrokerState(reader.integer(), reader.integer(), now_ms)
    if kind == _REMOVE_BROKER:
        return RemoveBroker(reader.integer(), now_ms)
    if kind == _CREATE_TOPIC:
        return CreateTopic(reader.text(), reader.integer(), reader.integer(), reader.pairs(), now_ms)
    if kind == _ALTER_TOPIC:
        return AlterTopic(reader.text(), reader.pairs(), reader.texts(), reader.integer(), now_ms)
    if kind == _DELETE_TOPIC:
        return DeleteTopic(reader.text(), reader.integer(), now_ms)
    if kind == _CONFIRM_REMOVED:
        return ConfirmRemoved(reader.integer(), reader.integers(), now_ms)
    if kind == _ALTER_GROUP:
        return AlterGroup(reader.text(), reader.text(), reader.pairs(), reader.texts(), now_ms)
    if kind == _DECIDE_TRANSACTION:
        return DecideTransaction(
            reader.text(), reader.text(), reader.integer(), reader.integers(), bool(reader.integer()), now_ms
        )
    if kind == _CONFIRM_TRANSACTION:
        return ConfirmTransaction(reader.pairs(), now_ms)
    if kind == _COMMIT_TOGETHER:
        return CommitTogether(reader.text(), reader.text(), reader.integer(), _read_members(reader), now_ms)
    if kind in STREAM_KINDS:
        return read_stream_fields(kind, reader, now_ms)
    if kind in MOVE_KINDS:
        return read_move_fields(kind, reader, now_ms)
    raise InvalidArgumentError(f"unknown metadata command {kind}")


def _read_members(reader: Reader) -> tuple[tuple[str, tuple[GroupId, ...]], ...]:
    return tuple([(reader.text(), reader.integers()) for _ in range(reader.count())])
