"""The filter of a consumer: it gets messages of some types, or with some headers, and brokers send it no others.

The type of a message is the value of one header (`types/tasks`); the first of that name counts. A header is equal when
the message has one of that name and value, whatever else it has.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import FILTER_HEADER_BYTES_MAX, FILTER_HEADER_COUNT_MAX
from flotilla.types.records import Headers
from flotilla.types.tasks import TASK_TYPE_HEADER, checked_types

#: Headers as callers give them.
WantedHeaders: TypeAlias = Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]


class MessageFilter(NamedTuple):
    """In order and each once, so that equal filters are equal."""

    #: One of these; empty: any.
    types: tuple[str, ...] = ()
    #: All of these.
    headers: Headers = ()

    @property
    def takes_all(self) -> bool:
        return not self.types and not self.headers

    def matches(self, headers: Headers) -> bool:
        """Whether a message with these headers passes."""
        return all(pair in headers for pair in self.headers) and (not self.types or type_of(headers) in self.types)

    def __str__(self) -> str:
        parts = [f"types {', '.join(map(repr, self.types))}"] if self.types else []
        parts += [f"{name}={value.decode('utf-8', 'replace')!r}" for name, value in self.headers]
        return " and ".join(parts)


NO_FILTER: Final = MessageFilter()


def type_of(headers: Headers) -> str:
    """Empty: it has none."""
    for name, value in headers:
        if name == TASK_TYPE_HEADER:
            return value.decode("utf-8", "replace")
    return ""


def checked_filter(types: Iterable[str], headers: WantedHeaders) -> MessageFilter:
    """Raises InvalidArgumentError."""
    found = tuple(sorted(dict.fromkeys(_pairs(headers))))
    size_bytes = sum([len(name.encode()) + len(value) for name, value in found])
    if len(found) > FILTER_HEADER_COUNT_MAX or size_bytes > FILTER_HEADER_BYTES_MAX:
        raise InvalidArgumentError(
            f"the limit is {FILTER_HEADER_COUNT_MAX} headers in a filter, of {FILTER_HEADER_BYTES_MAX} bytes together"
        )
    return MessageFilter(checked_types(types), found)


def _pairs(headers: WantedHeaders) -> Iterable[tuple[str, bytes]]:
    try:
        for name, value in headers.items() if isinstance(headers, Mapping) else headers:
            known = value.encode() if isinstance(value, str) else value
            if not isinstance(known, bytes):
                raise TypeError
            name.encode()
            yield name, known
    except (TypeError, ValueError, AttributeError):
        raise InvalidArgumentError(
            "the headers of a filter are names with values of text or bytes, as in {'region': 'eu'}"
        ) from None
