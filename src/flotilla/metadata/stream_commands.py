"""What can happen to stream groups: members come, go and give partitions up. Commands and their fields as bytes.

The head of a command is told in `commands`; here are the fields behind it, in the order of each class.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from flotilla.metadata.binary import Reader, Writer


@dataclass(frozen=True, slots=True)
class JoinStreamGroup:
    """A member comes, and the group with the first one. A member that is there already changes nothing."""

    topic_id: int
    group: str
    member: str
    client: str
    #: Empty and 0: as the group has it. Only the first member is asked.
    strategy: str
    session_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveStreamMembers:
    """Members go. Who is not there is passed over."""

    topic_id: int
    group: str
    members: tuple[str, ...]
    #: They were not heard of for a whole session; otherwise they left.
    is_silent: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReleasePartitions:
    """A member does not use these partitions any more, as of a generation. What is not its own is passed over."""

    topic_id: int
    group: str
    member: str
    generation: int
    partitions: tuple[int, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class FenceStreamGroup:
    """A group without members gets a generation that no member ever had."""

    topic_id: int
    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class ForgetStreamGroup:
    """A group without members is gone."""

    topic_id: int
    group: str
    now_ms: int


StreamCommand: TypeAlias = (
    JoinStreamGroup | RemoveStreamMembers | ReleasePartitions | FenceStreamGroup | ForgetStreamGroup
)

_JOIN_STREAM_GROUP: Final = 20
_REMOVE_STREAM_MEMBERS: Final = 21
_RELEASE_PARTITIONS: Final = 22
_FENCE_STREAM_GROUP: Final = 23
_FORGET_STREAM_GROUP: Final = 24
STREAM_KINDS: Final = (
    _JOIN_STREAM_GROUP,
    _REMOVE_STREAM_MEMBERS,
    _RELEASE_PARTITIONS,
    _FENCE_STREAM_GROUP,
    _FORGET_STREAM_GROUP,
)


def write_stream_fields(command: StreamCommand, writer: Writer) -> int:
    """Writes a command's own fields and tells its kind."""
    writer.integer(command.topic_id)
    writer.text(command.group)
    match command:
        case JoinStreamGroup():
            writer.text(command.member)
            writer.text(command.client)
            writer.text(command.strategy)
            writer.integer(command.session_ms)
            return _JOIN_STREAM_GROUP
        case RemoveStreamMembers():
            writer.texts(command.members)
            writer.integer(int(command.is_silent))
            return _REMOVE_STREAM_MEMBERS
        case ReleasePartitions():
            writer.text(command.member)
            writer.integer(command.generation)
            writer.integers(command.partitions)
            return _RELEASE_PARTITIONS
        case FenceStreamGroup():
            return _FENCE_STREAM_GROUP
        case ForgetStreamGroup():
            return _FORGET_STREAM_GROUP


def read_stream_fields(kind: int, reader: Reader, now_ms: int) -> StreamCommand:
    """Raises InvalidArgumentError. The kind is one of STREAM_KINDS."""
    topic_id = reader.integer()
    group = reader.text()
    if kind == _JOIN_STREAM_GROUP:
        return JoinStreamGroup(topic_id, group, reader.text(), reader.text(), reader.text(), reader.integer(), now_ms)
    if kind == _REMOVE_STREAM_MEMBERS:
        return RemoveStreamMembers(topic_id, group, reader.texts(), bool(reader.integer()), now_ms)
    if kind == _RELEASE_PARTITIONS:
        return ReleasePartitions(topic_id, group, reader.text(), reader.integer(), reader.integers(), now_ms)
    if kind == _FENCE_STREAM_GROUP:
        return FenceStreamGroup(topic_id, group, now_ms)
    assert kind == _FORGET_STREAM_GROUP
    return ForgetStreamGroup(topic_id, group, now_ms)
