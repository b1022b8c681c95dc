"""Messages under a lease, made from the columns of a delivery in bulk.

Below the surface a message is a tuple, because built-in functions make tuples in bulk, without a Python call for each.
What a whole delivery has in common, and what is unsettled of it, stands in its Lease. The shells add the methods that
settle a message.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from flotilla.client.message import AnyMessage
from flotilla.client.queue._leases import Lease
from flotilla.codec.batch.records import headers_of, keys_of
from flotilla.codec.batch.view import BatchView
from flotilla.types.ids import Offset
from flotilla.types.records import Headers

Owner = TypeVar("Owner")
_OWNER = 3
#: Of a message; one with another owner has the message that it was made of as well.
_FIELD_COUNT = 8


if TYPE_CHECKING:

    class _Fields:
        __slots__ = ()

    _field: Any
else:
    from _collections import _tuplegetter as _field

    _Fields = tuple


class _DetachedFields(NamedTuple):
    topic: str
    partition: int
    offset: Offset
    payload: bytes
    key: bytes | None
    headers: Headers
    timestamp_ms: int
    priority: int
    content_type: int
    attempt: int
    deliver_at_ms: int


class DetachedMessage(_DetachedFields, AnyMessage):
    """A message of a queue group without its lease: it can be pickled, and not settled."""

    __slots__ = ()


class Leased(_Fields, AnyMessage, Generic[Owner]):
    """A message under a lease; its attributes are its whole interface, whatever it is made of."""

    __slots__ = ()

    payload: bytes = _field(0, "The bytes that were produced.")
    offset: Offset = _field(1, "The place in the partition.")
    _lease: Lease = _field(2, "")
    #: The consumer that holds it.
    _owner: Owner = _field(_OWNER, "")
    key: bytes | None = _field(4, "None: no key. The empty key is a key like any other.")
    headers: Headers = _field(5, "Names and values in order; a name may occur more than once.")
    timestamp_ms: int = _field(6, "When the producer made it, in milliseconds since 1970.")
    content_type: int = _field(7, "A ContentType, or a code of your own from 128 on.")

    if not TYPE_CHECKING:
        __len__ = __iter__ = __getitem__ = __contains__ = None

    def __bool__(self) -> bool:
        return True

    def __del__(self) -> None:
        """Nobody can settle it any more: its lease is not renewed. A tuple has no weak references."""
        lease = self._lease
        is_held = lease.unsettled >> (self.offset - lease.first) & 1
        if is_held and tuple.__len__(cast("tuple[object, ...]", self)) == _FIELD_COUNT:
            lease.dropped((lease, self.offset))

    @property
    def topic(self) -> str:
        """The topic that it is stored in."""
        return self._lease.topic

    @property
    def partition(self) -> int:
        """The partition of the topic."""
        return self._lease.partition

    @property
    def attempt(self) -> int:
        """How often it has been delivered, this time included; 1 at first."""
        return self._lease.attempt

    @property
    def priority(self) -> int:
        """0 to 7; a higher one is delivered earlier."""
        return self._lease.priority

    @property
    def deliver_at_ms(self) -> int:
        """When it was due, in milliseconds since 1970; 0: at once."""
        return self._lease.deliver_at_ms

    @property
    def is_settled(self) -> bool:
        """Whether it was acknowledged, given back or lost, or needed none of that."""
        lease = self._lease
        return not (lease.unsettled | lease.failed) >> (self.offset - lease.first) & 1

    def detached(self) -> DetachedMessage:
        """A copy without the lease that can be pickled, for a process pool. Settle the message itself."""
        return DetachedMessage(*[getattr(self, name) for name in DetachedMessage._fields])

    def __reduce__(self) -> str:
        raise TypeError("a message under a lease cannot be pickled; message.detached() can")

    def __repr__(self) -> str:
        place = f"{self.topic}/{self.partition}@{self.offset}"
        return f"<{type(self).__name__} {place} attempt {self.attempt}: {len(self.payload)} bytes>"


Message = TypeVar("Message", bound=Leased[Any])
_NEW: Any = tuple.__new__


def with_owner(message: Leased[Any], kind: type[Message], owner: object) -> Message:
    """The same message under the same lease, with methods of another kind."""
    fields = list(tuple.__iter__(cast("tuple[object, ...]", message)))
    fields[_OWNER] = owner
    # The message itself lives as long, and is renewed.
    fields.append(message)
    made: Message = _NEW(kind, fields)
    return made


def messages_of(kind: type[Message], owner: object, lease: Lease, view: BatchView) -> list[Message]:
    """All messages of a delivery. Raises InvalidArgumentError when it is malformed."""
    make: Callable[[Iterable[object]], Message] = partial(_NEW, kind)
    columns = view.columns
    fields = zip(
        columns.payloads.items(),
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
    """The messages as bits of their leases; neighbours, which most of them are, cost one step for all of them."""
    if isinstance(messages, tuple) and len(messages) == 1:
        # Handlers settle one at a time.
        (message,) = messages
        return {message._lease: message._lease.bit(message.offset)}
    masks: dict[Lease, int] = {}
    lease: Lease | None = None
    first = end = 0
    for message in messages:
        offset = message.offset
        if offset == end and message._lease is lease:
            end += 1
            continue
        if lease is not None:
            masks[lease] = masks.get(lease, 0) | lease.mask(first, end)
        lease = message._lease
        first, end = offset, offset + 1
    if lease is not None:
        masks[lease] = masks.get(lease, 0) | lease.mask(first, end)
    return masks
