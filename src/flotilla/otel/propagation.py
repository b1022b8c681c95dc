"""The trace context in the headers of records: written by the sender, read by the receiver.

Headers stay with a record in dead letters, redrives, replays and archives, and so does its trace.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.propagate import extract, get_global_textmap, inject
from opentelemetry.propagators.textmap import Getter, Setter

from flotilla.types.records import Headers

HeaderPairs = list[tuple[str, bytes | str]]


class _Write(Setter[HeaderPairs]):
    def set(self, carrier: HeaderPairs, key: str, value: str) -> None:
        carrier.append((key, value))


class _Read(Getter[Headers]):
    def get(self, carrier: Headers, key: str) -> list[str] | None:
        return [value.decode("latin-1") for name, value in carrier if name.lower() == key] or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_WRITE: Final = _Write()
_READ: Final = _Read()


def with_context(headers: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]] | None) -> HeaderPairs:
    """The headers and the current trace context."""
    pairs = as_pairs(headers)
    inject(pairs, setter=_WRITE)
    return pairs


def has_context(headers: HeaderPairs) -> bool:
    """Whether the headers carry a trace context already."""
    fields = get_global_textmap().fields
    return any(name.lower() in fields for name, _ in headers)


def as_pairs(headers: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]] | None) -> HeaderPairs:
    if headers is None:
        return []
    return list(headers.items() if isinstance(headers, Mapping) else headers)


def context_of(message: Any) -> Context:
    """The context in which the message was sent."""
    return extract(message.headers, context=Context(), getter=_READ)
