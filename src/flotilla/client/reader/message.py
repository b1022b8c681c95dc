"""Messages of readers and streams, made from stored batches in bulk.

A message is a tuple with names, as a record is, because one is made for each: all loops over the columns of
a batch run inside built-in functions.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, repeat
from typing import Final, NamedTuple

from flotilla.client.message import AnyMessage
from flotilla.codec.batch.records import headers_of, keys_of
from flotilla.codec.batch.view import BatchView
from flotilla.types.ids import Offset
from flotilla.types.records import CONTENT_BYTES, Headers


class _Fields(NamedTuple):
    topic: str
    partition: int
    offset: Offset
    payload: bytes
    #: None is no key; the empty key is a key like any other.
    key: bytes | None = None
    headers: Headers = ()
    #: When the producer made it.
    timestamp_ms: int = 0
    priority: int = 0
    content_type: int = CONTENT_BYTES


class Message(_Fields, AnyMessage):
    """One record as it is stored."""

    __slots__ = ()


_MESSAGE: Final[Callable[[Iterable[object]], Message]] = partial(tuple.__new__, Message)


def messages_of(topic: str, partition: int, view: BatchView) -> list[Message]:
    """All messages of a stored batch. Raises InvalidArgumentError when it is malformed."""
    columns = view.columns
    fields = zip(
        repeat(topic),
        repeat(partition),
        count(view.header.base_offset),
        columns.payloads.items(),
        repeat(None) if columns.keys is None else keys_of(columns),
        repeat(()) if columns.header_offsets is None else headers_of(columns),
        repeat(view.header.first_time_ms) if columns.timestamps is None else columns.timestamps.tolist(),
        repeat(view.priority),
        repeat(columns.directory.content_type) if columns.content_types is None else columns.content_types,
    )  # Not strict: what all messages share has no end, and the columns are equally long.
    return list(map(_MESSAGE, fields))
