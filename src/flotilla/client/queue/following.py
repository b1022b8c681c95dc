"""What follows a message of a queue group: the record of `message.then`, and who produces it."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.queue.message import Leased


class Next(NamedTuple):
    """The record that follows a message."""

    topic: str
    payload: bytes
    key: bytes | None
    partition: int | None
    fields: RecordFields
    #: Of the message that is acknowledged.
    result: bytes | None = None


#: Acknowledges a message and produces what follows it, together and within a time limit.
Follow: TypeAlias = Callable[[Leased[Any], Next, int], Coroutine[Any, Any, Receipt]]
