"""The filter of a consumer over HTTP: types and headers, in a body or in a query.

Readers search by key and text as well.
"""

from typing import Any, Final, TypedDict

from flotilla.frontends.http.api.record_view import HEADER
from flotilla.frontends.http.framework.operation import Parameter, array, text
from flotilla.frontends.http.framework.schema import Schema
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import FILTER_HEADER_BYTES_MAX, FILTER_HEADER_COUNT_MAX, FILTER_TEXT_BYTES_MAX, KEY_BYTES_MAX
from flotilla.types.tasks import TASK_TYPE_BYTES_MAX, TASK_TYPES_MAX

WANTED_TYPES: Final[Schema] = array(
    text(0, TASK_TYPE_BYTES_MAX),
    0,
    TASK_TYPES_MAX,
    "Only messages of these types: the value of their header flotilla-task-type, empty for those without one.",
)
WANTED_HEADERS: Final[Schema] = array(
    HEADER, 0, FILTER_HEADER_COUNT_MAX, "Only messages that have all of these headers; in base64."
)
#: In a query values are text, because addresses are written by hand.
FILTER_QUERY: Final = (
    Parameter("types", WANTED_TYPES),
    Parameter(
        "headers",
        array(
            text(1, FILTER_HEADER_BYTES_MAX),
            0,
            FILTER_HEADER_COUNT_MAX,
            "Only records that have all of these headers, each as name:value, separated by commas.",
        ),
    ),
    Parameter("key", text(0, KEY_BYTES_MAX, "Only records with this key.")),
    Parameter(
        "contains",
        text(1, FILTER_TEXT_BYTES_MAX, "Only records that have this text in payload, key or headers, in any case."),
    ),
)


class FetchFilter(TypedDict):
    """The filter as Fetch takes it."""

    types: list[str]
    headers: list[tuple[str, bytes]]
    key: bytes | None
    contains: str


def read_filter(query: dict[str, Any]) -> FetchFilter:
    """The filter of a query. Raises InvalidArgumentError."""
    headers: list[tuple[str, bytes]] = []
    for pair in query.get("headers", ()):
        name, colon, value = pair.partition(":")
        if not colon:
            raise InvalidArgumentError(f"the parameter headers has name:value, separated by commas, not {pair[:60]!r}")
        headers.append((name, value.encode()))
    return {
        "types": query.get("types", []),
        "headers": headers,
        "key": query["key"].encode() if "key" in query else None,
        "contains": query.get("contains", ""),
    }
