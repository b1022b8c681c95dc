"""A consumer that takes messages, the room for them in one answer, and what was read."""

from copy import copy
from typing import NamedTuple, Self

from flotilla.codec.batch.columns import size_when_open
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.holders import UNNAMED
from flotilla.types.filters import NO_FILTER, MessageFilter
from flotilla.types.ids import Offset
from flotilla.types.limits import SHOWN_BYTES_MAX
from flotilla.types.operations.queue import FROM_EARLIEST, Delivery, Start


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


class ReadResult(NamedTuple):
    """What was read for the leases of one poll."""

    deliveries: list[Delivery]
    #: Not read because they do not fit, or must be loaded from disk or opened first: to be released.
    left: list[LeasedMessages]
    #: Past their time to live.
    expired: list[LeasedMessages]
    #: Runs of delivered records with a max_deliveries of their own: (first, end, max_deliveries).
    limited: list[tuple[Offset, Offset, int]]


class Room:
    """The room left in one poll, over all its partitions. The first message fits, whatever its size."""

    __slots__ = ("bytes", "is_empty", "is_full", "messages", "opened_bytes")

    def __init__(self, messages: int, bytes_max: int) -> None:
        self.messages = messages
        self.bytes = bytes_max
        #: What its batches may open to.
        self.opened_bytes = SHOWN_BYTES_MAX
        self.is_empty = True
        #: Some messages did not fit, or there is no room left.
        self.is_full = False

    def copy(self) -> Self:
        return copy(self)

    def add(self, delivery: Delivery) -> None:
        self.messages -= delivery.count
        self.bytes -= len(delivery.batch)
        self.opened_bytes -= size_when_open(delivery.batch)
        self.is_empty = False

    def fill(self, read: ReadResult) -> None:
        for delivery in read.deliveries:
            self.add(delivery)
        # With nothing in it there is room: what was left waits for something else.
        is_left = bool(read.left) and not self.is_empty
        self.is_full = is_left or min(self.messages, self.bytes, self.opened_bytes) <= 0
