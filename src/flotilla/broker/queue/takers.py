"""A consumer that takes messages, and the room for them in one answer."""

from typing import NamedTuple

from flotilla.broker.queue.delivery import ReadResult
from flotilla.partition.leader.holders import UNNAMED
from flotilla.types.filters import NO_FILTER, MessageFilter
from flotilla.types.operations.queue import FROM_EARLIEST, Start


class Taker(NamedTuple):
    """A consumer that takes messages, and how."""

    group: str
    member: str
    visibility_ms: int
    #: Asks for order by key, which is a setting of the group.
    is_ordered: bool
    #: At most once: the ack commits before the message leaves.
    is_auto_ack: bool
    #: Only messages that it takes.
    wanted: MessageFilter = NO_FILTER
    #: Where the group begins in a partition that does not know it yet.
    start: Start = FROM_EARLIEST
    #: It presents its leases to every new leader.
    presents: bool = False

    @property
    def row(self) -> tuple[bool, MessageFilter]:
        """Waiters with the same filter share one row of the waiting room."""
        return self.is_ordered, self.wanted

    @property
    def holder(self) -> str:
        """The name by which a new leader waits for it."""
        return self.member if self.presents else UNNAMED


class Room:
    """The room left in one poll, over all its partitions. The first message fits, whatever its size."""

    __slots__ = ("bytes", "is_empty", "is_full", "messages")

    def __init__(self, messages: int, bytes_max: int) -> None:
        self.messages = messages
        self.bytes = bytes_max
        self.is_empty = True
        #: Some messages did not fit, or there is no room left.
        self.is_full = False

    def fill(self, read: ReadResult) -> None:
        for delivery in read.deliveries:
            self.messages -= delivery.count
            self.bytes -= len(delivery.batch)
            self.is_empty = False
        self.is_full = bool(read.left) or self.messages <= 0 or self.bytes <= 0
