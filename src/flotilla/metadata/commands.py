"""The commands of the cluster's metadata: one value type per command, and its bytes.

Little endian, 32 bytes of head, then the command's own fields in the order of its class (`layout`):

    offset size field      meaning
         0   1  version    of this layout: 1
         1   1  kind       the command; a number is never reused
         2   6  zero
         8   8  now_ms     the leader's time when it proposed the command
        16  14  zero
        30   2  magic      0x444D ("MD"), where a record batch keeps its own: no command looks like a batch

Decoding is total: malformed bytes raise InvalidArgumentError, and commands of later versions UnknownEntryError, which
is one. `rules` says whether a command is valid.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from flotilla.metadata.binary import Reader, Writer
from flotilla.metadata.layout import fields_of
from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.scheduling.commands import PauseSchedule, PutSchedule, RemoveSchedule, RunSchedule
from flotilla.metadata.security.commands import (
    PutAdministrator,
    PutGrant,
    PutQuota,
    PutRole,
    PutSecret,
    PutUser,
    RemoveGrant,
    RemoveQuota,
    RemoveRole,
    RemoveUser,
)
from flotilla.metadata.security.join_tokens import PutJoinToken, UseJoinToken
from flotilla.metadata.stream_commands import (
    FenceStreamGroup,
    ForgetStreamGroup,
    JoinStreamGroup,
    ReleasePartitions,
    RemoveStreamMembers,
)
from flotilla.types.errors import InvalidArgumentError, UnknownEntryError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.version import CLUSTER_VERSION_STORED, NODES_LABELLED, TOPIC_OWNERS

VERSION: Final = 1
MAGIC: Final = 0x444D

_HEAD = Struct("<BB6xQ14xH")
HEAD_BYTES: Final = _HEAD.size
assert HEAD_BYTES == 32


@dataclass(frozen=True, slots=True)
class InitCluster:
    """Gives the cluster its id, once: the first of several leaders' draws stands. A repetition has no effect."""

    #: Random, so that two clusters of one name are told apart.
    cluster_id: str
    name: str
    founders: tuple[NodeId, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class SetClusterVersion:
    """Raises the version of the cluster. A version that it has, or an earlier one, has no effect."""

    version: int
    #: The brokers, all of which support it; none before the cluster has its id.
    nodes: tuple[NodeId, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A node registers its endpoints, at every start."""

    cluster_name: str
    node: NodeId
    client_address: str
    peer_address: str
    http_address: str
    grpc_address: str
    version: str
    #: How often its data directory has been started, and a number drawn for this start; 0: not counted.
    starts: int
    process: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class LabelNode:
    """A node states its labels, before it registers: no replica is placed on a broker whose labels are not known."""

    node: NodeId
    #: Empty: none.
    machine: str
    zone: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class SetBrokerState:
    """Starts or stops draining or removing a broker."""

    node: NodeId
    state: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveBroker:
    """Removes a broker without replicas for good: its id is never used again."""

    node: NodeId
    now_ms: int


@dataclass(frozen=True, slots=True)
class CreateTopic:
    name: str
    partitions: int
    replication_factor: int
    #: Only settings that differ from the defaults.
    settings: tuple[tuple[str, int], ...]
    now_ms: int

    #: Nobody.
    owner = ""


@dataclass(frozen=True, slots=True)
class CreateOwnedTopic:
    name: str
    partitions: int
    replication_factor: int
    settings: tuple[tuple[str, int], ...]
    #: The user against whose quota the topic counts.
    owner: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class AlterTopic:
    name: str
    #: New values, and the names of settings that return to their defaults.
    settings: tuple[tuple[str, int], ...]
    reset: tuple[str, ...]
    #: The new count; 0: unchanged.
    partitions: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    name: str
    #: 0: any topic of that name. Otherwise only the one of this id, not a later one of the same name.
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
    #: New values, and the names of settings that follow the topic again.
    settings: tuple[tuple[str, int | str], ...]
    reset: tuple[str, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class DecideTransaction:
    """Commits a transaction or aborts it, for all its partitions. The first decision stands."""

    transaction_id: str
    #: A version that the application has committed before is not committed again. Empty: no version.
    application_id: str
    version: int
    #: The partitions that hold stages of it.
    groups: tuple[GroupId, ...]
    is_commit: bool
    #: When its first stage was stored. 0: nothing is staged, or (of an abort) it is not known.
    begun_ms: int
    #: The user whose application it is; empty: anybody's.
    owner: str
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
    #: When the first stage of any of them was stored; 0: nothing is staged.
    begun_ms: int
    #: As of a single transaction.
    owner: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmTransaction:
    """Partitions show these committed transactions, or have no part in them."""

    confirmed: tuple[tuple[str, GroupId], ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class ForgetTransaction:
    """Gives up waiting for the partitions of a committed transaction, or forgets an application."""

    #: One of the two is empty.
    transaction_id: str
    application_id: str
    now_ms: int


Command: TypeAlias = (
    InitCluster
    | SetClusterVersion
    | RegisterBroker
    | LabelNode
    | SetBrokerState
    | RemoveBroker
    | CreateTopic
    | CreateOwnedTopic
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
    | ForgetTransaction
    | JoinStreamGroup
    | RemoveStreamMembers
    | ReleasePartitions
    | FenceStreamGroup
    | ForgetStreamGroup
    | PutSchedule
    | PauseSchedule
    | RemoveSchedule
    | RunSchedule
    | PutUser
    | RemoveUser
    | PutAdministrator
    | PutGrant
    | RemoveGrant
    | PutSecret
    | PutJoinToken
    | UseJoinToken
    | PutQuota
    | RemoveQuota
    | PutRole
    | RemoveRole
)

#: The kinds of commands. 9 was never written; 10 was AlterGroup before settings could be texts; 11 and 13 were
#: DecideTransaction and CommitTogether before applications had owners.
_COMMAND_BY_KIND: Final[Mapping[int, type[Command]]] = {
    1: InitCluster,
    2: RegisterBroker,
    3: SetBrokerState,
    4: RemoveBroker,
    5: CreateTopic,
    6: AlterTopic,
    7: DeleteTopic,
    8: ConfirmRemoved,
    12: ConfirmTransaction,
    14: ForgetTransaction,
    15: DecideTransaction,
    16: CommitTogether,
    17: CreateOwnedTopic,
    20: JoinStreamGroup,
    21: RemoveStreamMembers,
    22: ReleasePartitions,
    23: FenceStreamGroup,
    24: ForgetStreamGroup,
    25: PlanMoves,
    26: FinishMove,
    27: SetIncarnation,
    28: ConfirmLost,
    29: ResizeTopic,
    30: AlterGroup,
    31: SetClusterVersion,
    32: LabelNode,
    40: PutSchedule,
    41: PauseSchedule,
    42: RemoveSchedule,
    43: RunSchedule,
    50: PutUser,
    51: RemoveUser,
    52: PutAdministrator,
    53: PutGrant,
    54: RemoveGrant,
    55: PutSecret,
    80: PutJoinToken,
    81: UseJoinToken,
    56: PutQuota,
    57: RemoveQuota,
    58: PutRole,
    59: RemoveRole,
}
#: The cluster version that brought a command; the others are as old as the log.
FIRST_VERSION_BY_COMMAND: Final[Mapping[type[Command], int]] = {
    SetClusterVersion: CLUSTER_VERSION_STORED,
    CreateOwnedTopic: TOPIC_OWNERS,
    LabelNode: NODES_LABELLED,
}
_KIND_BY_COMMAND: Final = {command: kind for kind, command in _COMMAND_BY_KIND.items()}
#: All but `now_ms`, which is in the head and the last field of each class.
_FIELDS_BY_KIND: Final = {kind: fields_of(command, without=["now_ms"]) for kind, command in _COMMAND_BY_KIND.items()}


def encode_command(command: Command) -> bytes:
    """The body of a log entry. The same command always gives the same bytes."""
    kind = _KIND_BY_COMMAND[type(command)]
    writer = Writer()
    _FIELDS_BY_KIND[kind].write(writer, command)
    return _HEAD.pack(VERSION, kind, command.now_ms, MAGIC) + writer.finish()


def decode_command(data: bytes | memoryview) -> Command:
    """Raises InvalidArgumentError for bytes that `encode_command` did not make."""
    if len(data) < HEAD_BYTES:
        raise InvalidArgumentError(f"{len(data)} bytes are too few for a metadata command")
    version, kind, now_ms, magic = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise InvalidArgumentError("no metadata command")
    if version != VERSION or kind not in _COMMAND_BY_KIND:
        raise UnknownEntryError(f"unknown metadata command {kind} of layout {version}")
    reader = Reader(data, HEAD_BYTES)
    values = _FIELDS_BY_KIND[kind].read(reader)
    reader.finish()
    command: Callable[..., Command] = _COMMAND_BY_KIND[kind]
    return command(*values, now_ms)
