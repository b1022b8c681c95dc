"""Operations on messages that wait in a partition: for their time, or for another message of their key."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from flotilla.types.access import CONSUME, DESCRIBE, MANAGE, Resource
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.limits import TIME_MS_MAX
from flotilla.types.operations.request import PARTITION_LEADER, READ, REPEATABLE, Reply, Request
from flotilla.types.slotted import slotted

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
#: The upper ends of the buckets of a histogram of due times, from now on. The last bucket has no end.
DUE_EDGES_MS: Final = (
    *(10_000, _MINUTE_MS, 5 * _MINUTE_MS, 15 * _MINUTE_MS),
    *(_HOUR_MS, 3 * _HOUR_MS, 6 * _HOUR_MS, 12 * _HOUR_MS),
    *(_DAY_MS, 3 * _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS),
)
BLOCKED_KEYS_SHOWN_MAX: Final = 1_000
DELAYED_SHOWN_MAX: Final = 1_000


@slotted
class DueTimes(Reply):
    #: Delayed messages, by the buckets of DUE_EDGES_MS.
    counts: list[int]
    #: So many are delayed that only some were looked at, and the counts extrapolated.
    is_estimated: bool = False


@slotted
class ReadDueTimes(Request[DueTimes], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    """When the delayed messages of a partition come due; those of a queue group with its retries."""

    topic: str
    partition: int
    #: Empty: whatever groups have done.
    group: str = ""


@slotted
class DelayedMessage:
    """One that waits for its time of delivery, or in a queue group for its next attempt."""

    offset: Offset
    #: By the cluster's clock.
    due_ms: int
    #: Failed ones.
    attempts: int = 0
    #: Why its last attempt failed.
    reason: str = ""


@slotted
class DelayedMessages(Reply):
    #: Those that come due next, in that order.
    messages: list[DelayedMessage]
    #: There are more after them.
    has_more: bool = False
    #: So many are delayed that those which come due later are not listed.
    is_cut: bool = False


@slotted
class ListDelayed(Request[DelayedMessages], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    """Messages of a partition by the time in which they come due, without cancelled ones."""

    topic: str
    partition: int
    #: Those that this queue group waits for, with its retries. Empty: whatever groups have done.
    group: str = ""
    limit: int = 100
    #: Only from this time on, and of this very time from this offset on.
    from_ms: int = 0
    from_offset: Offset = 0


class DelayedPlace(NamedTuple):
    """A message of a topic in the order of `DelayedPage`."""

    due_ms: int
    partition: int
    offset: Offset

    def after(self, partition: int) -> tuple[int, Offset]:
        """`from_ms` and `from_offset` of what follows this message in a partition."""
        if partition > self.partition:
            return self.due_ms, 0
        return (self.due_ms, self.offset + 1) if partition == self.partition else (self.due_ms + 1, 0)

    def __str__(self) -> str:
        return f"{self.due_ms}-{self.partition}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "DelayedPlace":
        """Raises InvalidArgumentError."""
        parts = text.split("-")
        if len(parts) != len(cls._fields) or not all(part.isascii() and part.isdigit() for part in parts):
            raise InvalidArgumentError(f"{text!r} is no `next` of a page of delayed messages")
        return cls(*[min(int(part), TIME_MS_MAX) for part in parts])


@slotted
class DelayedPage:
    """Delayed messages of a topic."""

    #: By due time, partition and offset; each with its partition.
    messages: list[tuple[int, DelayedMessage]]
    #: `after` of the next page; empty: there is none.
    next: str = ""
    #: So many are delayed that of some partitions those which come due later are not listed.
    is_cut: bool = False


def delayed_page(found: Mapping[int, DelayedMessages], limit: int) -> DelayedPage:
    """Of all partitions, each with its number: the messages that come due next."""
    rows = [(one.due_ms, number, one.offset, one) for number, each in found.items() for one in each.messages]
    rows.sort(key=lambda row: row[:3])
    has_more = len(rows) > limit or any(each.has_more for each in found.values())
    shown = rows[:limit]
    return DelayedPage(
        [(number, message) for _, number, _, message in shown],
        str(DelayedPlace(*shown[-1][:3])) if has_more and shown else "",
        any(each.is_cut for each in found.values()),
    )


@slotted
class DeliveredNow(Reply):
    """The offsets that wait for nothing now, also those that did not before."""

    offsets: list[Offset]


@slotted
class DeliverNow(Request[DeliveredNow], to=PARTITION_LEADER, effect=REPEATABLE, needs=MANAGE):
    """Delayed messages are due now, in every group; in the queue group that is named their retries are, too."""

    topic: str
    partition: int
    offsets: list[Offset]
    group: str = ""

    @property
    def resources(self) -> Sequence[Resource]:
        """A time of delivery is the message's: every group gets it."""
        return (Resource(self.topic),)


@slotted
class BlockedKey:
    key: bytes
    #: The message that has to be settled first, and its state.
    offset: Offset
    state: str
    #: Of a leased message, and how long its lease, or the pause before its next attempt, still lasts.
    holder: str
    remaining_ms: int
    attempts: int
    #: Why its last attempt failed.
    reason: str
    #: Messages behind it.
    blocked: int


@slotted
class BlockedKeys(Reply):
    #: Those with the most messages behind them, the most first.
    keys: list[BlockedKey]
    #: All that polls have met so far.
    key_count: int
    message_count: int


def most_blocked(found: Mapping[int, BlockedKeys], limit: int) -> list[tuple[int, BlockedKey]]:
    """Of all partitions, each with its number: the keys with the most messages behind them, the most first."""
    keys = [(number, key) for number, each in found.items() for key in each.keys]
    return sorted(keys, key=lambda row: -row[1].blocked)[:limit]


@slotted
class ListBlockedKeys(Request[BlockedKeys], to=PARTITION_LEADER, effect=READ, needs=CONSUME):
    """Keys of a queue group in order by key whose next messages wait for one that is leased or retried.

    Keys are a part of messages: only callers who may read those see them.
    """

    topic: str
    partition: int
    group: str
    limit: int = 100
