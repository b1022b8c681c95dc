"""Operations on queue groups: poll, settle and extend leases; list, describe, reset and alter groups.

A group works partition by partition; a client that wants all partitions of a topic asks each leader. A lease is named
by its id, which the leader's term fences, and covers runs of offsets: a thousand messages are a handful of numbers.
Settling, extending and presenting a lease to a new leader all name (lease, run of offsets).
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import ClassVar, Final, NamedTuple

from flotilla.types.access import ANYBODY, CONSUME, DESCRIBE, MANAGE, NODES, Resource, Right
from flotilla.types.ids import Offset
from flotilla.types.operations.log import EARLIEST
from flotilla.types.operations.request import (
    CONNECTION,
    CONTROLLER,
    ONCE,
    PARTITION_LEADER,
    READ,
    REPEATABLE,
    Done,
    Effect,
    May,
    Reply,
    Request,
    Route,
)
from flotilla.types.slotted import slotted

#: Kinds of groups.
QUEUE_KIND: Final = "queue"
OFFSET_KIND: Final = "offset"

#: Outcomes of a lease: done; returned, which does not count as an attempt; failed, which does; dead-lettered at once.
ACK: Final = 1
RELEASE: Final = 2
FAIL: Final = 3
REJECT: Final = 4

#: Where a new group begins: EARLIEST, LATEST, or one of these with a value.
FROM_OFFSET: Final = 1
FROM_TIME: Final = 2

#: delay_ms of a failure that leaves the delay to the group's backoff.
BY_BACKOFF: Final = -1

#: The low bits of a lease id are a number, the others the term of the leader that gave it.
LEASE_NUMBER_BITS: Final = 40


class LeaseRange(NamedTuple):
    """A run of offsets under one lease, up to but without `end`."""

    lease_id: int
    first: Offset
    end: Offset


class MessageResult(NamedTuple):
    """What came of an acked message, for the caller that waits for it."""

    offset: Offset
    payload: bytes = b""
    #: False: there was a result, which cannot be kept; a caller that waits for it gets FORGOTTEN.
    is_kept: bool = True


class Start(NamedTuple):
    """Where a new group begins."""

    kind: int = EARLIEST
    #: An offset or a time, as the kind says.
    value: int = 0


FROM_EARLIEST: Final = Start()


# Delivery.


@slotted
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
    #: Of the topic. Lease ids and offsets of a topic that is created anew begin again.
    topic_id: int = 0


@slotted
class Polled(Reply):
    deliveries: list[Delivery]
    #: How long the leases last from now.
    visibility_ms: int = 0
    #: When a rate limit kept everything back: when to poll again.
    retry_after_ms: int = 0
    #: Unsettled messages of the group in the partitions that were polled, with those that are delivered here; -1: not
    #: said.
    lag: int = -1


@slotted
class Poll(Request[Polled], effect=READ, needs=CONSUME):
    """Leases messages of the partitions that this node leads. Waits up to wait_ms for the first one.

    The first poll creates the group.
    """

    topic: str
    group: str
    #: The consumer that gets the leases: a name that lives as long as it does.
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
    #: Messages of one key go to one member at a time, in order. Sets `ordered` of the group, unless that is set to 0:
    #: GROUP_MODE. Without it the group's setting counts.
    is_ordered_by_key: bool = False
    start: Start = FROM_EARLIEST
    #: Deliver only messages of these types (types/tasks.py); empty: all messages.
    types: list[str] = field(default_factory=list)
    #: Refuses a later topic of the same name with TOPIC_REPLACED; 0: any.
    topic_id: int = 0
    #: Deliver only messages that have all of these headers (types/filters.py).
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    #: The member presents its leases to every new leader (`Extend.presented_term`), which waits for it by name.
    presents: bool = False

    @property
    def route(self) -> Route:
        return Route(self.topic, self.partitions[0] if self.partitions else 0)


@slotted
class Pushed(Reply):
    """Some deliveries of a subscription; more will follow. The first one says that it is open, and may have none."""

    deliveries: list[Delivery]
    visibility_ms: int = 0
    #: As in Polled, of all partitions of the subscription.
    lag: int = -1
    #: Partitions of the subscription that this node no longer leads: nothing more comes of these.
    left_partitions: list[int] = field(default_factory=list)


@slotted
class Subscribe(Request[Pushed], effect=READ, needs=CONSUME):
    """Push: deliveries come as Pushed replies to this request, within its credit, until it is ended.

    A connection that ends gives its leases back early.
    """

    topic: str
    group: str
    member: str
    #: Messages that may be pushed before more credit is given.
    credit: int
    partitions: list[int] = field(default_factory=list)
    visibility_ms: int = 0
    is_auto_ack: bool = False
    is_ordered_by_key: bool = False
    start: Start = FROM_EARLIEST
    #: As in Poll.
    topic_id: int = 0
    #: As in Poll, all three.
    types: list[str] = field(default_factory=list)
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    presents: bool = False
    #: Bytes that may be pushed before more credit is given, up to one message more; 0: as many as the node allows.
    max_bytes: int = 0

    @property
    def route(self) -> Route:
        return Route(self.topic, self.partitions[0] if self.partitions else 0)


@slotted
class AddCredit(Request[Done], to=CONNECTION, effect=ONCE, needs=ANYBODY):
    """Adds credit to the subscription of that correlation id on the same connection, and renews its bytes."""

    subscription: int
    messages: int


@slotted
class Unsubscribe(Request[Done], to=CONNECTION, effect=REPEATABLE, needs=ANYBODY):
    """Ends a subscription of the same connection; its messages stay leased until they are settled or expire.

    The answer follows the last push: messages that are acknowledged already would be lost without theirs.
    """

    subscription: int


@slotted
class Withdraw(Request[Done], to=CONNECTION, effect=REPEATABLE, needs=ANYBODY):
    """Ends the wait of the request of that correlation id on the same connection: a poll returns what it has leased.

    Other waiting requests are answered with UNAVAILABLE. A request that is answered already is no error, so a client
    that withdraws a poll has to look at its reply. Unsubscribe ends a subscription.
    """

    request: int


@slotted
class LeaveQueue(Request[Done], effect=REPEATABLE, needs=CONSUME):
    """A consumer is closed: it is no member of the group any more, in the partitions that this node leads.

    Its polls there end, and what it still holds is given back, which does not count as an attempt.
    """

    topic: str
    group: str
    member: str
    #: One that the node leads, as far as the member knows.
    partition: int

    @property
    def route(self) -> Route:
        return Route(self.topic, self.partition)


# Settling.


@slotted
class Settled(Reply):
    """`expired` were refused: another member has them, or they were settled before. The rest is done."""

    expired: list[LeaseRange] = field(default_factory=list)
    #: Of `expired`: those that are settled for good, and in the same way, by an earlier attempt of this request or by
    #: another member. An ack and a rejection settle in different ways.
    settled: list[LeaseRange] = field(default_factory=list)
    #: The answer to an Extend: the term of the leader. 0: not said.
    term: int = 0

    def refused_again(self, kind: int) -> list[LeaseRange]:
        """What is refused of a Settle of which an attempt without an answer may have been carried out.

        A message that has ended as it was to end is done, whoever ended it. A failure or a release gives the message
        back, which has happened, or another member has it.
        """
        return _without(self.expired, self.settled) if kind in (ACK, REJECT) else []


@slotted
class Settle(Request[Settled], to=PARTITION_LEADER, effect=REPEATABLE, needs=CONSUME):
    """Settles leases. Answered when that is on disk at a majority, except for a release, which is not replicated."""

    topic: str
    partition: int
    group: str
    #: ACK, RELEASE, FAIL or REJECT.
    kind: int
    leases: list[LeaseRange]
    #: Of a failure or a rejection, for people and for dead-letter triage.
    reason: str = ""
    #: Until the next attempt after a failure or a release; BY_BACKOFF: the group's own.
    delay_ms: int = BY_BACKOFF
    #: One for each of `leases`, or none at all. Where a lease id is 0: all that this member has of the run.
    members: list[str] = field(default_factory=list)
    #: Of the topic in which they were leased: in a later topic of the same name all of them have expired; 0: any.
    topic_id: int = 0
    #: Of messages in `leases`, with an ACK only.
    results: list[MessageResult] = field(default_factory=list)


@slotted
class Extend(Request[Settled], to=PARTITION_LEADER, effect=REPEATABLE, needs=CONSUME):
    """Leases last visibility_ms from now. Sent to a new leader, it presents leases that the old one gave out.

    Where a lease id is 0: all that the member has of the run.
    """

    topic: str
    partition: int
    group: str
    member: str
    leases: list[LeaseRange]
    visibility_ms: int
    #: As in Settle.
    topic_id: int = 0
    #: The member holds no lease of an earlier term but those that it has extended in this term, here and before, and
    #: takes no delivery of an earlier term from now on. The leader of this term waits for it no longer. 0: not said.
    presented_term: int = 0


@slotted
class RecordsCancelled(Reply):
    """The offsets that are cancelled now. What a group had finished before stays finished there."""

    offsets: list[Offset]


@slotted
class CancelRecords(Request[RecordsCancelled], to=PARTITION_LEADER, effect=REPEATABLE, needs=MANAGE):
    """Messages, by offset or by idempotency key, that no group gets any more."""

    topic: str
    partition: int
    offsets: list[Offset] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    #: As in Poll.
    topic_id: int = 0


# Results.


@slotted
class EndedMessage:
    """How a message ended in one group."""

    offset: Offset
    #: A final state of partition/explain/delivery_states; FORGOTTEN_STATE; or empty: there is no such message.
    state: str
    #: Of an acked message; empty, too, if the ack carried none.
    result: bytes = b""
    #: Of a message that failed, and its deliveries.
    reason: str = ""
    attempts: int = 0


#: Done, with the result.
ACKED_STATE: Final = "acked"
#: It ended, but its result is not kept, or it is not remembered how it ended.
FORGOTTEN_STATE: Final = "forgotten"


@slotted
class ResultsRead(Reply):
    """The messages that have ended, or as many of them as one answer carries; none: the wait is over."""

    ended: list[EndedMessage]


@slotted
class ReadResults(Request[ResultsRead], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    """How messages ended in a group, and their results. Waits up to wait_ms for the first one.

    The group may be unknown yet: the first poll creates it.
    """

    topic: str
    partition: int
    group: str
    offsets: list[Offset]
    wait_ms: int = 0
    #: As in Poll.
    topic_id: int = 0


# Groups.


@slotted
class GroupList(Reply):
    #: Name to kind: "queue" or "offset".
    groups: dict[str, str]


@slotted
class ListGroups(Request[GroupList], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    """Queue groups and groups with a committed offset, of one partition."""

    topic: str
    partition: int

    def visible(self, reply: GroupList, may: May) -> GroupList:
        return GroupList(
            {name: kind for name, kind in reply.groups.items() if may(DESCRIBE, Resource(self.topic, name))}
        )


def kinds_of(lists: Iterable[GroupList]) -> dict[str, str]:
    """The groups of several partitions together, in the order of names.

    A group that is a queue group in one partition is one in all.
    """
    found: dict[str, str] = {}
    for listed in lists:
        for name, kind in listed.groups.items():
            found[name] = QUEUE_KIND if QUEUE_KIND in (kind, found.get(name)) else kind
    return dict(sorted(found.items()))


@slotted
class MemberInfo:
    name: str
    leased: int
    last_poll_ms_ago: int
    #: It has leases, waits for messages, or has polled a short time ago: the group is not deleted under it.
    is_live: bool = False


@slotted
class GroupDescription(Reply):
    """One group in one partition. Times are durations, so that clocks need not agree."""

    kind: str
    #: Everything below is settled.
    floor: Offset
    next_offset: Offset
    log_start: Offset
    #: Unsettled messages.
    lag: int
    #: The age of the oldest unsettled message that is due; 0: there is none.
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
    #: Removed by retention, a trim or a purge before they were settled.
    trimmed_total: int = 0
    is_paused: bool = False
    members: list[MemberInfo] = field(default_factory=list)
    #: Of `dying`: the dead-letter topic has refused them, and they are tried again.
    unburied: int = 0
    #: How many partitions the topic had when the queue group was opened: those from this number on are younger.
    partition_count: int = 0
    #: Messages that stay for the group although they are beyond the topic's retention.
    held_back: int = 0
    #: Of a group that expires: how long nobody has used it here.
    unused_ms: int = 0


@slotted
class DescribeGroup(Request[GroupDescription], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    topic: str
    partition: int
    group: str


@slotted
class GroupReset(Reply):
    """From where to where; the same numbers with a dry run, which changes nothing."""

    from_offset: Offset
    to_offset: Offset


@slotted
class ResetGroup(Request[GroupReset], to=PARTITION_LEADER, needs=MANAGE):
    """Moves a group to another place, backwards or forwards; leases and failures of a queue group are forgotten.

    A stream group moves only under an epoch that its coordinator gave for this (FenceGroup), so that a member that
    joins or leaves meanwhile neither undoes the move nor is undone by it.
    """

    topic: str
    partition: int
    group: str
    start: Start
    is_dry_run: bool = False
    epoch: int = 0

    @property
    def effect(self) -> Effect:
        """A reset that is repeated could undo what followed it."""
        return READ if self.is_dry_run else ONCE


@slotted
class DeleteGroup(Request[Done], to=PARTITION_LEADER, effect=REPEATABLE, needs=MANAGE):
    """Refused with GROUP_IN_USE while a queue group has live members, unless it is forced."""

    topic: str
    partition: int
    group: str
    is_forced: bool = False


@slotted
class GroupReply(Reply):
    """What is set for the group, as people read it."""

    settings: dict[str, str]


@slotted
class AlterGroup(Request[GroupReply], to=CONTROLLER, effect=REPEATABLE, needs=MANAGE):
    """Settings of one group of a topic, for all partitions: `types/group_settings`. An empty text removes one."""

    topic: str
    group: str
    settings: dict[str, str]

    @property
    def resources(self) -> Sequence[Resource]:
        """Whoever sends dead letters to another topic needs it for that topic, too: brokers would produce there."""
        letters = self.settings.get("dead_letter_topic")
        own = Resource(self.topic, self.group)
        return (own, Resource(letters)) if letters else (own,)


@slotted
class Explanation(Reply):
    """`state` is a name of the table in partition/explain/delivery_states; `history` and `next` are for people."""

    state: str
    attempts: int = 0
    reason: str = ""
    holder: str = ""
    #: Until something changes by itself: a lease expires, a delay ends.
    remaining_ms: int = 0
    history: list[str] = field(default_factory=list)
    next: str = ""
    #: When it was dead-lettered; 0: it was not, or the log does not say any more.
    ended_ms: int = 0
    #: The message as a batch of its own, if it was asked for and is in the log.
    batch: bytes = b""


@slotted
class ExplainMessage(Request[Explanation], to=PARTITION_LEADER, effect=READ):
    """Why a message is where it is, for one group."""

    topic: str
    partition: int
    offset: Offset
    group: str
    #: As in Poll.
    topic_id: int = 0
    #: Return the message itself, too.
    has_record: bool = False
    #: Return every step that the log still has, which means reading the log: too slow for many messages.
    has_history: bool = False

    @property
    def needs(self) -> Right:
        return CONSUME if self.has_record else DESCRIBE


# Rate limits.


@slotted
class TokensGranted(Reply):
    """As many as there are now, perhaps none; they are spent, whether used or not."""

    tokens: int
    retry_after_ms: int = 0


@slotted
class TakeTokens(Request[TokensGranted], to=PARTITION_LEADER, effect=REPEATABLE, needs=NODES):
    """Sent by the leader of another partition: permission to deliver this many messages under a rate limit."""

    #: The first partition keeps the rate limits of all.
    partition: ClassVar[int] = 0

    topic: str
    group: str
    tokens: int
    #: Where the group begins in that partition if it has not been polled there.
    start: Start = FROM_EARLIEST


def _without(ranges: list[LeaseRange], removed: list[LeaseRange]) -> list[LeaseRange]:
    parts: dict[int, list[LeaseRange]] = {}
    for part in sorted(removed):
        parts.setdefault(part.lease_id, []).append(part)
    found: list[LeaseRange] = []
    for lease_id, first, end in ranges:
        for _, low, high in parts.get(lease_id, ()):
            if low < end and first < high:
                if first < low:
                    found.append(LeaseRange(lease_id, first, low))
                first = max(first, high)
        if first < end:
            found.append(LeaseRange(lease_id, first, end))
    return found
