"""What the gRPC contract asks for beyond one request to one partition: values between its messages and the door."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flotilla.types.operations import Fetch, Request
from flotilla.types.operations.queue import LeaseRange, Poll, Start, Subscribe
from flotilla.types.records import Record


@dataclass(slots=True)
class ProduceRecords:
    """Records for a topic; the partition is the keys' matter unless it is named."""

    topic: str
    partition: int | None
    records: list[Record]


@dataclass(slots=True)
class FetchMessages:
    request: Fetch
    #: Batches are wanted as they are.
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
    held: dict[int, list[LeaseRange]]
    #: They were named one by one, and are named so in the answer.
    is_by_token: bool
    reason: str
    delay_ms: int


@dataclass(slots=True)
class ExtendLeases:
    topic: str
    group: str
    member: str
    held: dict[int, list[LeaseRange]]
    is_by_token: bool
    visibility_ms: int


@dataclass(slots=True)
class EachPartition:
    """The same request to several partitions of a topic: all of them if none is named."""

    topic: str
    partitions: list[int]
    make: Callable[[int], Request]
    #: Partitions may not know what is asked about; only when all of them do not, that is an error.
    is_partial: bool = False


@dataclass(slots=True)
class GroupMove:
    """A group goes to another place in these partitions: in all of them if none is named."""

    topic: str
    group: str
    partitions: list[int]
    start: Start
    is_dry_run: bool


@dataclass(slots=True)
class GroupEnd:
    """A group is forgotten in these partitions: altogether if none is named."""

    topic: str
    group: str
    partitions: list[int]


@dataclass(slots=True)
class Expired:
    """Leases that were refused, by partition."""

    held: dict[int, list[LeaseRange]] = field(default_factory=dict)


@dataclass(slots=True)
class DeadLettersAsked:
    """Some dead letters of a group: to be shown, sent again or thrown away."""

    topic: str
    group: str
    limit: int
    #: Which are meant; empty and 0: not said.
    reason: str = ""
    since_ms: int = 0
    until_ms: int = 0
    is_dry_run: bool = False
    is_forced: bool = False
