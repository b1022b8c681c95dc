"""The commands of stream groups: members join, leave and release partitions. `commands` knows their bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JoinStreamGroup:
    """A member joins; the first one creates the group. A known member changes nothing."""

    topic_id: int
    group: str
    member: str
    client: str
    #: Empty and 0: the group's. Only those of the first member count.
    strategy: str
    session_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveStreamMembers:
    """Members leave. Unknown names are skipped."""

    topic_id: int
    group: str
    members: tuple[str, ...]
    #: They sent no heartbeat for a whole session; otherwise they left.
    is_silent: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReleasePartitions:
    """A member does not use these partitions any more, as of a generation. Partitions of others are skipped."""

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
    """Removes a group without members; if it is forced, its members before."""

    topic_id: int
    group: str
    is_forced: bool
    now_ms: int
