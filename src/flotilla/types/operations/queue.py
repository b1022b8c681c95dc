"""What queue groups can be asked, and what they answer: the requests and replies of leases and their ends.

A group works partition by partition; whoever wants all partitions of a topic asks each leader. A lease is named by
its id, which the leader's term fences, and covers runs of offsets: a thousand messages are a handful of numbers.
Settling, extending and presenting a lease to a new leader all name (lease, run of offsets).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flotilla.types.ids import Offset
from flotilla.types.operations.log import EARLIEST, Reply, Request

#: Kinds of groups.
QUEUE_KIND: Final = "queue"
OFFSET_KIND: Final = "offset"

#: How a lease ends: done; given back uncounted; failed and counted; to the dead letters at once.
ACK: Final = 1
RELEASE: Final = 2
FAIL: Final = 3
REJECT: Final = 4

#: Where a group begins that has never been here: operations.EARLIEST, operations.LATEST, or one of these with a value.
FROM_OFFSET: Final = 1
FROM_TIME: Final = 2

#: delay_ms of a failure that leaves the delay to the group's backoff.
BY_BACKOFF: Final = -1


class LeaseRange(NamedTuple):
    """A run of offsets under one lease, up to but without `end`."""

    lease_id: int
    first: Offset
    end: Offset


class Start(NamedTuple):
    """Where a new group begins."""

    kind: int = EARLIEST
    #: An offset or a time, as the kind says.
    value: int = 0


FROM_EARLIEST: Final = Start()


@dataclass(slots=True)
class Poll(Request):
    """Leases messages of the partitions that this node leads. Waits up to wait_ms for the first one.

    The group springs into being with its first poll.
    """

    topic: str
    group: str
    #: Whose leases they are: a name that lives as long as the consumer does.
    member: str
    #: Empty: every partition of the topic that this node leads.
    partitions: list[int] = field(default_factory=list)
    max_messages: int = 16
    max_bytes: int = 8 * 1024 * 1024
    #: 0: as the group or topic says.
    visibility_ms: int = 0
    wait_ms: int = 0
    #: At most once: committed as done before it leaves, and never leased.
    is_auto_ack: bool = False
    #: Messages of one key go to one member at a time, in order.
    is_ordered_by_key: bool = False
    start: Start = FROM_EARLIEST
    #: Only tasks of these types (types/tasks.py); empty: whatever there is. The others stay where they are.
    types: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Delivery:
    """Consecutive records of one stored batch, cut out as a batch of their own, under one lease."""

    partition: int
    #: 0: at most once, there is nothing to settle.
    lease_id: int
    first: Offset
    count: int
    #: 1 at the first delivery; the same for all of them.
    attempt: int
    batch: bytes | memoryview


@dataclass(slots=True)
class Polled(Reply):
    deliveries: list[Delivery]
    #: How long the leases last from now.
    visibility_ms: int = 0
    #: When nothing came because of a rate limit: when it is worth asking again.
    retry_after_ms: int = 0


@dataclass(slots=True)
class Settle(Request):
    """Ends leases. Answered when the end is on disk at a majority, except for a release, which is not replicated."""

    topic: str
    partition: int
    group: str
    #: ACK, RELEASE, FAIL or REJECT.
    kind: int
    held: list[LeaseRange]
    #: Of a failure or a rejection, for people and for dead-letter triage.
    reason: str = ""
    #: Until the next attempt after a failure or a release; BY_BACKOFF: the group's own.
    delay_ms: int = BY_BACKOFF
    #: One for each of `held`, or none at all. Where a lease id is 0: whatever this member holds of the run.
    members: list[str] = field(default_factory=list)
    #: What the topic must be, in case that another one has the same name by now; 0: any.
    topic_id: int = 0


@dataclass(slots=True)
class Settled(Reply):
    """`expired` were refused: somebody else holds them, or they ended in another way already. The rest is done."""

    expired: list[LeaseRange] = field(default_factory=list)


@dataclass(slots=True)
class Extend(Request):
    """Leases last visibility_ms from now. Sent to a new leader, it presents leases that the old one gave out.

    Where a lease id is 0: whatever the member holds of the run.
    """

    topic: str
    partition: int
    group: str
    member: str
    held: list[LeaseRange]
    visibility_ms: int
    #: As in Settle.
    topic_id: int = 0


@dataclass(slots=True)
class Subscribe(Request):
    """Push: deliveries come as Pushed answers to this request, as many messages as there is credit, until it is ended.

    A connection that ends gives its leases back early.
    """

    topic: str
    group: str
    member: str
    #: Messages that may be out before more credit is given.
    credit: int
    partitions: list[int] = field(default_factory=list)
    visibility_ms: int = 0
    is_auto_ack: bool = False
    is_ordered_by_key: bool = False
    start: Start = FROM_EARLIEST


@dataclass(slots=True)
class Pushed(Reply):
    """Some deliveries of a subscription; more will follow."""

    deliveries: list[Delivery]
    visibility_ms: int = 0


@dataclass(slots=True)
class AddCredit(Request):
    """The subscription of that correlation id, on the same connection, may have so many more messages out."""

    subscription: int
    messages: int


@dataclass(slots=True)
class Unsubscribe(Request):
    """Ends a subscription of the same connection; what it holds stays leased until it is settled or runs out."""

    subscription: int


@dataclass(slots=True)
class Withdraw(Request):
    """The request of that correlation id, on the same connection, waits no longer: a poll is answered with nothing now.

    Other requests that wait are answered with UNAVAILABLE. One that has its answer already is no mistake: whoever
    withdraws a poll has to look at what it brought. A subscription is ended by Unsubscribe.
    """

    request: int


@dataclass(slots=True)
class CancelRecords(Request):
    """Messages that no group shall get any more, by offset or by idempotency key."""

    topic: str
    partition: int
    offsets: list[Offset] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    #: As in Settle.
    topic_id: int = 0


@dataclass(slots=True)
class RecordsCancelled(Reply):
    """Those that are cancelled now. What a group had finished before stays finished there."""

    offsets: list[Offset]


@dataclass(slots=True)
class ListGroups(Request):
    """Queue groups and groups with a committed offset, of one partition."""

    topic: str
    partition: int


@dataclass(slots=True)
class GroupList(Reply):
    #: Name to kind: "queue" or "offset".
    groups: dict[str, str]


def kinds_of(lists: Iterable[GroupList]) -> dict[str, str]:
    """The groups of several partitions together, in the order of names.

    A queue group is one in every partition that it has polled, whatever the others say.
    """
    found: dict[str, str] = {}
    for listed in lists:
        for name, kind in listed.groups.items():
            found[name] = QUEUE_KIND if QUEUE_KIND in (kind, found.get(name)) else kind
    return dict(sorted(found.items()))


@dataclass(slots=True)
class DescribeGroup(Request):
    topic: str
    partition: int
    group: str


@dataclass(slots=True)
class MemberInfo:
    name: str
    leased: int
    last_poll_ms_ago: int


@dataclass(slots=True)
class GroupDescription(Reply):
    """One group in one partition. Times are durations, so that clocks need not agree."""

    kind: str
    #: Everything below is settled.
    floor: Offset
    next_offset: Offset
    log_start: Offset
    #: Messages not settled.
    lag: int
    #: For how long the oldest message waits that is not settled and whose time of delivery has come; 0: there is none.
    oldest_age_ms: int = 0
    ready: int = 0
    leased: int = 0
    #: Waiting for a time: of delivery, or of the next attempt.
    delayed: int = 0
    #: On their way to the dead-letter topic, and there.
    dying: int = 0
    dead_total: int = 0
    acked_total: int = 0
    failed_total: int = 0
    expired_total: int = 0
    cancelled_total: int = 0
    is_paused: bool = False
    members: list[MemberInfo] = field(default_factory=list)


@dataclass(slots=True)
class ResetGroup(Request):
    """Moves a group to another place, backwards or forwards; leases and failures of a queue group are forgotten.

    One that commits offsets goes where it is told, but a stream group only under an epoch that its coordinator gave for
    it (FenceGroup): a member that comes or goes meanwhile does not undo it, nor is it undone itself.
    """

    topic: str
    partition: int
    group: str
    start: Start
    is_dry_run: bool = False
    epoch: int = 0


@dataclass(slots=True)
class GroupReset(Reply):
    """From where to where; the same numbers with a dry run, which changes nothing."""

    from_offset: Offset
    to_offset: Offset


@dataclass(slots=True)
class DeleteGroup(Request):
    topic: str
    partition: int
    group: str


@dataclass(slots=True)
class AlterGroup(Request):
    """Settings of one group of a topic, for all partitions: `types/group_settings`. An empty text takes one back."""

    topic: str
    group: str
    settings: dict[str, str]


@dataclass(slots=True)
class GroupReply(Reply):
    """What is set for the group, as people read it."""

    settings: dict[str, str]


@dataclass(slots=True)
class ExplainMessage(Request):
    """Why a message is where it is, for one group."""

    topic: str
    partition: int
    offset: Offset
    group: str
    #: As in Settle.
    topic_id: int = 0
    #: The message itself is wanted, too.
    has_record: bool = False
    #: All that the log tells is wanted, which has to be read for that: not for who asks about many messages.
    has_history: bool = False


@dataclass(slots=True)
class Explanation(Reply):
    """`state` is a name of the table in queue/states; `history` and `next` are for people."""

    state: str
    attempts: int = 0
    reason: str = ""
    holder: str = ""
    #: Until something changes by itself: a lease runs out, a delay is over.
    remaining_ms: int = 0
    history: list[str] = field(default_factory=list)
    next: str = ""
    #: When it died; 0: it did not, or nobody remembers.
    ended_ms: int = 0
    #: The message as a batch of its own, if it was asked for and is in the log.
    batch: bytes = b""


@dataclass(slots=True)
class TakeTokens(Request):
    """A leader of another partition asks the keeper of a topic's rate limits for leave to deliver."""

    topic: str
    group: str
    tokens: int
    #: Where the group begins at the keeper if nobody has polled there yet.
    start: Start = FROM_EARLIEST


@dataclass(slots=True)
class TokensGranted(Reply):
    """As many as there are now, perhaps none; they are spent, whether used or not."""

    tokens: int
    retry_after_ms: int = 0
