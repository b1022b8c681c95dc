"""What can happen to stream groups: members come, go and give partitions up. Commands and their fields as bytes.

The head of a command is told in `commands`; here are the fields behind it, in the order of each class.
"""

from dataclasses import dataclass


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
