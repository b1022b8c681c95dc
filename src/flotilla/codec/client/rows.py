"""The rows of the client protocol: how each request and reply gets into its protobuf message and back."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from flotilla.codec.fields import Descriptor, Fields, Part, fields_of
from flotilla.codec.generated import client_pb2

Buffer: TypeAlias = bytes | bytearray | memoryview
Writer: TypeAlias = Callable[[Any, Any], Sequence[Buffer]]
Reader: TypeAlias = Callable[[Any, memoryview], Any]


class Row(NamedTuple):
    """How one kind of value travels."""

    kind: type
    #: The field of the envelope that holds it.
    field: str
    write: Writer
    read: Reader
    #: Raw bytes may follow the envelope.
    has_attachment: bool = False


def by_hand(kind: type, write: Writer, read: Reader, *, has_attachment: bool = False) -> Row:
    """A row whose functions are written out, because they run for every batch or lease."""
    return Row(kind, re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower(), write, read, has_attachment)


def derived(kind: type, **declared: Part | str | None) -> Row:
    """A row by the names of the fields (`codec/fields`), put together when it is first used: most clients use few."""

    @cache
    def fields() -> Fields:
        return fields_of(kind, message_of(kind), **declared)

    def write(body: Any, value: Any) -> Sequence[Buffer]:
        fields().write(body, value)
        return ()

    return by_hand(kind, write, lambda body, attachment: fields().read(body))


def message_of(kind: type) -> Descriptor:
    """The message of the contract that has the name of the value."""
    return client_pb2.DESCRIPTOR.message_types_by_name[kind.__name__]


def write_headers(body: Any, headers: list[tuple[str, bytes]]) -> None:
    for name, value in headers:
        body.add(name=name, value=value)


def read_headers(body: Any) -> list[tuple[str, bytes]]:
    return [(pair.name, pair.value) for pair in body]
