"""Values between the gRPC messages and the endpoint, for calls that are more than one request to one partition."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flotilla.types.ids import Offset
from flotilla.types.lease_tokens import LeasePlace
from flotilla.types.operations import Fetch, Request
from flotilla.types.operations.queue import LeaseRange, MessageResult, Poll, Start, Subscribe
from flotilla.types.records import Record


@dataclass(slots=True)
class QueueLeave:
    """A member of a queue group has ended."""

    topic: str
    group: str
    member: str


@dataclass(slots=True)
class ProduceRecords:
    """Records for a topic; the keys choose the partition unless it is given."""

    topic: str
    partition: int | None
    records: list[Record]


@dataclass(slots=True)
class FetchMessages:
    request: Fetch
    #: The answer has the batches as they are stored.
    has_batches: bool


@dataclass(slots=True)
class PollMessages:
    request: Poll
    has_batches: bool


@dataclass(slots=True)
class OpenSubscription:
    request: Subscribe
    has_batches: bool


@dataclass(slots=True)
class AddSubscriptionCredit:
    messages: int


@dataclass(slots=True)
class SettleLeases:
    """Ends leases, in any number of partitions."""

    topic: str
    group: str
    kind: int
    held: dict[LeasePlace, list[LeaseRange]]
    #: The leases were given as tokens, and the answer names them as tokens.
    is_by_token: bool
    reason: str
    delay_ms: int
    #: Of acked messages, by place.
    results: dict[LeasePlace, list[MessageResult]] = field(default_factory=dict)


@dataclass(slots=True)
class ExtendLeases:
    topic: str
    group: str
    member: str
    held: dict[LeasePlace, list[LeaseRange]]
    is_by_token: bool
    visibility_ms: int


@dataclass(slots=True)
class EachPartition:
    """The same request to several partitions of a topic; all of them if none is given."""

    topic: str
    partitions: list[int]
    make: Callable[[int], Request]
    #: NOT_FOUND is an error only if all partitions return it.
    is_partial: bool = False


@dataclass(slots=True)
class TopicTrim:
    """Removes messages below offsets of partitions; None: all messages."""

    topic: str
    offsets: dict[int, Offset] | None


@dataclass(slots=True)
class GroupMove:
    """Moves a group in these partitions; in all of them if none is given."""

    topic: str
    group: str
    partitions: list[int]
    start: Start
    is_dry_run: bool


@dataclass(slots=True)
class GroupEnd:
    """Deletes a group in these partitions; as a whole if none is given."""

    topic: str
    group: str
    partitions: list[int]
    is_forced: bool


@dataclass(slots=True)
class Expired:
    """Leases that were refused."""

    held: dict[LeasePlace, list[LeaseRange]] = field(default_factory=dict)


@dataclass(slots=True)
class DeadLettersAsked:
    """Dead letters of a group to list, redrive or purge."""

    topic: str
    group: str
    limit: int
    #: The filter; empty and 0: not given.
    reason: str = ""
    since_ms: int = 0
    until_ms: int = 0
    is_dry_run: bool = False
    is_forced: bool = False
