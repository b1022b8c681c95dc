"""What can happen to a partition beside appends: one value type per command, and its bytes.

Little endian, 32 bytes of head, then the texts of the command, each to the length that the head tells:

    offset size field      meaning
         0   1  version    of this layout: 1
         1   1  kind       which command; a number is never given to another one
         2   2  name_bytes of the group's name
         4   2  rest_bytes of what follows the name
         6   1  flags      bit 0 of CommitOffset: reset
         7   1  zero
         8   8  now_ms     the leader's time when it proposed the command
        16   8  value      an offset, or a count
        24   6  zero
        30   2  magic      0x4351 ("QC"), where a record batch keeps its own: no command looks like a batch

Decoding is total: anything that `encode_command` did not make raises InvalidArgumentError. The sense
of a command is for the partition to judge.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset

VERSION: Final = 1
MAGIC: Final = 0x4351

_HEAD = Struct("<BBHHBxQQ6xH")
_WINDOW_MS = Struct("<Q")
HEAD_BYTES: Final = _HEAD.size
assert HEAD_BYTES == 32

_RESET: Final = 1


@dataclass(frozen=True, slots=True)
class StampTime:
    """Nothing but the time. What is remembered for a time needs to hear of it now and then."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class CommitOffset:
    """A group's position: the next offset that it will read. It moves back with `reset` only."""

    group: str
    offset: Offset
    now_ms: int
    reset: bool = False
    #: Whatever the consumer wants to find there again.
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class TrimTo:
    """Records below `offset` are gone for readers, and their storage may be freed."""

    offset: Offset
    now_ms: int


@dataclass(frozen=True, slots=True)
class ConfigureDedup:
    """The bounds of the window against repetition. In the log, because every replica must change at one point."""

    entries_max: int
    window_ms: int
    now_ms: int


Command: TypeAlias = StampTime | CommitOffset | DeleteGroup | TrimTo | ConfigureDedup

_STAMP_TIME: Final = 1
_COMMIT_OFFSET: Final = 2
_DELETE_GROUP: Final = 3
_TRIM_TO: Final = 4
_CONFIGURE_DEDUP: Final = 5


def encode_command(command: Command) -> bytes:
    """The body of a log entry. The same command always gives the same bytes."""
    match command:
        case StampTime():
            return _pack(_STAMP_TIME, command.now_ms)
        case CommitOffset():
            flags = _RESET if command.reset else 0
            name = command.group.encode("utf-8")
            return _pack(_COMMIT_OFFSET, command.now_ms, command.offset, flags, name, command.metadata)
        case DeleteGroup():
            return _pack(_DELETE_GROUP, command.now_ms, name=command.group.encode("utf-8"))
        case TrimTo():
            return _pack(_TRIM_TO, command.now_ms, command.offset)
        case ConfigureDedup():
            rest = _WINDOW_MS.pack(command.window_ms)
            return _pack(_CONFIGURE_DEDUP, command.now_ms, command.entries_max, rest=rest)


def _pack(kind: int, now_ms: int, value: int = 0, flags: int = 0, name: bytes = b"", rest: bytes = b"") -> bytes:
    return _HEAD.pack(VERSION, kind, len(name), len(rest), flags, now_ms, value, MAGIC) + name + rest


def decode_command(data: bytes | memoryview) -> Command:
    """Raises InvalidArgumentError."""
    if len(data) < HEAD_BYTES:
        raise InvalidArgumentError(f"{len(data)} bytes are too few for a command of a partition")
    version, kind, name_bytes, rest_bytes, flags, now_ms, value, magic = _HEAD.unpack_from(data)
    if version != VERSION or magic != MAGIC:
        raise InvalidArgumentError(f"neither a batch nor a command of version {VERSION}")
    if len(data) != HEAD_BYTES + name_bytes + rest_bytes:
        raise InvalidArgumentError("a command of a partition has the wrong length")
    name = _text(data[HEAD_BYTES : HEAD_BYTES + name_bytes])
    rest = bytes(data[HEAD_BYTES + name_bytes :])
    if kind == _COMMIT_OFFSET:
        return CommitOffset(name, value, now_ms, bool(flags & _RESET), rest)
    if kind == _STAMP_TIME:
        return StampTime(now_ms)
    if kind == _DELETE_GROUP:
        return DeleteGroup(name, now_ms)
    if kind == _TRIM_TO:
        return TrimTo(value, now_ms)
    if kind == _CONFIGURE_DEDUP and rest_bytes == _WINDOW_MS.size:
        return ConfigureDedup(value, _WINDOW_MS.unpack(rest)[0], now_ms)
    raise InvalidArgumentError(f"unknown command {kind} of a partition")


def _text(data: bytes | memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError("a name is not UTF-8") from error
