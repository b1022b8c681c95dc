"""The commands of a partition: one value type per command, and its bytes.

Little endian, 32 bytes of head, then the parts of the command, whose lengths are in the head:

    offset size field      meaning
         0   1  version    of this layout: 1
         1   1  kind       the command; a number is never reused
         2   2  name_bytes of the group's name, or of the transaction's id
         4   2  rest_bytes of what follows the name: metadata, or another number
         6   1  flags      bit 0 of CommitOffset: reset; of HandOver: void
         7   1  zero
         8   8  now_ms     the leader's time when it proposed the command
        16   8  value      an offset, a number or a count
        24   4  body_bytes of what follows the rest: a layout of `group_commands`, `hand_over` or `holders`, a whole
                           batch, or of a CommitOffset the epoch (u64), if it has one, and
                           `as_of` (u64) behind that, if it has one
        28   2  zero
        30   2  magic      0x4351 ("QC"), where a record batch keeps its own: no command looks like a batch

Decoding is total: malformed bytes raise InvalidArgumentError, and commands of later versions UnknownEntryError, which
is one. The rules of commands are those of the machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from struct import Struct
from typing import Any, Final, TypeAlias

from flotilla.partition.commands.group_commands import (
    AckedResult,
    BuryDeaths,
    CancelRecords,
    DeadRun,
    DeliverNow,
    FailedRun,
    GroupSettlement,
    OpenGroup,
    ReserveTokens,
    ResetGroup,
    SettleRuns,
    decode_offsets,
    decode_settlements,
    encode_offsets,
    encode_settlements,
)
from flotilla.partition.commands.hand_over import HandOver, decode_held, encode_held
from flotilla.partition.commands.holders import ChangeHolders, decode_holders, encode_holders
from flotilla.types.errors import InvalidArgumentError, UnknownEntryError
from flotilla.types.ids import Index, Offset

__all__ = [
    "HEAD_BYTES",
    "MAGIC",
    "VERSION",
    "AckedResult",
    "BuryDeaths",
    "CancelRecords",
    "ChangeHolders",
    "ClaimPartition",
    "Command",
    "CommitOffset",
    "ConcludeStage",
    "ConfigureDedup",
    "DeadRun",
    "DeleteGroup",
    "DeliverNow",
    "DropStage",
    "EndGroup",
    "FailedRun",
    "GroupSettlement",
    "HandOver",
    "OpenGroup",
    "ReserveTokens",
    "ResetGroup",
    "SettleRuns",
    "StageBatch",
    "StageSettlement",
    "StampTime",
    "TrimTo",
    "decode_command",
    "encode_command",
]

VERSION: Final = 1
MAGIC: Final = 0x4351

_HEAD = Struct("<BBHHBxQQI2xH")
_U64 = Struct("<Q")
HEAD_BYTES: Final = _HEAD.size
assert HEAD_BYTES == 32

_RESET: Final = 1
_VOID: Final = 1


@dataclass(frozen=True, slots=True)
class StampTime:
    """Carries the time only: entries that expire by time need it now and then."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class CommitOffset:
    """A group's position: the next offset that it will read. It moves back with `reset` only."""

    group: str
    offset: Offset
    now_ms: int
    reset: bool = False
    #: For the consumer.
    metadata: bytes = b""
    #: Under which a stream group's member owns the partition; 0: it is not a member's commit.
    epoch: int = 0
    #: The entry as of which a reader knew the group: refused if the group was deleted after it. 0: not known.
    as_of: Index = 0


@dataclass(frozen=True, slots=True)
class ClaimPartition:
    """A stream group's member owns the partition from now on: commits of earlier epochs are refused."""

    group: str
    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Deletes a group of either kind. Refused while it has dying messages: only the group knows of them."""

    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class EndGroup:
    """The same, and remembers it: commits of readers that knew the group before are refused.

    A partition that has no such group remembers it as well, since readers may be about to commit there.
    """

    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class TrimTo:
    """Removes records below `offset` for readers; their storage may be freed.

    Spares messages that are unsettled in a group that was opened or reset after the decision.
    """

    offset: Offset
    now_ms: int
    #: The leader's applied index when it decided; 0: it knows of every group.
    known: Index = 0


@dataclass(frozen=True, slots=True)
class ConfigureDedup:
    """Sets the bounds of the deduplication window, for every replica at the same entry."""

    entries_max: int
    window_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class StageBatch:
    """Stages a batch of a transaction: it has no offset before the decision. Its bytes stay in the log."""

    transaction_id: str
    batch: bytes | memoryview
    now_ms: int
    #: How long after its first stage the transaction is aborted if it is not decided; 0: by default.
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class StageSettlement:
    """Stages acks of leased messages, which are settled when the transaction is committed."""

    transaction_id: str
    #: With acks only.
    settlement: GroupSettlement
    now_ms: int
    #: As of StageBatch.
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConcludeStage:
    """The transaction is committed and has no batches here: settles its acks."""

    transaction_id: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class DropStage:
    """The transaction was aborted, or this partition has no part in it: drops its stage."""

    transaction_id: str
    now_ms: int


Command: TypeAlias = (
    StampTime
    | CommitOffset
    | DeleteGroup
    | EndGroup
    | TrimTo
    | ConfigureDedup
    | OpenGroup
    | SettleRuns
    | BuryDeaths
    | ResetGroup
    | CancelRecords
    | ReserveTokens
    | StageBatch
    | DropStage
    | StageSettlement
    | ConcludeStage
    | ClaimPartition
    | HandOver
    | ChangeHolders
    | DeliverNow
)

_STAMP_TIME: Final = 1
_COMMIT_OFFSET: Final = 2
_TRIM_TO: Final = 4
_CONFIGURE_DEDUP: Final = 5
_OPEN_GROUP: Final = 6
_SETTLE_RUNS: Final = 7
_BURY_DEATHS: Final = 8
_RESET_GROUP: Final = 9
_CANCEL_RECORDS: Final = 10
_STAGE_BATCH: Final = 12
_STAGE_SETTLEMENT: Final = 14
_HAND_OVER: Final = 20
_CHANGE_HOLDERS: Final = 21
_DELIVER_NOW: Final = 22
_COMMIT_OFFSET_AS_OF: Final = 23
#: Commands whose fields are a name and `now_ms`.
_NAMED: Final[dict[int, type[Any]]] = {3: DeleteGroup, 13: DropStage, 15: ConcludeStage, 24: EndGroup}
#: Commands whose fields are a name, a number and `now_ms`.
_NUMBERED: Final[dict[int, type[Any]]] = {
    11: ReserveTokens,
    16: ClaimPartition,
}
#: The kind of both, and a getter of their fields.
_KIND_BY_CLASS: Final[dict[type[Any], tuple[int, Callable[[Any], tuple[Any, ...]]]]] = {
    made: (kind, attrgetter(*[field.name for field in fields(made)])) for kind, made in (_NAMED | _NUMBERED).items()
}


def encode_command(command: Command) -> bytes:
    """The body of a log entry. The same command always gives the same bytes."""
    match command:
        case SettleRuns():
            body = encode_settlements(command.groups)
            return _pack(_SETTLE_RUNS, command.now_ms, len(command.groups), body=body)
        case CommitOffset():
            flags = _RESET if command.reset else 0
            kind, body = _COMMIT_OFFSET, _U64.pack(command.epoch) if command.epoch else b""
            if command.as_of:
                kind, body = _COMMIT_OFFSET_AS_OF, _U64.pack(command.epoch) + _U64.pack(command.as_of)
            return _pack(kind, command.now_ms, command.offset, flags, command.group, command.metadata, body)
        case StageBatch():
            return _pack(
                _STAGE_BATCH, command.now_ms, command.timeout_ms, name=command.transaction_id, body=command.batch
            )
        case StageSettlement():
            body = encode_settlements((command.settlement,))
            return _pack(_STAGE_SETTLEMENT, command.now_ms, command.timeout_ms, name=command.transaction_id, body=body)
        case HandOver():
            body = encode_held(command.groups)
            flags = _VOID if command.is_void else 0
            return _pack(_HAND_OVER, command.now_ms, len(command.groups), flags, body=body)
        case ChangeHolders():
            body = encode_holders(command)
            return _pack(_CHANGE_HOLDERS, command.now_ms, command.generation, name=command.group, body=body)
        case OpenGroup():
            rest = _U64.pack(command.partition_count) + _U64.pack(command.first_lease)
            return _pack(_OPEN_GROUP, command.now_ms, command.offset, name=command.group, rest=rest)
        case ResetGroup():
            rest = _U64.pack(command.first_lease)
            return _pack(_RESET_GROUP, command.now_ms, command.offset, name=command.group, rest=rest)
        case StampTime():
            return _pack(_STAMP_TIME, command.now_ms)
        case TrimTo():
            return _pack(_TRIM_TO, command.now_ms, command.offset, rest=_U64.pack(command.known))
        case BuryDeaths():
            rest = _U64.pack(command.first_number) if command.first_number else b""
            return _pack(_BURY_DEATHS, command.now_ms, command.below_number, name=command.group, rest=rest)
        case ConfigureDedup():
            return _pack(_CONFIGURE_DEDUP, command.now_ms, command.entries_max, rest=_U64.pack(command.window_ms))
        case CancelRecords():
            body = encode_offsets(command.offsets)
            return _pack(_CANCEL_RECORDS, command.now_ms, len(command.offsets), body=body)
        case DeliverNow():
            body = encode_offsets(command.offsets)
            return _pack(_DELIVER_NOW, command.now_ms, len(command.offsets), name=command.group, body=body)
        case _:
            kind, take_fields = _KIND_BY_CLASS[type(command)]
            name, *value, now_ms = take_fields(command)
            return _pack(kind, now_ms, value[0] if value else 0, name=name)


def _pack(
    kind: int,
    now_ms: int,
    value: int = 0,
    flags: int = 0,
    name: str = "",
    rest: bytes = b"",
    body: bytes | memoryview = b"",
) -> bytes:
    encoded = name.encode("utf-8")
    head = _HEAD.pack(VERSION, kind, len(encoded), len(rest), flags, now_ms, value, len(body), MAGIC)
    return b"".join((head, encoded, rest, body))


def decode_command(data: bytes | memoryview) -> Command:
    """Raises InvalidArgumentError."""
    if len(data) < HEAD_BYTES:
        raise InvalidArgumentError(f"{len(data)} bytes are too few for a command of a partition")
    version, kind, name_bytes, rest_bytes, flags, now_ms, value, body_bytes, magic = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise InvalidArgumentError("neither a batch nor a command of a partition")
    if version != VERSION:
        raise UnknownEntryError(f"a command of a partition of layout {version}")
    rest_at = HEAD_BYTES + name_bytes
    body_at = rest_at + rest_bytes
    if len(data) != body_at + body_bytes:
        raise InvalidArgumentError("a command of a partition has the wrong length")
    if kind == _SETTLE_RUNS:
        return SettleRuns(now_ms, decode_settlements(bytes(data[body_at:]), value))
    if kind == _HAND_OVER:
        return HandOver(now_ms, decode_held(bytes(data[body_at:]), value), bool(flags & _VOID))
    if kind == _CANCEL_RECORDS:
        return CancelRecords(decode_offsets(bytes(data[body_at:]), value), now_ms)
    name = _text(data[HEAD_BYTES:rest_at])
    rest = bytes(data[rest_at:body_at])
    if kind == _COMMIT_OFFSET:
        return CommitOffset(name, value, now_ms, bool(flags & _RESET), rest, _epoch(data[body_at:]))
    if kind == _COMMIT_OFFSET_AS_OF and body_bytes == 2 * _U64.size:
        epoch, as_of = _U64.unpack_from(data, body_at)[0], _U64.unpack_from(data, body_at + _U64.size)[0]
        return CommitOffset(name, value, now_ms, bool(flags & _RESET), rest, epoch, as_of)
    if kind == _OPEN_GROUP and rest_bytes == 2 * _U64.size:
        return OpenGroup(name, value, now_ms, _U64.unpack_from(rest)[0], _U64.unpack_from(rest, _U64.size)[0])
    if kind == _RESET_GROUP and rest_bytes == _U64.size:
        return ResetGroup(name, value, now_ms, _U64.unpack(rest)[0])
    if kind in _NUMBERED:
        numbered: Command = _NUMBERED[kind](name, value, now_ms)
        return numbered
    if kind == _DELIVER_NOW:
        return DeliverNow(decode_offsets(bytes(data[body_at:]), value), now_ms, name)
    if kind == _CHANGE_HOLDERS:
        return decode_holders(name, value, now_ms, bytes(data[body_at:]))
    if kind == _STAGE_BATCH:
        return StageBatch(name, data[body_at:], now_ms, value)
    if kind == _STAGE_SETTLEMENT:
        return StageSettlement(name, decode_settlements(bytes(data[body_at:]), 1)[0], now_ms, value)
    if kind in _NAMED:
        named: Command = _NAMED[kind](name, now_ms)
        return named
    if kind == _STAMP_TIME:
        return StampTime(now_ms)
    if kind == _BURY_DEATHS and rest_bytes in (0, _U64.size):
        return BuryDeaths(name, value, now_ms, _U64.unpack(rest)[0] if rest else 0)
    if kind == _TRIM_TO and rest_bytes == _U64.size:
        return TrimTo(value, now_ms, _U64.unpack(rest)[0])
    if kind == _CONFIGURE_DEDUP and rest_bytes == _U64.size:
        return ConfigureDedup(value, _U64.unpack(rest)[0], now_ms)
    raise UnknownEntryError(f"unknown command {kind} of a partition")


def _epoch(data: bytes | memoryview) -> int:
    if len(data) not in (0, _U64.size):
        raise InvalidArgumentError("the epoch of a commit has the wrong length")
    epoch: int = _U64.unpack(data)[0] if data else 0
    return epoch


def _text(data: bytes | memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError("a name is not UTF-8") from error
