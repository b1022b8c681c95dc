"""The filter of a consumer: it gets messages of some types, or with some headers, and brokers send it no others.

A reader may search as well: for a key, and for a text.

The type of a message is the value of one header (`types/tasks`); the first of that name counts. A header is equal when
the message has one of that name and value, whatever else it has.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import FILTER_HEADER_BYTES_MAX, FILTER_HEADER_COUNT_MAX, FILTER_TEXT_BYTES_MAX
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
    #: None: any.
    key: bytes | None = None
    #: In lower case, as it is compared; empty: any.
    contains: str = ""

    @property
    def takes_all(self) -> bool:
        return self == NO_FILTER

    def matches(self, headers: Headers) -> bool:
        """Whether a message with these headers passes."""
        return all(pair in headers for pair in self.headers) and (not self.types or type_of(headers) in self.types)

    def is_text_in(self, payload: bytes, key: bytes | None, headers: Headers) -> bool:
        """Whether the text is in one of them; of a header its name counts, too, as `name=value`."""
        text = self.contains
        return (
            text in payload.decode("utf-8", "replace").lower()
            or (key is not None and text in key.decode("utf-8", "replace").lower())
            or any(text in f"{name}={value.decode('utf-8', 'replace')}".lower() for name, value in headers)
        )

    def __str__(self) -> str:
        parts = [f"types {', '.join(map(repr, self.types))}"] if self.types else []
        parts += [f"{name}={value.decode('utf-8', 'replace')!r}" for name, value in self.headers]
        parts += [] if self.key is None else [f"the key {self.key.decode('utf-8', 'replace')!r}"]
        parts += [f"the text {self.contains!r}"] if self.contains else []
        return " and ".join(parts)


NO_FILTER: Final = MessageFilter()


def type_of(headers: Headers) -> str:
    """Empty: it has none."""
    for name, value in headers:
        if name == TASK_TYPE_HEADER:
            return value.decode("utf-8", "replace")
    return ""


def checked_filter(
    types: Iterable[str], headers: WantedHeaders, key: bytes | None = None, contains: str = ""
) -> MessageFilter:
    """Raises InvalidArgumentError."""
    found = tuple(sorted(dict.fromkeys(_pairs(headers))))
    size_bytes = sum([len(name.encode()) + len(value) for name, value in found])
    if len(found) > FILTER_HEADER_COUNT_MAX or size_bytes > FILTER_HEADER_BYTES_MAX:
        raise InvalidArgumentError(
            f"the limit is {FILTER_HEADER_COUNT_MAX} headers in a filter, of {FILTER_HEADER_BYTES_MAX} bytes together"
        )
    if len(contains.encode()) > FILTER_TEXT_BYTES_MAX:
        raise InvalidArgumentError(f"the limit is {FILTER_TEXT_BYTES_MAX} bytes of text in a filter")
    return MessageFilter(checked_types(types), found, key, contains.lower())


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
