"""Operations on stream groups: members share partitions, one owner each.

The leader of the metadata coordinates: it knows the members and decides which of them owns which partition. A partition
that moves is first given up by its owner, then given to the next; the other members never stop. Each time a partition
gets an owner it gets an epoch, the generation of the group in which that happened. The owner claims the partition
under that epoch, and from then on the partition refuses commits of earlier epochs: a late commit changes nothing.

Members repeat joins, heartbeats and claims until they are answered, and the answer shows how things are: the client
treats them as reads.
"""

from dataclasses import field
from typing import Final, NamedTuple

from flotilla.types.access import CONSUME, DESCRIBE, MANAGE, Resource
from flotilla.types.ids import Offset
from flotilla.types.operations.log import OffsetCommitted
from flotilla.types.operations.request import CONTROLLER, PARTITION_LEADER, READ, REPEATABLE, Done, May, Reply, Request
from flotilla.types.slotted import slotted

#: How partitions are spread over members.
STICKY: Final = "sticky"
ROUND_ROBIN: Final = "round-robin"
STRATEGIES: Final = (STICKY, ROUND_ROBIN)

#: A member that is silent for this long is removed from its group.
SESSION_MS_DEFAULT: Final = 30_000
SESSION_MS_MIN: Final = 1_000
SESSION_MS_MAX: Final = 1_800_000
MEMBER_COUNT_MAX: Final = 1_024
#: How long a heartbeat may be parked until there is news.
HEARTBEAT_WAIT_MS_MAX: Final = 60_000

#: The position of a group that never committed one.
NO_OFFSET: Final[Offset] = -1


class Owned(NamedTuple):
    """A partition and the epoch under which its owner got it."""

    partition: int
    epoch: int


@slotted
class GroupAssignment(Reply):
    """The partitions that a member may own now. More may follow when other members have given them up.

    A member claims a partition again that it has, or had, under another epoch.
    """

    generation: int
    partitions: list[Owned]
    session_ms: int = SESSION_MS_DEFAULT
    #: Of the topic; requests of the member name it.
    topic_id: int = 0
    #: The partitions that the topic had when the group was founded; 0: not known. In those from this number on, which
    #: are younger, the group begins at the start, whatever its members wish.
    first_partitions: int = 0


@slotted
class JoinGroup(Request[GroupAssignment], to=CONTROLLER, effect=READ, needs=CONSUME):
    """Becomes a member of a stream group; the first member creates it. Can be repeated at will."""

    topic: str
    group: str
    #: A name that lives as long as the consumer does.
    member: str
    #: For people: the client program.
    client: str = ""
    #: Empty and 0: as the group has it, or the default. The first member decides.
    strategy: str = ""
    session_ms: int = 0
    #: Refuses a later topic of the same name with TOPIC_REPLACED; 0: any.
    topic_id: int = 0


@slotted
class Heartbeat(Request[GroupAssignment], to=CONTROLLER, effect=READ, needs=CONSUME):
    """The member is alive and uses these partitions. Parked up to wait_ms while its assignment is what it owns.

    A partition that the member must give up is missing from the reply, and is free for the next owner as soon as a
    heartbeat arrives without it. A member that has left a partition out does not use it again before it gets it under
    another epoch. If the partition is still meant for the same member, it gets it back at once, but not twice within a
    second; until then it is missing from the reply. A later heartbeat makes the reply to an earlier one void. Refused
    with STALE_GENERATION when the group does not know the member any more: it joins again.
    """

    topic: str
    group: str
    member: str
    generation: int
    owned: list[int] = field(default_factory=list)
    wait_ms: int = 0
    #: As in JoinGroup.
    topic_id: int = 0


@slotted
class LeaveGroup(Request[Done], to=CONTROLLER, effect=READ, needs=CONSUME):
    topic: str
    group: str
    member: str
    #: As in JoinGroup.
    topic_id: int = 0


@slotted
class ClaimPartition(Request[OffsetCommitted], to=PARTITION_LEADER, effect=READ, retries_not_found=True, needs=CONSUME):
    """Returns the group's position. The partition refuses commits of earlier epochs from now on.

    Refused with STALE_GENERATION under an epoch that is older than one the partition has seen.
    """

    group: str
    topic: str
    partition: int
    epoch: int
    #: As in JoinGroup.
    topic_id: int = 0


@slotted
class StreamMember:
    name: str
    client: str
    partitions: list[int]
    heard_ms_ago: int


@slotted
class StreamGroupDescription(Reply):
    generation: int
    strategy: str
    session_ms: int
    members: list[StreamMember]
    #: The time since the last rebalance.
    rebalanced_ms_ago: int = 0
    #: For people, why it happened: a member joined or left, or the topic grew.
    cause: str = ""
    #: The partitions that changed their owner.
    moved: int = 0


@slotted
class DescribeStreamGroup(Request[StreamGroupDescription], to=CONTROLLER, effect=READ, needs=DESCRIBE):
    """NOT_FOUND when the group has no members and never had any."""

    topic: str
    group: str


@slotted
class StreamGroupList(Reply):
    groups: list[str]


@slotted
class ListStreamGroups(Request[StreamGroupList], to=CONTROLLER, effect=READ, needs=DESCRIBE):
    """The stream groups of one topic that have members, or had."""

    topic: str

    def visible(self, reply: StreamGroupList, may: May) -> StreamGroupList:
        return StreamGroupList([name for name in reply.groups if may(DESCRIBE, Resource(self.topic, name))])


@slotted
class FenceGroup(Request[GroupAssignment], to=CONTROLLER, effect=REPEATABLE, needs=MANAGE):
    """Begins a generation of a stream group without members and returns it.

    What is done to partitions under this generation comes after everything that earlier members did, and before
    everything that later members will do. Refused with GROUP_IN_USE while the group has members.
    """

    topic: str
    group: str


@slotted
class ForgetGroup(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=MANAGE):
    """The coordinator forgets a stream group; partitions keep their positions. GROUP_IN_USE while it has members.

    If it is forced, the members are removed first; those that are alive join again, and found the group anew.
    """

    topic: str
    group: str
    is_forced: bool = False
