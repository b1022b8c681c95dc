"""The one shape of an error over HTTP, whatever went wrong: {"code", "message", "retryable"}.

Codes and statuses come from the table of errors. Where HTTP is more particular than the table (a method that
a path does not have, a body that is too large) the status is HTTP's and the code the table's nearest.
"""

from collections.abc import Mapping

from flotilla.frontends.http.framework.response import JSON_TYPE, Response, json_response
from flotilla.frontends.http.http1.asgi import Scope
from flotilla.types.errors import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    UNAVAILABLE,
    UNKNOWN,
    ConnectionClosedError,
    ErrorCode,
    FlotillaError,
)

#: How much of a path an error repeats.
_PATH_CHARS_MAX = 200


class UnsupportedMediaError(Exception):
    """A body of another kind than the operation takes. HTTP's own: no other door has kinds of bodies."""


def error_response(
    row: ErrorCode, message: str, *, status: int = 0, headers: Mapping[str, str] | None = None
) -> Response:
    """`status` is the row's own unless given."""
    body = {"code": row.name, "message": message, "retryable": row.retryable}
    return json_response(body, status or row.http_status, headers)


def refusal(error: FlotillaError) -> Response:
    if isinstance(error, ConnectionClosedError):
        # This door's own connections, not the client's: another node can do it.
        return error_response(UNAVAILABLE, "the node is stopping")
    headers = {"Retry-After": str(-(-error.retry_after_ms // 1000))} if error.retry_after_ms else None
    return error_response(error.row, str(error), headers=headers)


def unrouted(scope: Scope, status: int, what: str, headers: Mapping[str, str] | None = None) -> Response:
    """No such path, or no such method there."""
    row = NOT_FOUND if status == 404 else INVALID_ARGUMENT
    message = f"{what}: {scope['method']} {scope['path'][:_PATH_CHARS_MAX]}"
    return error_response(row, message, status=status, headers=headers)


def malformed(reason: str) -> tuple[str, bytes]:
    """Media type and body for bytes that are no HTTP request."""
    body = error_response(INVALID_ARGUMENT, reason).body
    assert isinstance(body, bytes)
    return JSON_TYPE, body


def fault_response() -> Response:
    """The program is wrong: that is reported elsewhere, and the client learns no more."""
    return error_response(UNKNOWN, "an internal error; the node's log has more")
