"""The filter of a consumer over HTTP: types and headers, in a body or in a query."""

from typing import Any, Final

from flotilla.frontends.http.api.record_view import HEADER
from flotilla.frontends.http.framework.operation import Parameter, array, text
from flotilla.frontends.http.framework.schema import Schema
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import FILTER_HEADER_BYTES_MAX, FILTER_HEADER_COUNT_MAX
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
)


def read_filter(query: dict[str, Any]) -> tuple[list[str], list[tuple[str, bytes]]]:
    """The types and headers of a query. Raises InvalidArgumentError."""
    headers: list[tuple[str, bytes]] = []
    for pair in query.get("headers", ()):
        name, colon, value = pair.partition(":")
        if not colon:
            raise InvalidArgumentError(f"the parameter headers has name:value, separated by commas, not {pair[:60]!r}")
        headers.append((name, value.encode()))
    return query.get("types", []), headers
