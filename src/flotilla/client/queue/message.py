"""Messages of a queue consumer, made in bulk from the columns of a delivery.

A message is a named tuple, because that is quick to create; what a whole delivery shares, and which of its messages are
unsettled, is in its Lease. The shells add the methods that settle it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, repeat
from typing import Any, Generic, NamedTuple, TypeVar

from flotilla.client.queue._leases import Lease
from flotilla.codec.batch.records import headers_of, keys_of
from flotilla.codec.batch.view import BatchView
from flotilla.types.ids import Offset
from flotilla.types.records import CONTENT_BYTES, Headers

Owner = TypeVar("Owner")


class Leased(NamedTuple, Generic[Owner]):
    """One message under a lease. (topic, partition, offset) identifies it for ever; `attempt` begins at 1."""

    payload: bytes
    offset: Offset
    lease: Lease
    #: The consumer that holds it.
    owner: Owner
    #: None is no key; the empty key is a key like any other.
    key: bytes | None = None
    headers: Headers = ()
    #: When the producer made it.
    timestamp_ms: int = 0
    content_type: int = CONTENT_BYTES

    @property
    def topic(self) -> str:
        """Where it is stored."""
        return self.lease.topic

    @property
    def partition(self) -> int:
        """Of the topic."""
        return self.lease.partition

    @property
    def attempt(self) -> int:
        """How often it has been delivered, this time included."""
        return self.lease.attempt

    @property
    def priority(self) -> int:
        """0 to 7; a higher one is delivered earlier."""
        return self.lease.priority

    @property
    def deliver_at_ms(self) -> int:
        """Before when it was not to be delivered; 0: at once."""
        return self.lease.deliver_at_ms

    @property
    def is_settled(self) -> bool:
        """Whether it was settled or lost, or was acknowledged on delivery."""
        lease = self.lease
        return not lease.unsettled >> (self.offset - lease.first) & 1

    def __repr__(self) -> str:
        place = f"{self.topic}/{self.partition}@{self.offset}"
        return f"<{type(self).__name__} {place} attempt {self.attempt}: {len(self.payload)} bytes>"


Message = TypeVar("Message", bound=Leased[Any])


def messages_of(kind: type[Message], owner: object, lease: Lease, view: BatchView) -> list[Message]:
    """All messages of a delivery. Raises InvalidArgumentError when it is malformed."""
    make: Callable[[Iterable[object]], Message] = partial(tuple.__new__, kind)
    columns = view.columns
    fields = zip(
        columns.values.items(),
        count(lease.first),
        repeat(lease),
        repeat(owner),
        repeat(None) if columns.keys is None else keys_of(columns),
        repeat(()) if columns.header_offsets is None else headers_of(columns),
        repeat(view.header.first_time_ms) if columns.timestamps is None else columns.timestamps.tolist(),
        repeat(columns.directory.content_type) if columns.content_types is None else columns.content_types,
    )  # Not strict: shared fields repeat without end, and the columns are equally long.
    return list(map(make, fields))


def masks_of(messages: Iterable[Message]) -> dict[Lease, int]:
    """The messages as bits of their leases. Neighbours, which most of them are, cost one step for all of them."""
    if isinstance(messages, tuple) and len(messages) == 1:
        # Handlers settle one at a time.
        (message,) = messages
        return {message.lease: message.lease.bit(message.offset)}
    masks: dict[Lease, int] = {}
    lease: Lease | None = None
    first = end = 0
    for message in messages:
        offset = message.offset
        if offset == end and message.lease is lease:
            end += 1
            continue
        if lease is not None:
            masks[lease] = masks.get(lease, 0) | lease.mask(first, end)
        lease = message.lease
        first, end = offset, offset + 1
    if lease is not None:
        masks[lease] = masks.get(lease, 0) | lease.mask(first, end)
    return masks
