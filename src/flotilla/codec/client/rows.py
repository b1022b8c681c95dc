"""One row per value that travels: how a request or a reply gets into its protobuf message and out of it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

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


def plain(kind: type, field: str, *names: str) -> Row:
    """A row for a value that is nothing but numbers, flags and text."""

    def write(body: Any, value: Any) -> Sequence[Buffer]:
        for name in names:
            setattr(body, name, getattr(value, name))
        return ()

    def read(body: Any, attachment: memoryview) -> Any:
        return kind(*[getattr(body, name) for name in names])

    return Row(kind, field, write, read)
