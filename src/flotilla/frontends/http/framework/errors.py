"""The one shape of an error over HTTP: {"code", "message", "retryable"}.

Codes and statuses come from the table of errors. Where HTTP is more specific than the table (a method that a path does
not have, a body that is too large), the status is HTTP's and the code the table's nearest.
"""

from collections.abc import Iterable, Mapping

from flotilla.frontends.http.framework.response import JSON_TYPE, Response, json_response
from flotilla.frontends.http.http1.asgi import Scope
from flotilla.types.errors import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    OVERLOADED,
    UNAVAILABLE,
    UNKNOWN,
    ConnectionClosedError,
    ErrorCode,
    FlotillaError,
)

#: How much of a path an error quotes.
_PATH_CHARS_MAX = 200


class UnsupportedMediaError(Exception):
    """A body of another media type than the operation takes. Only HTTP has media types."""


def error_response(
    row: ErrorCode, message: str, *, status: int = 0, headers: Mapping[str, str] | None = None
) -> Response:
    """`status` is the row's own unless given."""
    body = {"code": row.name, "message": message, "retryable": row.retryable}
    return json_response(body, status or row.http_status, headers)


def refusal(error: FlotillaError) -> Response:
    if isinstance(error, ConnectionClosedError):
        # The gateway's own connections are closed, not the client's: another node can answer.
        return error_response(UNAVAILABLE, "the node is stopping")
    headers = {"Retry-After": str(-(-error.retry_after_ms // 1000))} if error.retry_after_ms else None
    return error_response(error.row, str(error), headers=headers)


def not_found(scope: Scope) -> Response:
    return error_response(NOT_FOUND, f"there is nothing at {scope['path'][:_PATH_CHARS_MAX]}")


def not_allowed(scope: Scope, methods: Iterable[str]) -> Response:
    """The path has other methods only."""
    allowed = ", ".join(methods)
    message = f"{scope['method']} is not allowed at {scope['path'][:_PATH_CHARS_MAX]}; allowed: {allowed}"
    return error_response(INVALID_ARGUMENT, message, status=405, headers={"Allow": allowed})


def malformed(reason: str) -> tuple[str, bytes]:
    """Media type and body for bytes that are no HTTP request."""
    body = error_response(INVALID_ARGUMENT, reason).body
    assert isinstance(body, bytes)
    return JSON_TYPE, body


def busy(reason: str) -> tuple[str, bytes]:
    """Media type and body for a connection that is refused."""
    body = error_response(OVERLOADED, reason).body
    assert isinstance(body, bytes)
    return JSON_TYPE, body


def fault_response() -> Response:
    """A fault of the program: it is logged, and the client gets no details."""
    return error_response(UNKNOWN, "internal error; the log of the node has the details")
