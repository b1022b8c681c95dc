"""What stream groups can be asked, and what they answer: members share partitions, one owner each.

The metadata's leader coordinates: it knows the members, and decides who shall own which partition. A partition
that moves is first given up by its owner, then given to the next: the others never stop. Each time a partition gets
an owner it gets an epoch, the generation of the group in which that happened. The owner claims it at the partition
under that epoch, and from then on the partition refuses commits of earlier epochs: a late commit changes nothing.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flotilla.types.ids import Offset
from flotilla.types.operations.log import Reply, Request

#: How partitions are spread over members.
STICKY: Final = "sticky"
ROUND_ROBIN: Final = "round-robin"
STRATEGIES: Final = (STICKY, ROUND_ROBIN)

#: A member that is silent for so long is taken out of its group.
SESSION_MS_DEFAULT: Final = 30_000
SESSION_MS_MIN: Final = 1_000
SESSION_MS_MAX: Final = 1_800_000
MEMBER_COUNT_MAX: Final = 1_024
#: How long a heartbeat may be parked until there is news.
HEARTBEAT_WAIT_MS_MAX: Final = 60_000


class Owned(NamedTuple):
    """A partition and the epoch under which its owner got it."""

    partition: int
    epoch: int


@dataclass(slots=True)
class JoinGroup(Request):
    """Becomes a member of a stream group, which springs into being with its first one. To be repeated at will."""

    topic: str
    group: str
    #: A name that lives as long as the consumer does.
    member: str
    #: For people: who this is.
    client: str = ""
    #: Empty and 0: as the group has it, or the default. The first member decides.
    strategy: str = ""
    session_ms: int = 0


@dataclass(slots=True)
class Heartbeat(Request):
    """The member is alive and uses these partitions. Parked up to wait_ms while its assignment is what it owns.

    A partition that it shall give up is not in the answer, and is free for the next owner as soon as a heartbeat comes
    without it. What it has left out, it does not use again before it has got it under another epoch; what only itself
    shall have it gets so at once, but not twice in a second, and in between it is not in the answer. When another
    heartbeat was sent, the answer to an earlier one is void. Refused with STALE_GENERATION when the group does not
    know the member any more: it joins again.
    """

    topic: str
    group: str
    member: str
    generation: int
    owned: list[int] = field(default_factory=list)
    wait_ms: int = 0


@dataclass(slots=True)
class LeaveGroup(Request):
    topic: str
    group: str
    member: str


@dataclass(slots=True)
class GroupAssignment(Reply):
    """What a member may own now. More may follow when others have given it up.

    A partition that it has, or had, under another epoch it gets anew: it claims it again.
    """

    generation: int
    partitions: list[Owned]
    session_ms: int = SESSION_MS_DEFAULT


@dataclass(slots=True)
class ClaimPartition(Request):
    """Answered with OffsetCommitted: where the group stands. Commits of earlier epochs are refused from now on.

    Refused itself with STALE_GENERATION under an epoch that is older than what the partition has seen.
    """

    group: str
    topic: str
    partition: int
    epoch: int


@dataclass(slots=True)
class StreamMember:
    name: str
    client: str
    partitions: list[int]
    heard_ms_ago: int


@dataclass(slots=True)
class DescribeStreamGroup(Request):
    """Answered by the metadata's leader; NOT_FOUND when the group has no members and never had any."""

    topic: str
    group: str


@dataclass(slots=True)
class StreamGroupDescription(Reply):
    generation: int
    strategy: str
    session_ms: int
    members: list[StreamMember]
    #: Of the last time that partitions were spread anew.
    rebalanced_ms_ago: int = 0
    #: For people: who joined or left, and why; or that the topic grew.
    cause: str = ""
    #: How many partitions changed their owner then.
    moved: int = 0


@dataclass(slots=True)
class ListStreamGroups(Request):
    """The stream groups of one topic that have members, or had."""

    topic: str


@dataclass(slots=True)
class StreamGroupList(Reply):
    groups: list[str]


@dataclass(slots=True)
class FenceGroup(Request):
    """Begins a generation of a stream group in which nobody is a member; answered with it, in a GroupAssignment.

    Whatever is done to partitions under it comes after all that earlier members did, and before all that later ones
    will do. Refused with GROUP_IN_USE while the group has members.
    """

    topic: str
    group: str


@dataclass(slots=True)
class ForgetGroup(Request):
    """The coordinator forgets a stream group; what partitions know of it stays. GROUP_IN_USE while it has members."""

    topic: str
    group: str


#: What a position that was never committed is told as.
NO_OFFSET: Final[Offset] = -1
